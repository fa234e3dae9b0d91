"""Decode a big trace on all cores: this process reads the first share of the file, helpers read the others.

A helper is another Python that reads its share of the file itself, and writes the columns that its chunks became to its
standard output. Threads would not do, since decoding holds the interpreter's lock. A helper decodes up to the first
malformed chunk, whose repair depends on the chunks before. What it does not do, for this or any other reason, is done
by this process.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from overlapscope.read import bytestream
from overlapscope.read.bytestream import Progress, is_packed, placed_blocks
from overlapscope.read.chunks import Text, cut
from overlapscope.read.decoded import Decoded
from overlapscope.read.events import DecodeError
from overlapscope.read.log import HealthLog
from overlapscope.read.selection import Selection

START_BYTES = 1 << 26
"""Bytes of text that this process decodes while a helper starts, which takes about 0.2 s."""
LEAST_BYTES = 1 << 25
"""The smallest share of a helper, in bytes of text."""
_PACKING = 16  # bytes of text in a byte of gzip, as traces usually have
_MOST = 8  # processes; more would wait for the one that joins
_START = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from overlapscope.read.helpers import main; main()"


@dataclass(frozen=True)
class Options:
    """The options of reading: the part wanted, the number of processes (None: one on each core), and whom to tell."""

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


@dataclass(frozen=True)
class Answer:
    """The columns of the first chunks of a share; the last of these may be malformed."""

    decoded: Decoded
    chunks: int
    """How many chunks were read, the malformed one included."""
    whole: bool
    """Whether these are all chunks of the share."""
    malformed: bytes = b""


def send(out: IO[bytes], answer: Answer) -> None:
    """Write an answer, with one array per column."""
    answer.decoded.batches = {table: [columns] for table, columns in answer.decoded.tables().items()}
    pickle.dump(answer, out, pickle.HIGHEST_PROTOCOL)


def receive(source: IO[bytes]) -> Answer:
    """Read an answer.

    Raises:
        EOFError: there is none.
        pickle.UnpicklingError: it is not whole.
    """
    answer: Answer = pickle.load(source)  # noqa: S301 - of a process that this one started
    return answer


class Helper:
    """Another process that decodes a share."""

    def __init__(self, share: Share, selection: Selection) -> None:
        self.share = share
        work = pickle.dumps((replace(share, path=share.path.resolve()), selection))
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with its own path
            [sys.executable, "-P", "-s", "-S", "-c", _START, json.dumps(sys.path), work.hex()],
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
        """The answer of the helper; None where it failed."""
        with suppress(OSError, ValueError, EOFError, pickle.UnpicklingError):
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


def main() -> None:
    """Decode the share that the command line names, in a helper process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    share, selection = pickle.loads(bytes.fromhex(sys.argv[2]))  # noqa: S301 - of the process that started this one
    answer = answer_for(share, selection)
    if answer is not None:
        with os.fdopen(sys.stdout.fileno(), "wb") as out:
            send(out, answer)


def answer_for(share: Share, selection: Selection) -> Answer | None:
    """The answer for a share; None where its text is damaged or all one event."""
    log = HealthLog()
    text = Text(placed_blocks(share.path, log, start=share.start))
    for _ in text.share(share.start):
        pass  # the end of an event that belongs to the share before
    if not share.start <= text.place < share.stop:
        return None
    answer = _decoded(cut(b"", text.share(share.stop)), Decoded(selection))
    return None if log.health().damaged else answer


def _decoded(chunks: Iterator[bytes], decoded: Decoded) -> Answer:
    """Decode chunks up to the first malformed one."""
    for number, chunk in enumerate(chunks, 1):
        try:
            decoded.add_chunk(chunk)
        except DecodeError:
            decoded.flush()
            return Answer(decoded, number, whole=next(chunks, None) is None, malformed=chunk)
    decoded.flush()
    return Answer(decoded, 0, whole=True)
