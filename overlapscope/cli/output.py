"""Where a result goes: to standard output, or atomically to a file."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlapscope.cli.messages import drop
from overlapscope.errors import OutputError
from overlapscope.formatting import safe

if TYPE_CHECKING:
    from rich.console import Console

_ENTRY = re.compile(r" *\S+(?: \S+)? {2,}(?=\S)")  # a name or a time, and the text about it
_FILE_WIDTH = 140
"""Characters in a line of a text file."""


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
    """Write a result as JSON, likewise."""
    import json

    deliver(json.dumps(result, indent=1, allow_nan=False) + "\n", output)


def render_to(output: Path | None, render: Callable[[Console], None]) -> None:
    """Let ``render`` print to a terminal of its width, or to a file without colours.

    Raises:
        OutputError: it cannot be written.
    """
    from io import StringIO

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
