"""What every command says and returns in the same way."""

from __future__ import annotations

import traceback
from enum import IntEnum
from pathlib import Path

import typer

from overlapscope.errors import OutputError, OverlapscopeError
from overlapscope.formatting import safe


class ExitCode(IntEnum):
    """What the exit status says."""

    CLEAN = 0
    PARTIAL = 1
    UNUSABLE = 2


def refuse_to_replace(path: Path, output: Path) -> None:
    """Raise `OutputError` where a result would be written over the trace that it is made from."""
    if output.exists() and path.exists() and output.samefile(path):
        raise OutputError(f"{output}: is the trace itself; choose another name for what is made from it")


def complain(error: OverlapscopeError, *, debug: bool = False) -> None:
    """Say what went wrong in a sentence, with the traceback only for those who ask."""
    if debug:
        traceback.print_exception(error)
    say(str(error))


def say(text: str) -> None:
    """A line to stderr; foreign text in it cannot steer the terminal."""
    typer.echo(f"overlapscope: {safe(text)}", err=True)
