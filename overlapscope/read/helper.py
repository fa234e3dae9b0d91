"""What runs in a helper process: it decodes one share of a file, and writes what that became."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from overlapscope.read.bytestream import placed_blocks
from overlapscope.read.chunks import Text, cut
from overlapscope.read.decoded import Decoded
from overlapscope.read.events import DecodeError
from overlapscope.read.log import HealthLog
from overlapscope.read.selection import Selection
from overlapscope.read.wire import Answer, send


def main() -> None:
    """Decode the share that the command line names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    work = json.loads(sys.argv[2])
    answer = answer_for(Path(work["path"]), work["start"], work["stop"], Selection.from_json(json.loads(sys.argv[3])))
    if answer is not None:
        with os.fdopen(sys.stdout.fileno(), "wb") as out:
            send(out, answer)


def answer_for(path: Path, start: int, stop: int, selection: Selection) -> Answer | None:
    """What the events between two bytes of a file become; None where their text is damaged or all one event."""
    log = HealthLog()
    text = Text(placed_blocks(path, log, start=start))
    for _ in text.share(start):
        pass  # the end of an event that belongs to the share before
    if not start <= text.place < stop:
        return None
    answer = _decoded(cut(b"", text.share(stop)), Decoded(selection))
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
