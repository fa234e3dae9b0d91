"""``overlapscope transfers``: the figure of the guide on pinned memory, from numbers of one's own machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.messages import ExitCode, complain
from overlapscope.errors import OverlapscopeError, TraceNotFound, UnknownTraceFormat


def transfers_command(
    measured: Annotated[
        Path, typer.Argument(metavar="JSON", help="What python -m overlapscope.workloads.pinning_sweep wrote.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure: .png, .svg or .pdf.")],
) -> None:
    """Draw what each way to send tensors to the GPU takes, over their size and for many small ones."""
    from overlapscope.plot.transfers import save_transfers

    try:
        save_transfers(_read(measured), output)
    except (KeyError, TypeError, ValueError) as error:
        complain(UnknownTraceFormat(f"{measured}: lacks what the figure shows ({error!r})"))
        raise typer.Exit(ExitCode.UNUSABLE) from error
    except OverlapscopeError as error:
        complain(error)
        raise typer.Exit(ExitCode.UNUSABLE) from error


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceNotFound(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise UnknownTraceFormat(f"{path}: is no JSON") from error
    if not isinstance(found, dict) or not str(found.get("schema")).startswith("overlapscope.transfers/"):
        raise UnknownTraceFormat(f"{path}: not written by overlapscope.workloads.pinning_sweep")
    return found
