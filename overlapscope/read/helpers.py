"""Decode a big trace on all cores: this process reads the first share of the file, helpers read the others.

A helper is another Python that reads its share of the file itself, and returns columns: `helper`. Threads would not do,
since decoding holds the interpreter's lock. A helper decodes up to the first malformed chunk, whose repair depends on
the chunks before. What it does not do, for this or any other reason, is done here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from overlapscope.read import bytestream
from overlapscope.read.bytestream import Progress, is_packed
from overlapscope.read.selection import Selection
from overlapscope.read.wire import Answer, receive

START_BYTES = 1 << 26
"""As much text is decoded here while a helper starts, about 0.2 s."""
LEAST_BYTES = 1 << 25
"""The smallest share of a helper, in bytes of text."""
_PACKING = 16  # bytes of text in a byte of gzip, as traces usually have
_MOST = 8  # processes; more would wait for the one that joins
_START = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from overlapscope.read.helper import main; main()"


@dataclass(frozen=True)
class Options:
    """How to read a trace: what is wanted, with how many processes (None: one on each core), and whom to tell."""

    selection: Selection = Selection()
    processes: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Share:
    """The events between two bytes of a file, those included that are cut by its stop."""

    path: Path
    start: int
    stop: int


def shares_of(path: Path, begin: int, options: Options) -> list[Share]:
    """The rest of the file from ``begin`` on, one share for each process that is worth it, the first one larger."""
    size, packed = path.stat().st_size, is_packed(path)
    packing = _PACKING if packed else 1
    processes = _cores() if options.processes is None else options.processes
    shared = size - begin - START_BYTES // packing
    count = max(1, min(processes if _is_python(sys.executable) else 1, _MOST, shared * packing // LEAST_BYTES))
    grain = 1 if packed else bytestream.BLOCK_BYTES  # blocks of a plain file begin where this process reads them, too
    stops = {(size - shared * number // count) // grain * grain for number in range(1, count)}
    places = [begin, *sorted(stop for stop in stops if stop > begin), size]
    return [Share(path, start, stop) for start, stop in pairwise(places)]


class Helper:
    """Another process that decodes a share."""

    def __init__(self, share: Share, selection: Selection) -> None:
        self.share = share
        work = {"path": str(share.path.resolve()), "start": share.start, "stop": share.stop}
        arguments = (json.dumps(sys.path), json.dumps(work), json.dumps(selection.to_json()))
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with its own path
            [sys.executable, "-P", "-s", "-S", "-c", _START, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def answer(self) -> Answer | None:
        """What the share became; None where the helper failed."""
        with suppress(OSError, ValueError, EOFError):
            if self._process.stdout is not None:
                return receive(self._process.stdout)
        return None


@contextmanager
def started(shares: list[Share], selection: Selection) -> Generator[list[Helper]]:
    """A helper for each share, or for the first ones where no more can be started; they end with the context."""
    with ExitStack() as stack:
        helpers: list[Helper] = []
        with suppress(OSError):  # no process can be started here, or no more
            helpers.extend(stack.enter_context(Helper(share, selection)) for share in shares)
        yield helpers


def _is_python(executable: str | None) -> bool:
    """Whether this is an interpreter: in a program that has Python built in, it may be that program."""
    return Path(executable or "").name.lower().startswith("python") and not getattr(sys, "frozen", False)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
