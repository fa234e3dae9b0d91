"""``overlapscope doctor``: what traces can answer and what not, and the setting that would help most."""

from __future__ import annotations

from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.options import Output, trace_files
from overlapscope.cli.output import ExitCode, deliver_json, refuse_to_replace, render_to

if TYPE_CHECKING:
    from rich.console import Console

    from overlapscope.fitness.fitness import Fitness

SCHEMA = "overlapscope.doctor/1"
DoctorFormat = StrEnum("DoctorFormat", ["TEXT", "JSON"])
"""Output format of the answers."""


@command("doctor", without=["cache"])
def doctor_command(
    paths: Annotated[
        list[str], typer.Argument(metavar="TRACE...", help="Traces, folders of traces, or patterns in quotes.")
    ],
    output_format: Annotated[
        DoctorFormat, typer.Option("--format", help="text, or json with the numbers behind each answer.")
    ] = DoctorFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    output: Output = None,
    run: Run = Run(),
) -> ExitCode:
    """List what a trace can answer and what not, with the setting of the profiler that would help most.

    Exit status: 0 when all traces could be read, 1 when some could not, 2 when none could.
    """
    from overlapscope.fitness.fitness import fitness_of

    answers: list[Fitness] = []
    failures: list[dict[str, str]] = []
    files = list(chain.from_iterable(map(trace_files, paths)))
    for path in files:
        refuse_to_replace(path, output)
    for path in files:
        with run.surviving(path, failures), run.opened(path) as (trace, _):
            answers.append(fitness_of(trace))
    if as_json or output_format is DoctorFormat.JSON:
        _write_json(answers, failures, output)
    elif answers:
        render_to(output, lambda console: _render(answers, console))
    return ExitCode.UNUSABLE if not answers else ExitCode.PARTIAL if failures else ExitCode.CLEAN


def _write_json(answers: list[Fitness], failures: list[dict[str, str]], output: Path | None) -> None:
    from overlapscope.report.data import source

    traces = [{"source": source(each.trace), "fit": each.to_dict()} for each in answers]
    result = {"schema": SCHEMA, "traces": traces}
    deliver_json(result | ({"errors": failures} if failures else {}), output)


def _render(answers: list[Fitness], console: Console) -> None:
    from overlapscope.document.text import show_lines
    from overlapscope.fitness.fitness import fit_parts

    for number, each in enumerate(answers):
        if number:
            console.rule(style="dim")
        show_lines(fit_parts(each), console)
