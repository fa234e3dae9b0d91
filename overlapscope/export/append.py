"""Copy a recorded Kineto file with our tracks added: everything that it says of its own events survives.

The file is copied as it is read, block by block; our events are put before its first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from overlapscope.atomic_files import writing
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.errors import OutputError
from overlapscope.export.perfetto import LEVEL, encoded, own_events
from overlapscope.model.tables import DeviceWork, HostWork
from overlapscope.model.trace import Trace
from overlapscope.read.bytestream import read_blocks
from overlapscope.read.chunks import find_events
from overlapscope.read.log import HealthLog

_NO_JSON = ("truncated", "corrupt-gzip", "lost-events", "repaired-events", "bad-header", "bad-trailer", "second-trace")
"""What the health of a trace says of a file that is no valid JSON as a whole."""
_NUMBERS = 1 << 16  # that our tracks may need
_FIRST = 1 << 22  # the largest process number of Linux


def append_perfetto(found: Diagnosis, recorded: str | Path, path: str | Path) -> None:
    """Write a copy of the ``recorded`` file with what was found in it to ``path``; gzip when that ends in ``.gz``.

    Raises:
        OutputError: the file is no complete Kineto file, or the copy cannot be written.
    """
    _check(found.trace, Path(recorded))
    blocks = read_blocks(Path(recorded), HealthLog())
    head, rest = _split(blocks)
    with writing(Path(path), LEVEL) as file:
        file.write(head)
        for part in encoded(own_events(found, _free_number(found.trace))):
            file.write(part)
        while not rest.strip() and (block := next(blocks, b"")):
            rest += block
        file.write(b"" if rest.lstrip().startswith(b"]") else b",")
        file.write(rest)
        for block in blocks:
            file.write(block)


def _check(trace: Trace, recorded: Path) -> None:
    if trace.metadata.format != "kineto":
        raise OutputError(f"{recorded}: is no Kineto JSON, so nothing can be appended to it; export without --append")
    found = {warning.code: warning.message for warning in trace.health}
    wrong = next((found[code] for code in _NO_JSON if code in found), None)
    if wrong is not None:
        raise OutputError(f"{recorded}: cannot be appended to ({wrong}); export without --append")


def _split(blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """What was read up to the first event, and what of it comes after."""
    seen: list[bytes] = []

    def noted() -> Iterator[bytes]:
        for block in blocks:
            seen.append(block)
            yield block

    opening = find_events(noted())
    if opening is None:
        raise OutputError("the file has changed since it was read")
    text = b"".join(seen)
    return text[: len(text) - len(opening.rest)], opening.rest


def _free_number(trace: Trace) -> int:
    """The first of enough numbers that no process and no thread of the trace has."""
    tables = [table for _, table in trace.tables() if isinstance(table, HostWork | DeviceWork)]
    columns = [getattr(table, "thread" if isinstance(table, HostWork) else "stream") for table in tables]
    first = _FIRST
    for number in np.unique(np.concatenate([*columns, *(table.process for table in tables)])).tolist():
        if first <= number < first + _NUMBERS:
            first = number + 1
    return first
