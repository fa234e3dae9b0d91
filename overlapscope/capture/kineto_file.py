"""Write a recorded trace to its file: completely or not at all, and without host, user or command line."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO

from overlapscope.atomic_files import writing
from overlapscope.errors import CaptureError, OutputError, OverlapscopeError

ABOUT_KEY = "overlapscope"
"""The top-level key of a trace that holds its calibration."""
_BASE_KEY = "baseTimeNanoseconds"
_TIMES = "_ns"  # the names of time columns end in this

Columns = Mapping[str, Mapping[str, list[int]]]
"""Columns by name, of several tables."""

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
        ABOUT_KEY,
    }
)
"""Top-level keys of a trace that do not reveal who made it and where."""

_GZIP_LEVEL = 6  # a program waits for it
_HEADER_BYTES = 1 << 24
_END_BYTES = 1 << 16
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_GPU_CALL = re.compile(rb'"cat"\s*:\s*"(?:cuda|hip)_runtime"')
_TRACE_NAME = re.compile(rb'"traceName"\s*:\s*"(?:[^"\\]|\\.)*"')


def check_target(path: Path) -> None:
    """Raise before an hour of work is done, not after it, where nothing can be written.

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
    extra: Columns | None = None,
) -> None:
    """Let ``export`` write JSON to a temporary file, and move it to ``path`` when it is complete.

    The trace is gzip when ``path`` ends in ``.gz``. When anything fails, nothing is left behind and an older file
    stays. The ``extra`` columns become part of the calibration, with times on the trace's clock.

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
                has_gpu = _copy(raw, target, extra)
                if must_have_gpu and not has_gpu:
                    raise CaptureError(
                        "the profiler saw nothing of the GPU, so there is no trace: CUPTI serves one profiler at a "
                        "time, and another one (Nsight, another torch.profiler, a monitoring agent) probably has it"
                    )
    except OverlapscopeError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _check_whole(raw: Path) -> None:
    """Raise where the exported file is cut, empty or missing: the exporter does not report a full disk."""
    end = b""
    if raw.exists():
        with raw.open("rb") as file:
            file.seek(max(0, raw.stat().st_size - _END_BYTES))
            end = file.read().rstrip()
    if not end.endswith(b"}"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _copy(raw: Path, target: IO[bytes], extra: Columns | None) -> bool:
    """Copy a trace without its path and without header keys that are not kept; return whether it has GPU calls."""
    with raw.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text, memoryview(text) as view:
        size = len(text)
        events = _EVENTS_KEY.search(text, 0, _HEADER_BYTES)
        start = events.end() if events else 0
        name = _TRACE_NAME.search(text, max(start, size - _END_BYTES))
        end, rest = name.span() if name else (size, size)
        target.write(_clean_header(text[:start], extra))
        with view[start:end] as body, view[rest:] as trailer:
            target.write(body)
            target.write(b'"traceName": ""' if name else b"")
            target.write(trailer)
        del events, name  # a match keeps the map from closing
        return _GPU_CALL.search(text) is not None


def _clean_header(text: bytes, extra: Columns | None) -> bytes:
    """The text before the first event, with the kept keys and the extra columns; unchanged where it is no JSON."""
    try:
        header = json.loads(text + b"]}")
    except ValueError:
        return text
    kept = {key: value for key, value in header.items() if key in KEPT_KEYS}
    if isinstance(kept.get(ABOUT_KEY), dict):
        base = kept.get(_BASE_KEY, 0)
        kept[ABOUT_KEY] |= {
            name: {
                key: [value - base for value in values] if key.endswith(_TIMES) else values
                for key, values in columns.items()
            }
            for name, columns in (extra or {}).items()
        }
    return json.dumps(kept | {"traceEvents": []}, indent=1).encode().rpartition(b"]")[0]
