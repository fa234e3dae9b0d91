"""Each fact of a trace and a window is derived once, whichever door asks for it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from typer.testing import CliRunner

import overlapscope
from overlapscope import Analysis, Trace, Window, analyse, caption, compare, what_if
from overlapscope.cli.main import app
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.html.page import report_html
from overlapscope.measure.grouping import once_for_each
from overlapscope.notebook import reprs
from overlapscope.pytest_plugin.run import Run, Settings
from tests.conftest import SAMPLES

SAMPLE = SAMPLES / "dataloader_train-pageable-blocking.json.gz"
FIXED = SAMPLES / "dataloader_train-pinned-non-blocking.json.gz"
RANGE = "dataloader_train"
OF_TRACE = {
    "build_graph": "overlapscope.dependencies.build",
    "blocked_from_ns": "overlapscope.measure.host",
    "HostActivity": "overlapscope.diagnosis.host_activity",
}
"""Functions whose work is done once for a trace, and their modules."""
OF_WINDOW = {"copy_facts": "overlapscope.measure.copies", "Baseline.of": "overlapscope.whatif.baseline"}
"""Functions whose work is done once for a window of a trace, and their modules."""
DIAGNOSIS = {*OF_TRACE, "copy_facts"}
"""What a diagnosis without simulations is made of."""
EVERY = {*OF_TRACE, *OF_WINDOW}

Derived = Counter[tuple[str, int, bytes]]
"""How often each function did its work, by the number of the trace and by the window."""


@contextmanager
def counting(*traces: Trace) -> Iterator[Derived]:
    """Count what is derived of these traces and of those that are opened meanwhile; not of simulated ones."""
    counts, known = Derived(), list(traces)
    every = list(_modules())
    with pytest.MonkeyPatch.context() as patch:
        opening = import_module("overlapscope.read.opening").open_trace
        _put(patch, every, opening, _noting(opening, known))
        for name, home in (OF_TRACE | OF_WINDOW).items():
            owner, _, method = name.partition(".")
            function = getattr(import_module(home), owner)
            if method:
                patch.setattr(function, method, staticmethod(_counted(getattr(function, method), name, known, counts)))
            elif hasattr(function, "__wrapped__"):
                _put(patch, every, function, once_for_each(_counted(function.__wrapped__, name, known, counts)))
            else:
                _put(patch, every, function, _counted(function, name, known, counts))
        yield counts


def _modules() -> Iterator[Any]:
    """The modules of the package that analyse, all imported: one that is imported later would keep what it counts."""
    for module in walk_packages(overlapscope.__path__, "overlapscope."):
        if not module.name.startswith(("overlapscope.capture", "overlapscope.workloads", "overlapscope.__main__")):
            import_module(module.name)
    return (module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "overlapscope")


def _put(patch: pytest.MonkeyPatch, modules: list[Any], function: Any, other: Any) -> None:
    for module in modules:
        if vars(module).get(function.__name__) is function:
            patch.setattr(module, function.__name__, other)


def _noting(opening: Callable[..., Trace], known: list[Trace]) -> Callable[..., Trace]:
    @wraps(opening)
    def noted(*args: Any, **options: Any) -> Trace:
        known.append(opening(*args, **options))
        return known[-1]

    return noted


def _counted(function: Callable[..., Any], name: str, known: list[Trace], counts: Derived) -> Callable[..., Any]:
    @wraps(function)
    def counted(first: Any, *args: Any, **options: Any) -> Any:
        trace = getattr(first, "trace", first)
        windows = [each for each in chain(args, options.values()) if isinstance(each, Window)]
        for number, each in enumerate(known):
            if trace is each or trace is each.api_calls:
                counts[name, number, b"".join(map(_key, windows))] += 1
        return function(first, *args, **options)

    return counted


def _key(window: Window) -> bytes:
    times = (window.start_ns, window.end_ns, window.process)
    return repr((window.name, window.device)).encode() + b"".join(column.tobytes() for column in times)


def assert_once(counts: Derived, wanted: set[str], traces: int = 1, windows: int = 1) -> None:
    """Assert that what is wanted, and nothing else, was derived once for each of the traces and windows."""
    assert {key: count for key, count in counts.items() if count > 1} == {}
    often = {name: traces * (windows if name in OF_WINDOW else 1) for name in wanted}
    assert Counter(name for name, *_ in counts) == often


def test_an_analysis_derives_each_fact_once() -> None:
    trace = overlapscope.open_trace(SAMPLE)
    with counting(trace) as counts:
        analysis = analyse(trace)
        assert not counts
        assert isinstance(analysis, Analysis)
        assert isinstance(analysis.recorded, Diagnosis)
        assert_once(counts, DIAGNOSIS)
        assert analysis.audit().diagnosis.plan is not None
        analysis.what_if("pin")
        assert all(map(len, (analysis.copies, analysis.gaps, analysis.findings, analysis.ranges)))
        report_html(analysis.audit())
        caption(analysis)
    assert_once(counts, EVERY)


def test_a_comparison_derives_each_fact_once_for_each_trace() -> None:
    before, after = (overlapscope.open_trace(path) for path in (SAMPLE, FIXED))
    with counting(before, after) as counts:
        assert compare(before, after, RANGE, predicted="plan").reached is not None
    assert_once(counts, EVERY, traces=2)


def test_windows_of_a_trace_share_what_does_not_depend_on_them() -> None:
    analysis = analyse(overlapscope.open_trace(SAMPLE))
    with counting(analysis.trace) as counts:
        for name in (None, RANGE, "ProfilerStep#1", RANGE):
            assert analysis.within(name).recorded.window is not None
    assert_once(counts, DIAGNOSIS, windows=3)


BUDGET = f"""
[check]
pageable_bytes = 0
saving_share = 0.0
[check.ranges.{RANGE}]
hidden_share = 1.0
saving_share = 0.0
"""
COMMANDS = {
    "audit": (EVERY, 1),
    f"audit --within {RANGE} --figure a.svg": (EVERY, 1),
    "audit --format json --top 1": (EVERY, 1),
    "audit --from 1 --to 40 --format csv": (EVERY, 1),
    "what-if --change pin --explain": ({"build_graph", "blocked_from_ns", "Baseline.of"}, 1),
    "what-if --change pin --step 1 --figure a.svg": (EVERY, 1),
    "report": (EVERY, 1),
    f"report --within {RANGE}": (EVERY, 1),
    "check --config limits.toml": (EVERY, 2),
    "check --config limits.toml --baseline b.json --update-baseline": (EVERY, 2),
    "timeline -o a.svg": (DIAGNOSIS, 1),
    f"timeline -o a.svg --within {RANGE} --what-if pin": (EVERY, 1),
    "copies": (DIAGNOSIS, 1),
    "gaps --step 1": (DIAGNOSIS, 1),
    "findings": (EVERY, 1),
    "ranges": ({"blocked_from_ns"}, 1),
    "export --format perfetto -o a.json": (EVERY, 1),
    "export --format csv -o tables": (EVERY, 1),
}
"""Commands about one trace, with what they derive, and of how many windows."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limits.toml").write_text(BUDGET)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_derives_each_fact_once(line: str) -> None:
    wanted, windows = COMMANDS[line]
    name, *options = line.split()
    with counting() as counts:
        result = CliRunner().invoke(app, [name, str(SAMPLE), *options])
    assert result.exit_code in {0, 3}, result.output
    assert_once(counts, wanted, windows=windows)


@pytest.mark.usefixtures("folder")
def test_the_figure_of_a_finding_derives_each_fact_once() -> None:
    """Its caption is about the part that is shown, which is another window."""
    with counting() as counts:
        result = CliRunner().invoke(app, ["timeline", str(SAMPLE), "-o", "a.svg", "--finding", "OVL001"])
    assert result.exit_code == 0, result.output
    assert set(counts.values()) == {1}
    assert Counter(name for name, *_ in counts) == dict.fromkeys(EVERY, 1) | {"copy_facts": 2}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", ["", f"--within {RANGE} --predicted plan --html a.html --figure a.svg"])
def test_a_comparing_command_derives_each_fact_once_for_each_trace(options: str) -> None:
    with counting() as counts:
        result = CliRunner().invoke(app, ["compare", str(SAMPLE), str(FIXED), *options.split()])
    assert result.exit_code == 0, result.output
    assert_once(counts, EVERY, traces=2)


def test_what_a_notebook_shows_derives_each_fact_once() -> None:
    with counting() as counts:
        analysis = analyse(SAMPLE)
        audit = analysis.audit()
        for shown in (reprs.analysis_html(analysis), reprs.audit_html(audit), reprs.diagnosis_html(audit.diagnosis)):
            assert "<img" in shown
    assert_once(counts, EVERY)


def test_a_prediction_in_a_notebook_derives_each_fact_once() -> None:
    with counting() as counts:
        assert "<img" in reprs.prediction_html(what_if(SAMPLE, "pin", RANGE))
    assert_once(counts, EVERY)


def test_a_trace_in_a_notebook_derives_each_fact_once() -> None:
    with counting() as counts:
        assert "<img" in reprs.trace_html(overlapscope.open_trace(SAMPLE))
    assert_once(counts, DIAGNOSIS)


def test_assertions_of_a_run_derive_each_fact_once(tmp_path: Path) -> None:
    places = (tmp_path, tmp_path / "figure.svg", tmp_path / "baseline.json")
    run = Run(SAMPLE, Settings(*places, update_baseline=True, require_gpu=False, root=tmp_path))
    with counting() as counts:
        for within in (None, RANGE):
            run.assert_baseline(within)
            for assertion in (run.assert_pageable, run.assert_syncs):
                with pytest.raises(AssertionError, match="figure"):
                    assertion(0, within=within)
        with pytest.raises(AssertionError, match="figure"):
            run.assert_saving(0.0, within=RANGE)
        assert run.audit.diagnosis.findings
    assert_once(counts, EVERY, windows=2)
