"""What a helper writes for the reader: a length, JSON of that length, and the columns that the JSON lists."""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from overlapscope.read.decoded import Decoded
from overlapscope.read.draft import NamePool

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Answer:
    """What the first chunks of a share became; the last of them may be malformed."""

    decoded: Decoded
    chunks: int
    """How many chunks were read, the malformed one included."""
    whole: bool
    """Whether these are all chunks of the share."""
    malformed: bytes = b""


def send(out: IO[bytes], answer: Answer) -> None:
    """Write an answer; its columns are freed."""
    decoded, tables = answer.decoded, answer.decoded.tables()
    about = {
        "chunks": answer.chunks,
        "whole": answer.whole,
        "malformed": len(answer.malformed),
        "names": list(decoded.pool),
        "threads": [[*thread, name] for thread, name in decoded.thread_names.items()],
        "recorded": sorted(decoded.recorded_ns),
        "left_out": sorted(decoded.left_out_processes),
        "unknown": decoded.unknown,
        "dropped": decoded.dropped,
        "events": decoded.events,
        "exact": decoded.exact,
        "tables": {
            table: {name: [values.dtype.str, len(values)] for name, values in columns.items()}
            for table, columns in tables.items()
        },
    }
    text = json.dumps(about).encode()
    out.write(_LENGTH.pack(len(text)) + text + answer.malformed)
    for columns in tables.values():
        for values in columns.values():
            out.write(values.data)


def receive(source: IO[bytes]) -> Answer:
    """Read an answer.

    Raises:
        EOFError: there is none, or only a part of it.
    """
    about = json.loads(_exactly(source, *_LENGTH.unpack(_exactly(source, _LENGTH.size))))
    malformed = bytes(_exactly(source, about["malformed"]))
    decoded = Decoded(
        pool=NamePool({name: number for number, name in enumerate(about["names"])}),
        thread_names={(process, thread): name for process, thread, name in about["threads"]},
        recorded_ns={(start, end) for start, end in about["recorded"]},
        left_out_processes=set(about["left_out"]),
        unknown=Counter(about["unknown"]),
        dropped=Counter(about["dropped"]),
        events=about["events"],
        exact=about["exact"],
    )
    for table, columns in about["tables"].items():
        decoded.batches[table] = [{name: _array(source, *shape) for name, shape in columns.items()}]
    return Answer(decoded, about["chunks"], about["whole"], malformed)


def _array(source: IO[bytes], dtype: str, rows: int) -> npt.NDArray[Any]:
    return np.frombuffer(_exactly(source, rows * np.dtype(dtype).itemsize), dtype)


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data
