"""What every command says and returns in the same way."""

from __future__ import annotations

import traceback
from enum import IntEnum

import typer

from overlapscope.errors import OverlapscopeError
from overlapscope.words import safe


class ExitCode(IntEnum):
    """What the exit status says."""

    CLEAN = 0
    PARTIAL = 1
    UNUSABLE = 2


def complain(error: OverlapscopeError, *, debug: bool = False) -> None:
    """Say what went wrong in a sentence, with the traceback only for those who ask."""
    if debug:
        traceback.print_exception(error)
    say(str(error))


def say(text: str) -> None:
    """A line to stderr; foreign text in it cannot steer the terminal."""
    typer.echo(f"overlapscope: {safe(text)}", err=True)
