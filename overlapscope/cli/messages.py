"""Messages, errors and exit status that all commands share."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from overlapscope.errors import OutputError, OverlapscopeError, WindowEmpty
from overlapscope.formatting import safe

if TYPE_CHECKING:
    from overlapscope.model.trace import Trace


class ExitCode(IntEnum):
    """Exit status of a command: complete, with lost data, without a result, or with what ``--fail-on`` names."""

    CLEAN = 0
    PARTIAL = 1
    UNUSABLE = 2
    FOUND = 3


def refuse_to_replace(path: Path, *outputs: Path | None, what: str = "the trace") -> None:
    """Raise `OutputError` where a result would overwrite the file that it is made from, by whatever name."""
    for output in outputs:
        if output is not None and _same(output, path):
            raise OutputError(f"{output}: is {what} itself; choose another name for the output")


def _same(one: Path, other: Path) -> bool:
    """Whether both name one file; what cannot be looked at is none."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def complain(error: OverlapscopeError, *, debug: bool = False) -> None:
    """Print an error as one sentence to stderr, with a traceback where ``debug`` asks for it."""
    if debug:
        traceback.print_exception(error)
    say(str(error))


@contextmanager
def complaining(*, debug: bool = False) -> Iterator[None]:
    """Turn a documented error into its sentence on stderr, and the exit status that says so."""
    try:
        yield
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error


def require_device_work(trace: Trace, action: str) -> None:
    """Raise `WindowEmpty` for a trace without device work, which leaves nothing to ``action``."""
    if trace.health.no_device_work:
        raise WindowEmpty(f"{trace.metadata.path}: no GPU work to {action}: {trace.health.no_device_work}")


def say_without_device_work(trace: Trace, *, quiet: bool = False) -> None:
    """Say of a trace without device work what it is, and why it has none."""
    if trace.health.no_device_work:
        say(f"{trace.metadata.path}: no GPU work in this trace: {trace.health.no_device_work}", quiet=quiet)


def note_old_code(code: str | None) -> None:
    """Say which code a rule has now, where it was asked for by the one that it had before."""
    from overlapscope.diagnosis.catalogue import MOVED

    now = MOVED.get((code or "").upper())
    if now is not None:
        say(f"{code} is {now} now")


def say(text: str, *, quiet: bool = False) -> None:
    """Print a note to stderr, without control characters, unless ``quiet``; wrapped on a terminal."""
    if quiet:
        return
    line = f"overlapscope: {safe(text)}"
    if sys.stderr.isatty():
        line = textwrap.fill(line, shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)
    try:
        typer.echo(line, err=True)
    except OSError:
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Let what is still written to a standard stream, and what it holds back, go nowhere: it takes no more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
