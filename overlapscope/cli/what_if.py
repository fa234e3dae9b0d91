"""``overlapscope what-if``: simulate a program with some changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.audit import Format
from overlapscope.cli.messages import ExitCode, complain
from overlapscope.errors import OverlapscopeError
from overlapscope.formatting import safe, time
from overlapscope.read.opening import open_trace
from overlapscope.whatif.catalogue import NAMES
from overlapscope.whatif.what_if import what_if

_CHANGES = f"{', '.join(NAMES)}; =N for prefetch and faster-link (GB/s); :within=NAME,stream=N,source=TEXT limits it."


def what_if_command(
    path: Annotated[Path, typer.Argument(help="Kineto JSON or Nsight Systems SQLite.")],
    change: Annotated[list[str], typer.Option(help=_CHANGES)],
    within: Annotated[
        str | None, typer.Option("--within", "--range", help="Predict for the ranges of this name only.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="text or json.")] = Format.TEXT,
    figure: Annotated[Path | None, typer.Option(help="Draw the timeline before and after: .png, .svg or .pdf.")] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
) -> None:
    """Predict the time of a program with some changes, by simulating its trace."""
    from overlapscope.plot.before_after import save_before_after
    from overlapscope.plot.files import check_suffix

    try:
        if figure is not None:
            check_suffix(figure)
        prediction = what_if(open_trace(path), change, within)
        if output_format is Format.JSON:
            sys.stdout.write(json.dumps(prediction.to_dict(), indent=1, allow_nan=False) + "\n")
        else:
            made_of = ", ".join(f"{name} {time(ns)}" for name, ns in prediction.made_of.items())
            lines = [
                prediction.sentence,
                f"  critical path: {made_of}",
                *(f"  {text}" for text in prediction.assumptions),
            ]
            typer.echo("\n".join(map(safe, lines)))
        if figure is not None:
            save_before_after(prediction, figure)
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error
