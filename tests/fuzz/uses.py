"""What is done with a mutant: every command of the registry with random options, and what only Python offers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args, get_type_hints
from unittest.mock import patch

import typer
from typer.testing import CliRunner

import overlapscope
from overlapscope.cache.store import Store, file_state
from overlapscope.cli.main import app
from overlapscope.cli.output import ExitCode
from overlapscope.diagnosis.catalogue import RULES
from overlapscope.fleet.executors import work
from overlapscope.measure.definitions import their_overlap
from overlapscope.whatif.changes import NAMES
from tests.fuzz import judge, results

_NOT_OF_TRACES = {"explain", "demo", "workloads", "record", "fleet reduce"}
"""Commands that read no trace; ``fleet map`` reduces too."""
_LEFT_OUT = {"open", "debug", "help", "scheduler", "shard", "workers", "baseline", "update_baseline", "hide"}
_OF_PACKING = {"nsys": {"trailing-bytes"}}
"""Warnings that scrubbing says itself: a database has no place for them."""
_LIMITS = """
[check]
scalar_reads_per_step = 1
synchronisations_per_step = 2
pageable_bytes = 1000
blocked_share = 0.2
hidden_share = 0.1
saving_share = 0.1
idle_share = { all = 0.2, copy_call = 0.0, OVL001 = 0.01 }
no_findings = ["OVL001", "OVL014", "scalar-read"]
[check.ranges."*"]
idle_share.all = 0.1
"""


class Found(Exception):
    """Something is not as it has to be."""


@dataclass(frozen=True)
class Place:
    """A mutant as a file, another one, the sample of which it was made, and a folder for results."""

    path: Path
    other: Path
    sample: Path
    folder: Path
    rng: random.Random

    def file(self, name: str) -> str:
        """A file for a result."""
        return str(self.folder / name)


@dataclass(frozen=True)
class Use:
    """Something to do with a mutant; it raises `Found`, or whatever nobody catches."""

    name: str
    run: Callable[[Place], None]


@cache
def uses() -> tuple[Use, ...]:
    """Every use, by name."""
    commands = [Use(name, lambda place, of=(name, command): _command(place, *of)) for name, command in leaves()]
    ours = (_read, _theirs, _scrubbed, _scrubbed_audit, _baseline, _cached)
    return (*commands, *(Use(run.__name__.strip("_").replace("_", " "), run) for run in ours))


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command that reads traces, by its name."""
    pending = [((), typer.main.get_command(app))]
    while pending:
        name, command = pending.pop(0)
        if hasattr(command, "commands"):
            pending += [((*name, word), each) for word, each in command.commands.items()]
        elif " ".join(name) not in _NOT_OF_TRACES:
            yield " ".join(name), command


def _command(place: Place, name: str, command: Any) -> None:
    arguments = [*name.split(), *_arguments(place, command)]
    with patch(
        "overlapscope.fleet.executors.Processes.__call__",
        lambda _, folder, sources: map(partial(work, folder), sources),
    ):
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    shown = " ".join(arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Found(shown) from result.exception
    if result.exit_code not in list(ExitCode):
        raise Found(f"{shown}: exit status {result.exit_code}: {result.output[-300:]}")
    if "Traceback" in result.output:
        raise Found(f"{shown}: shows a traceback")
    if result.exit_code != ExitCode.UNUSABLE:
        if "--format json" in shown:
            output = Path(place.file("o.txt"))
            _refuse(shown, results.of_json(output.read_text() if output.exists() else result.stdout))
        if "--format csv" not in shown:
            _refuse(shown, results.of_text(result.output))
        _refuse(shown, results.of_folder(place.folder))
    if re.search(r"cannot be used: \w+(Error|Warning|Exception):", result.output):
        raise Found(f"{shown}: an error inside: {result.output[-300:]}")
    if result.exit_code == ExitCode.UNUSABLE and not result.output.strip():
        raise Found(f"{shown}: fails without a word")


def _arguments(place: Place, command: Any) -> list[str]:
    """Arguments and options of a command, by the names of its parameters."""
    given: list[str] = []
    for parameter in command.params:
        if parameter.name in _LEFT_OUT or not (parameter.required or place.rng.random() < 0.35):
            continue
        value = _value(place, parameter, command.name)
        if value is None:
            continue
        if parameter.param_type_name == "argument":
            given.append(value)
        elif getattr(parameter, "is_flag", False):
            given.append(place.rng.choice((*parameter.opts, *parameter.secondary_opts)))
        else:
            given += [max(parameter.opts, key=len), value]
    return _without_contradiction(given, place.rng)


def _value(place: Place, parameter: Any, command: str | None) -> str | None:
    """A value for a parameter; None where this one is left out."""
    rng, name = place.rng, parameter.name
    makers: dict[str, Callable[[], str]] = {
        **dict.fromkeys(("path", "source", "before", "measured"), lambda: str(place.path)),
        **dict.fromkeys(("paths", "names"), lambda: rng.choice((str(place.path), str(place.path.parent)))),
        "after": lambda: str(rng.choice((place.path, place.sample, place.other))),
        **dict.fromkeys(("change", "what_if"), lambda: _change(rng)),
        "predicted": lambda: rng.choice(("plan", _change(rng))),
        **dict.fromkeys(("within", "show_range"), lambda: rng.choice(("*", "step*", "ProfilerStep#1", "nothing"))),
        **dict.fromkeys(("step", "device", "occurrence", "stream", "thread"), lambda: str(rng.choice((0, 1, 7)))),
        **dict.fromkeys(("from_ms", "to_ms"), lambda: str(rng.choice((0, 0.5, 3, 1e12, -1)))),
        "top": lambda: str(rng.choice((1, 3))),
        "finding": lambda: rng.choice(RULES).code,
        "fail_on": lambda: rng.choice(("high", "5%")),
        "config": lambda: _limits(place),
        "target": lambda: place.file(rng.choice(("out.json", "out.json.gz"))),
        "html": lambda: place.file("out.html"),
        "page": lambda: place.file("out.html"),
        "figure": lambda: place.file(rng.choice(("out.png", "out.svg"))),
        "junit": lambda: place.file("out.xml"),
        "summary": lambda: place.file("out.md"),
        "output": lambda: place.file(
            {"timeline": "o.svg", "transfers": "o.svg", "map": "o", "report": "o.html"}.get(command or "", "o.txt")
        ),
    }
    if name in makers:
        return makers[name]()
    if choices := _choices(command or "", name):
        return rng.choice(choices)
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.required:
        raise Found(f"the fuzzer has no value for {name} of {command}")
    return None


@cache
def _choices(command: str, parameter: str) -> list[str]:
    """The values of a parameter that is one of an enum's; none for others."""
    groups = [app, *(group.typer_instance for group in app.registered_groups if group.typer_instance is not None)]
    entries = [entry for group in groups for entry in group.registered_commands if entry.name == command]
    hint = get_type_hints(entries[0].callback)[parameter] if entries and entries[0].callback else None
    kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and issubclass(kind, Enum)]
    return [str(member.value) for kind in kinds for member in kind]


def _without_contradiction(given: list[str], rng: random.Random) -> list[str]:
    """At most one of the options that choose a window."""
    windows = [option for option in ("--within", "--step", "--from", "--to", "--finding") if option in given]
    for option in set(windows) - {rng.choice(windows)} if windows else ():
        place = given.index(option)
        del given[place : place + 2]
    return given


def _change(rng: random.Random) -> str:
    return rng.choice(NAMES) + rng.choice(("", "", "", ":stream=7", ":within=*"))


def _limits(place: Place) -> str:
    path = place.folder / "limits.toml"
    path.write_text(_LIMITS)
    return str(path)


def _refuse(shown: str, complaints: list[str]) -> None:
    if complaints:
        raise Found(f"{shown}: {'; '.join(complaints[:3])}")


def _read(place: Place) -> None:
    """The tables keep what they promise."""
    trace = _opened(place.path)
    if trace is not None:
        complaints = judge.of_tables(trace)
        if complaints:
            raise Found("; ".join(complaints))
        for _, table in trace.tables():
            table.to_arrow(), table.to_pandas(), table.to_dict()


def _theirs(place: Place) -> None:
    trace = _opened(place.path)
    if trace is not None:
        for definition in ("hta", "tracelens"):
            for last in (True, False):
                rows = their_overlap(trace, definition, last_step=last)  # type: ignore[arg-type]
                _refuse(definition, judge.complaints([row.to_dict() for row in rows]))


def _scrubbed(place: Place) -> None:
    """A scrubbed trace has the figures of the original."""
    target = place.folder / "scrubbed"
    result = CliRunner().invoke(app, ["scrub", str(place.path), str(target)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Found("scrub") from result.exception
    trace = _opened(place.path)
    if result.exit_code == ExitCode.UNUSABLE or trace is None:
        return
    scrubbed = _opened(target)
    if scrubbed is None:
        raise Found("what was scrubbed cannot be read")
    difference = judge.difference(trace, scrubbed)
    if difference:
        raise Found(f"scrubbing changed {difference}")
    if trace.metadata.schema_version == "list" and trace.health.damaged:
        return  # a list has no place to say more than that it is damaged
    lost = _OF_PACKING.get(trace.metadata.format, set())
    kept = tuple(warning for warning in trace.health if warning.code not in lost)
    if replace(trace.health, warnings=kept) != scrubbed.health:
        raise Found(f"scrubbing changed {set(trace.health) ^ set(scrubbed.health) or 'how much was read'}")
    if overlapscope.doctor(trace).to_dict() != overlapscope.doctor(scrubbed).to_dict():
        raise Found("scrubbing changed what doctor says")


def _scrubbed_audit(place: Place) -> None:
    """An audit of a scrubbed trace has the numbers of the original."""
    target = place.folder / "scrubbed"
    status = CliRunner().invoke(app, ["scrub", str(place.path), str(target)]).exit_code
    if status == ExitCode.UNUSABLE:
        return
    one, other = (CliRunner().invoke(app, ["audit", str(path), "--format", "json"]) for path in (place.path, target))
    if one.exit_code == ExitCode.UNUSABLE or status == ExitCode.PARTIAL:
        return
    left, right = (list(_numbers(json.loads(result.stdout))) for result in (one, other))
    wrong = [f"{mine} {theirs}" for mine, theirs in zip(left, right, strict=False) if mine != theirs]
    _refuse("audit of what was scrubbed", wrong or ([] if len(left) == len(right) else ["another number of figures"]))


def _numbers(value: Any, where: str = "") -> Iterator[tuple[str, float]]:
    """Every number in JSON data, with its key."""
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(entry, f"{where}.{key}")
    elif isinstance(value, int | float):
        yield where, value


def _baseline(place: Place) -> None:
    """A trace is as good as its own baseline."""
    config = place.folder / "limits.toml"
    config.write_text("[check]\nnot_measured = 'pass'\nidle_share.all = 1.0\n")
    command = ["check", str(place.path), "--config", str(config), "--baseline", place.file("baseline.json")]
    if CliRunner().invoke(app, [*command, "--update-baseline"]).exit_code in {ExitCode.CLEAN, ExitCode.PARTIAL}:
        again = CliRunner().invoke(app, command)
        if again.exit_code not in {ExitCode.CLEAN, ExitCode.PARTIAL}:
            raise Found(f"its own baseline fails with {again.exit_code}: {again.output[-300:]}")


def _cached(place: Place) -> None:
    """A trace from the cache is the one that was read."""
    trace = _opened(place.path)
    state = file_state(place.path)
    if trace is not None and state is not None:
        store = Store(place.folder / "cache")
        store.keep(trace, state, "content")
        kept = store.load(place.path, state, "content")
        if kept is not None and (judge.difference(trace, kept) or kept.health != trace.health):
            raise Found(f"the cache changed {judge.difference(trace, kept) or 'the health'}")


def _opened(path: Path) -> Any:
    try:
        return overlapscope.open_trace(path)
    except overlapscope.TraceError:
        return None
