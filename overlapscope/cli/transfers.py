"""``overlapscope transfers``: draw the time of each way to copy tensors to the GPU, from measurements on a machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.messages import ExitCode, complain, refuse_to_replace
from overlapscope.errors import OverlapscopeError, TraceNotFound, UnknownTraceFormat


def transfers_command(
    measured: Annotated[
        Path, typer.Argument(metavar="JSON", help="Output of python -m overlapscope.workloads.pinning_sweep.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure: .png, .svg or .pdf.")],
) -> None:
    """Draw the time of each way to copy tensors to the GPU, by their size and for many small ones."""
    from overlapscope.plot.transfers import save_transfers

    try:
        refuse_to_replace(measured, output, what="what was measured")
        save_transfers(_read(measured), output)
    except OverlapscopeError as error:
        complain(error)
        raise typer.Exit(ExitCode.UNUSABLE) from error
    except (KeyError, TypeError, ValueError) as error:
        complain(UnknownTraceFormat(f"{measured}: lacks data for the figure ({error!r})"))
        raise typer.Exit(ExitCode.UNUSABLE) from error


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceNotFound(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise UnknownTraceFormat(f"{path}: is no JSON") from error
    if not isinstance(found, dict) or not str(found.get("schema")).startswith("overlapscope.transfers/"):
        raise UnknownTraceFormat(f"{path}: not written by overlapscope.workloads.pinning_sweep")
    return found
