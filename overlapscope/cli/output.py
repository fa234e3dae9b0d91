"""Output of commands: results to standard output or to a file, notes and errors to stderr, the exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from overlapscope.errors import OutputError, OverlapscopeError, WindowEmpty
from overlapscope.formatting import safe

if TYPE_CHECKING:
    from rich.console import Console

    from overlapscope.model.trace import Trace

_ENTRY = re.compile(r" *\S+(?: \S+)? {2,}(?=\S)")  # a name or a time, and the text about it
_FILE_WIDTH = 140
"""Characters in a line of a text file."""


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


def check_figure(path: Path | None) -> None:
    """Raise `OutputError` where a figure is asked for in a format that cannot be drawn."""
    if path is not None:
        from overlapscope.plot.style import check_suffix

        check_suffix(path)


def _same(one: Path, other: Path) -> bool:
    """Whether both names are of one file; a file that cannot be looked at is no file."""
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


def deliver(text: str, output: Path | None) -> None:
    """Write a text to a file, or to standard output without one.

    Raises:
        OutputError: it cannot be written.
    """
    if output is None:
        with printing():
            sys.stdout.write(text)
        return
    from overlapscope.atomic_files import writing

    with writing(output) as file:
        file.write(text.encode())


def deliver_json(result: dict[str, Any], output: Path | None) -> None:
    """Write a result as JSON to a file, or to standard output without one."""
    deliver(json.dumps(result, indent=1, allow_nan=False) + "\n", output)


def render_to(output: Path | None, render: Callable[[Console], None]) -> None:
    """Let ``render`` print to a terminal of its width, or to a file without colours.

    Raises:
        OutputError: it cannot be written.
    """
    from rich.console import Console

    if output is None:
        with printing():
            render(Console(highlight=False))
        return
    buffer = StringIO()
    render(Console(file=buffer, width=_FILE_WIDTH, highlight=False, color_system=None))
    deliver(buffer.getvalue(), output)


@contextmanager
def printing() -> Iterator[None]:
    """Print to standard output. Where its reader has gone, as ``head`` does, the exit status counts all the same.

    Raises:
        OutputError: standard output takes no more, as on a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich exits by itself
        drop(sys.stdout)
    except OSError as error:
        drop(sys.stdout)
        raise OutputError(f"standard output: cannot be written ({error.strerror or error})") from error


def print_lines(lines: list[str], console: Console) -> None:
    """Print lines of text; on a terminal, what is too long goes on below its begin, or below the text of its entry."""
    for line in lines:
        shown = _wrapped(safe(line), console.width) if console.is_terminal else safe(line)
        console.print(shown, markup=False, soft_wrap=True)


def _wrapped(line: str, width: int) -> str:
    head = _ENTRY.match(line)
    indent = " " * (len(head[0]) if head else len(line) - len(line.lstrip()))
    return textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)
