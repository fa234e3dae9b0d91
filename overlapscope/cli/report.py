"""``overlapscope report``: write everything about a trace into one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.messages import ExitCode, complain, refuse_to_replace, say
from overlapscope.errors import OverlapscopeError
from overlapscope.read.opening import open_trace


def report_command(
    path: Annotated[Path, typer.Argument(help="Kineto JSON or Nsight Systems SQLite.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    within: Annotated[
        str | None, typer.Option("--within", "--range", help="Only the ranges of this name (* and ? match).")
    ] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
) -> None:
    """Write an HTML report: verdict, plan, findings with their fixes, tables, and an interactive timeline.

    The page is one file that needs no network. It names kernels, ranges and source lines as the trace does.
    """
    from overlapscope.html.page import save_report
    from overlapscope.report.content import audit

    try:
        refuse_to_replace(path, output)
        save_report(audit(open_trace(path), within), output)
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error
    say(f"{output}: open it in a browser")
