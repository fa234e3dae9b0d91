"""``overlapscope doctor``: what traces can answer and what not, and the setting that would help most."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.messages import ExitCode, complain, complaining, refuse_to_replace
from overlapscope.cli.options import Debug, Output, Quiet
from overlapscope.cli.output import deliver_json, print_lines, render_to
from overlapscope.cli.progress import phases
from overlapscope.cli.trace_files import trace_files
from overlapscope.errors import OverlapscopeError

if TYPE_CHECKING:
    from rich.console import Console

    from overlapscope.fitness.fitness import Fitness

SCHEMA = "overlapscope.doctor/1"


def doctor_command(
    paths: Annotated[
        list[str], typer.Argument(metavar="TRACE...", help="Traces, folders of traces, or patterns in quotes.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with the numbers behind each answer.")] = False,
    output: Output = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List what a trace can answer and what not, with the setting of the profiler that would help most.

    Exit status: 0 when all traces could be read, 1 when some could not, 2 when none could.
    """
    found: list[Fitness] = []
    failures: list[dict[str, str]] = []
    with complaining(debug=debug):
        files = list(chain.from_iterable(trace_files(path) for path in paths))
        for path in files:
            refuse_to_replace(path, output)
        for path in files:
            try:
                found.append(_examined(path, quiet=quiet))
            except OverlapscopeError as error:
                complain(error, debug=debug)
                failures.append({"path": str(path), "code": error.code, "message": str(error)})
        if as_json:
            _write_json(found, failures, output)
        elif found:
            render_to(output, lambda console: _render(found, console))
    raise typer.Exit(ExitCode.UNUSABLE if not found else ExitCode.PARTIAL if failures else ExitCode.CLEAN)


def _examined(path: Path, *, quiet: bool) -> Fitness:
    from overlapscope.fitness.fitness import doctor
    from overlapscope.read.opening import open_trace

    with phases(path, quiet=quiet) as progress:
        progress.begin("reading")
        return doctor(open_trace(path, progress=progress.read))


def _write_json(found: list[Fitness], failures: list[dict[str, str]], output: Path | None) -> None:
    from overlapscope.report.data import source

    traces = [{"source": source(each.trace), "fit": each.to_dict()} for each in found]
    result = {"schema": SCHEMA, "traces": traces}
    deliver_json(result | ({"errors": failures} if failures else {}), output)


def _render(found: list[Fitness], console: Console) -> None:
    from overlapscope.fitness.text import lines

    for number, each in enumerate(found):
        if number:
            console.rule(style="dim")
        print_lines(lines(each), console)
