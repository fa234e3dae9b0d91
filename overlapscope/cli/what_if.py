"""``overlapscope what-if``: simulate a program with some changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.audit import Format
from overlapscope.cli.messages import ExitCode, complain, say
from overlapscope.errors import OverlapscopeError
from overlapscope.formatting import safe, time
from overlapscope.read.opening import open_trace
from overlapscope.report.critical_path import critical_path_lines
from overlapscope.whatif.catalogue import NAMES, change_of
from overlapscope.whatif.what_if import what_if

_CHANGES = f"{', '.join(NAMES)}; =N for prefetch and faster-link (GB/s); :within=NAME,stream=N,source=TEXT limits it."


def what_if_command(  # noqa: PLR0913, PLR0917 - options of a command
    path: Annotated[Path, typer.Argument(help="Kineto JSON or Nsight Systems SQLite.")],
    change: Annotated[list[str], typer.Option(help=_CHANGES)],
    within: Annotated[
        str | None, typer.Option("--within", "--range", help="Predict for the ranges of this name only.")
    ] = None,
    explain: Annotated[bool, typer.Option(help="Show the critical path before and after the changes.")] = False,
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
        for text in change:
            _note_old_name(text)
        prediction = what_if(open_trace(path), change, within)
        paths = {name: prediction.critical_path(changed=name == "after") for name in ("before", "after") if explain}
        if output_format is Format.JSON:
            shown = {"critical_path": {name: each.to_dict() for name, each in paths.items()}} if explain else {}
            sys.stdout.write(json.dumps(prediction.to_dict() | shown, indent=1, allow_nan=False) + "\n")
        else:
            made_of = ", ".join(f"{name} {time(ns)}" for name, ns in prediction.made_of.items())
            lines = [
                prediction.sentence,
                f"  critical path: {made_of}",
                *(f"  {text}" for text in prediction.assumptions),
                *(line for name, each in paths.items() for line in critical_path_lines(name, each)),
            ]
            typer.echo("\n".join(map(safe, lines)))
        if figure is not None:
            save_before_after(prediction, figure)
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error


def _note_old_name(text: str) -> None:
    """Say what a change is called now, where it was asked for by an old name."""
    name = text.partition(":")[0].partition("=")[0].strip()
    kind = change_of(name)
    if kind is not None and kind.name != name:
        say(f"{name} is called {kind.name} now; the old name is still accepted")
    if ":range=" in text or ",range=" in text:
        say("range= is called within= now; the old name is still accepted")
