"""``overlapscope export``: a trace for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.messages import ExitCode, complain, refuse_to_replace, say
from overlapscope.errors import OutputError, OverlapscopeError
from overlapscope.read.opening import open_trace


class Target(StrEnum):
    """Which tool it is for."""

    PERFETTO = "perfetto"
    PARQUET = "parquet"


def export_command(
    path: Annotated[Path, typer.Argument(help="Kineto JSON or Nsight Systems SQLite.")],
    to: Annotated[Target, typer.Option(help="perfetto: JSON for ui.perfetto.dev; parquet: a folder of tables.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file (gzip if it ends in .gz), or the folder.")],
    range_name: Annotated[str | None, typer.Option("--range", help="Findings of the ranges of this name.")] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
) -> None:
    """Write a trace so that other tools can read it.

    For Perfetto it has our own tracks beside the recorded ones: findings, hidden and exposed copies, blocked threads,
    what devices waited for, queued work and copies in flight.
    """
    try:
        refuse_to_replace(path, output)
        if to is Target.PARQUET and range_name is not None:
            raise OutputError("--range is about findings, and tables have none: leave it out")
        trace = open_trace(path)
        if to is Target.PARQUET:
            from overlapscope.export.parquet import save_parquet

            files = save_parquet(trace, output)
            say(f"{len(files)} files in {output}")
            return
        from overlapscope.diagnosis.engine import diagnose
        from overlapscope.export.perfetto import save_perfetto

        save_perfetto(diagnose(trace, range_name), output)
        say(f"{output}: open it at ui.perfetto.dev")
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error
