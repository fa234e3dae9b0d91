"""Messages, errors and exit status that all commands share."""

from __future__ import annotations

import traceback
from enum import IntEnum
from pathlib import Path

import typer

from overlapscope.errors import OutputError, OverlapscopeError
from overlapscope.formatting import safe


class ExitCode(IntEnum):
    """Exit status of a command: complete, with lost data, or without a result."""

    CLEAN = 0
    PARTIAL = 1
    UNUSABLE = 2


def refuse_to_replace(path: Path, output: Path) -> None:
    """Raise `OutputError` where a result would overwrite the trace that it is made from."""
    if output.exists() and path.exists() and output.samefile(path):
        raise OutputError(f"{output}: is the trace itself; choose another name for the output")


def complain(error: OverlapscopeError, *, debug: bool = False) -> None:
    """Print an error as one sentence to stderr, with a traceback where ``debug`` asks for it."""
    if debug:
        traceback.print_exception(error)
    say(str(error))


def say(text: str) -> None:
    """Print a line to stderr, without control characters."""
    typer.echo(f"overlapscope: {safe(text)}", err=True)
