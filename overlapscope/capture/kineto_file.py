"""How a recorded trace reaches its file: whole or not at all, and without what names its origin."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO

from overlapscope.atomic_files import writing
from overlapscope.calibration.schema import KEY, Calibration
from overlapscope.calibration.writing import to_json
from overlapscope.errors import CaptureError, OutputError, OverlapscopeError

_BASE_KEY = "baseTimeNanoseconds"

KEPT_KEYS = frozenset(
    {
        "schemaVersion",
        "deviceProperties",
        "displayTimeUnit",
        _BASE_KEY,
        "distributedInfo",
        "cuda_driver_version",
        "cuda_runtime_version",
        "cupti_version",
        "hip_driver_version",
        "hip_runtime_version",
        "roctracer_version",
        "rocprofiler-sdk_version",
        "with_stack",
        KEY,
    }
)
"""Top-level keys of a trace that say nothing of who made it and where."""

_GZIP_LEVEL = 6  # a program waits for it
_HEADER_BYTES = 1 << 24
_END_BYTES = 1 << 16
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_GPU_CALL = re.compile(rb'"cat"\s*:\s*"(?:cuda|hip)_runtime"')
_ALLOCATION = re.compile(
    rb'\{\s*"ph": "i",\s*"cat": "cpu_instant_event",[^{}]*"name": "\[memory\]",[^{}]*\{[^{}]*\}\s*\},\s*'
)
_TRACE_NAME = re.compile(rb'"traceName"\s*:\s*"(?:[^"\\]|\\.)*"')


def check_target(path: Path) -> None:
    """Find out before an hour of work that nothing can be written there.

    Raises:
        OutputError: the folder does not exist or cannot be written to, or ``path`` is a folder.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name the trace to write in it")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def save(
    export: Callable[[str], None],
    path: Path,
    *,
    must_have_gpu: bool,
    calibration: Calibration | None = None,
) -> None:
    """Let ``export`` write JSON to a name of its own, and put it at ``path`` when it is whole.

    The trace is gzip when ``path`` ends in ``.gz``. Until it is complete it has a temporary name
    beside its own; when anything fails, nothing is left behind and an older file stays. The
    ``calibration``, whose times are Unix times, takes the place of what stands under its key.

    Raises:
        OutputError: the disk is full, or something else kept the file from being written.
        CaptureError: the trace holds no call of the GPU's runtime though it ``must_have_gpu``.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=path.parent) as folder:
            raw = Path(folder) / "trace.json"
            export(str(raw))
            _check_whole(raw)
            with writing(path, _GZIP_LEVEL) as target:
                gpu_seen = _copy(raw, target, calibration)
                if must_have_gpu and not gpu_seen:
                    raise CaptureError(
                        "the profiler saw nothing of the GPU, so there is no trace: CUPTI serves one profiler at a "
                        "time, and another one (Nsight, another torch.profiler, a monitoring agent) probably has it"
                    )
    except OverlapscopeError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _check_whole(raw: Path) -> None:
    """Raise what the exporter does not say: that the disk is full, and its file cut, empty or not there."""
    end = b""
    if raw.exists():
        with raw.open("rb") as file:
            file.seek(max(0, raw.stat().st_size - _END_BYTES))
            end = file.read().rstrip()
    if not end.endswith(b"}"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _copy(raw: Path, target: IO[bytes], calibration: Calibration | None) -> bool:
    """Copy a trace without its own path and the keys of its header that are not kept; was a GPU in it?"""
    with raw.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text, memoryview(text) as view:
        size = len(text)
        events = _EVENTS_KEY.search(text, 0, _HEADER_BYTES)
        start = events.end() if events else 0
        name = _TRACE_NAME.search(text, max(start, size - _END_BYTES))
        end, rest = name.span() if name else (size, size)
        target.write(_clean_header(text[:start], calibration))
        with view[start:end] as body, view[rest:] as trailer:
            _write_without_allocations(body, target)
            target.write(b'"traceName": ""' if name else b"")
            target.write(trailer)
        del events, name  # a match keeps the map from closing
        return _GPU_CALL.search(text) is not None


def _write_without_allocations(body: memoryview, target: IO[bytes]) -> None:
    """Copy events but for allocations: the calibration has what they tell, and there are as many as operators."""
    done = 0
    for begin, end in [event.span() for event in _ALLOCATION.finditer(body)]:
        target.write(body[done:begin])
        done = end
    target.write(body[done:])


def _clean_header(text: bytes, calibration: Calibration | None) -> bytes:
    """The text up to the first event with the kept keys and the whole calibration; as it is where it is no JSON."""
    try:
        header = json.loads(text + b"]}")
    except ValueError:
        return text
    kept = {key: value for key, value in header.items() if key in KEPT_KEYS}
    if calibration is not None and KEY in kept:
        kept[KEY] = to_json(calibration.since(kept.get(_BASE_KEY, 0)))
    return json.dumps(kept | {"traceEvents": []}, indent=1).encode().rpartition(b"]")[0]
