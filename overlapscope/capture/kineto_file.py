"""Write a recorded trace: whole or not at all, and without what names its origin."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any

from overlapscope.atomic_files import output_errors, writing
from overlapscope.calibration.data import to_json
from overlapscope.calibration.schema import KEY, VERSION_KEYS, Calibration
from overlapscope.errors import CaptureError, OutputError

_BASE_KEY = "baseTimeNanoseconds"

KEPT_KEYS = frozenset(
    {
        "schemaVersion",
        "deviceProperties",
        "displayTimeUnit",
        _BASE_KEY,
        "distributedInfo",
        *VERSION_KEYS,
        "with_stack",
        KEY,
    }
)
"""Top-level keys of a trace that say nothing of who made it and where."""

_GZIP_LEVEL = 6  # a program waits for it
_HEADER_BYTES = 1 << 24
_END_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_GPU_CALL = re.compile(rb'"cat"\s*:\s*"(?:cuda|hip)_runtime"')
_ALLOCATION = re.compile(
    rb'\{\s*"ph": "i",\s*"cat": "cpu_instant_event",[^{}]*"name": "\[memory\]",[^{}]*\{[^{}]*\}\s*\},\s*'
)
_TRACE_NAME = re.compile(rb'"traceName"\s*:\s*"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True)
class TraceEvent:
    """A stretch of time of a thread that another than torch's profiler noted, in Unix time."""

    category: str
    name: str
    begin_ns: int
    end_ns: int
    process: int
    thread: int
    args: Mapping[str, Any] = field(default_factory=dict)

    def since(self, zero_ns: int) -> str:
        """The event as a line of a trace whose clock is 0 at ``zero_ns``."""
        texts = {"ph": "X", "cat": self.category, "name": self.name, "pid": self.process, "tid": self.thread}
        begin_ns = self.begin_ns - zero_ns
        times = f'"ts": {_microseconds(begin_ns)}, "dur": {_microseconds(self.end_ns - self.begin_ns)}'
        return f'{json.dumps(texts)[:-1]}, {times}, "args": {json.dumps(dict(self.args))}}}'


def _microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def check_target(path: Path) -> None:
    """Find out before an hour of work that nothing can be written there.

    Raises:
        OutputError: the folder does not exist or cannot be written to, or ``path`` is a folder.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name the trace to write in it")
    with output_errors(path), tempfile.TemporaryFile(dir=path.parent):
        pass


def save(
    export: Callable[[str], None],
    path: Path,
    *,
    must_have_gpu: bool,
    calibration: Calibration | None = None,
    events: Iterable[TraceEvent] = (),
) -> None:
    """Let ``export`` write JSON to a name of its own, and put it at ``path`` when it is whole.

    The trace is gzip when ``path`` ends in ``.gz``. Until it is complete it has a temporary name
    beside its own; when anything fails, nothing is left behind and an older file stays. The
    ``calibration``, whose times are Unix times, takes the place of what stands under its key. The ``events`` come
    before those of the profiler.

    Raises:
        OutputError: the disk is full, or something else kept the file from being written.
        CaptureError: the trace holds no call of the GPU's runtime though it ``must_have_gpu``.
    """
    with output_errors(path), tempfile.TemporaryDirectory(prefix=".recording-", dir=path.parent) as folder:
        raw = Path(folder) / "trace.json"
        export(str(raw))
        _check_whole(raw)
        with writing(path, _GZIP_LEVEL) as target:
            gpu_seen = _copy(raw, target, calibration, events)
            if must_have_gpu and not gpu_seen:
                raise CaptureError(
                    "the profiler saw nothing of the GPU, so there is no trace: CUPTI serves one profiler at a "
                    "time, and another one (Nsight, another torch.profiler, a monitoring agent) probably has it"
                )


def _check_whole(raw: Path) -> None:
    """Raise what the exporter does not say: that the disk is full, and its file cut, empty or not there."""
    end = b""
    if raw.exists():
        with raw.open("rb") as file:
            file.seek(max(0, raw.stat().st_size - _END_BYTES))
            end = file.read().rstrip()
    if not end.endswith(b"}"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _copy(raw: Path, target: IO[bytes], calibration: Calibration | None, noted: Iterable[TraceEvent]) -> bool:
    """Copy a trace without its own path and the keys of its header that are not kept; was a GPU in it?"""
    with raw.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text, memoryview(text) as view:
        size = len(text)
        events = _EVENTS_KEY.search(text, 0, _HEADER_BYTES)
        start = events.end() if events else 0
        name = _TRACE_NAME.search(text, max(start, size - _END_BYTES))
        end, rest = name.span() if name else (size, size)
        header = _header(text[:start])
        target.write(text[:start] if header is None else _clean(header, calibration))
        if header is not None:
            zero_ns = header.get(_BASE_KEY, 0)
            lines = ",\n".join(event.since(zero_ns) for event in noted if event.begin_ns >= zero_ns)
            is_last = text[start : start + _END_BYTES].lstrip()[:1] == b"]"
            target.write(f"\n{lines}{'' if is_last else ','}".encode() if lines else b"")
        with view[start:end] as body, view[rest:] as trailer:
            _write_without_allocations(body, target)
            target.write(b'"traceName": ""' if name else b"")
            target.write(trailer)
        del events, name  # a match keeps the map from closing
        return _GPU_CALL.search(text) is not None


def _write_without_allocations(body: memoryview, target: IO[bytes]) -> None:
    """Copy events but for allocations: the calibration has what they tell, and there are as many as operators.

    In large pieces: with each that is written, another thread of the program may take the interpreter lock for long.
    """
    done, piece = 0, bytearray()
    for begin, end in [event.span() for event in _ALLOCATION.finditer(body)]:
        piece += body[done:begin]
        done = end
        if len(piece) > _PIECE_BYTES:
            target.write(piece)
            piece = bytearray()
    target.write(piece)
    target.write(body[done:])


def _header(text: bytes) -> dict[str, Any] | None:
    """What stands before the first event; None where it is no JSON."""
    try:
        header: dict[str, Any] = json.loads(text + b"]}")
    except ValueError:
        return None
    return header


def _clean(header: dict[str, Any], calibration: Calibration | None) -> bytes:
    """The text up to the first event with the kept keys and the whole calibration."""
    kept = {key: value for key, value in header.items() if key in KEPT_KEYS}
    if calibration is not None and KEY in kept:
        kept[KEY] = to_json(calibration.since(kept.get(_BASE_KEY, 0)))
    return json.dumps(kept | {"traceEvents": []}, indent=1).encode().rpartition(b"]")[0]
