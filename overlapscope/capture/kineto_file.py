"""How a recorded trace reaches its file: whole or not at all, and without what names its origin."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, cast

from overlapscope.errors import CaptureError, OutputError

ABOUT_KEY = "overlapscope"
"""The top-level key of a trace under which a recording says how it was made."""

KEPT_KEYS = frozenset(
    {
        "schemaVersion",
        "deviceProperties",
        "displayTimeUnit",
        "baseTimeNanoseconds",
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
"""Top-level keys of a trace that say nothing of who made it and where."""

_HEADER_BYTES = 1 << 24
_END_BYTES = 1 << 16
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_GPU_CALL = re.compile(rb'"cat"\s*:\s*"(?:cuda|hip)_runtime"')
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


def save(export: Callable[[str], None], path: Path, *, must_have_gpu: bool) -> None:
    """Let ``export`` write JSON to a name of its own, and put it at ``path`` when it is whole.

    The trace is gzip when ``path`` ends in ``.gz``. Until it is complete it has a temporary name
    beside its own; when anything fails, nothing is left behind and an older file stays.

    Raises:
        OutputError: the disk is full, or something else kept the file from being written.
        CaptureError: the trace holds no call of the GPU's runtime though it ``must_have_gpu``.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=path.parent) as folder:
            raw, ready = Path(folder) / "trace.json", Path(folder) / "ready"
            export(str(raw))
            gpu_seen = _pack(raw, ready, packed=path.suffix == ".gz")
            if must_have_gpu and not gpu_seen:
                raise CaptureError(
                    "the profiler saw nothing of the GPU, so there is no trace: CUPTI serves one profiler at a time, "
                    "and another one (Nsight, another torch.profiler, a monitoring agent) probably has it"
                )
            ready.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _pack(raw: Path, ready: Path, *, packed: bool) -> bool:
    """Copy a trace without its own path and the keys of its header that are not kept; was a GPU in it?"""
    if not raw.exists() or not raw.stat().st_size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # what the exporter does not say
    with raw.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text, memoryview(text) as view:
        size = len(text)
        if text[max(0, size - _END_BYTES) :].rstrip()[-1:] != b"}":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        events = _EVENTS_KEY.search(text, 0, _HEADER_BYTES)
        start = events.end() if events else 0
        name = _TRACE_NAME.search(text, max(start, size - _END_BYTES))
        end, rest = name.span() if name else (size, size)
        with _opened(ready, packed=packed) as target:
            target.write(_clean_header(text[:start]))
            with view[start:end] as body, view[rest:] as trailer:
                target.write(body)
                target.write(b'"traceName": ""' if name else b"")
                target.write(trailer)
        del events, name
        return _GPU_CALL.search(text) is not None


def _clean_header(text: bytes) -> bytes:
    """The text up to the first event with the kept keys only; as it is where it is no JSON."""
    try:
        header = json.loads(text + b"]}")
    except ValueError:
        return text
    kept = {key: value for key, value in header.items() if key in KEPT_KEYS}
    return json.dumps(kept | {"traceEvents": []}, indent=1).encode().rpartition(b"]")[0]


@contextmanager
def _opened(path: Path, *, packed: bool) -> Iterator[IO[bytes]]:
    """Open for writing; no name and no time in a gzip header."""
    with path.open("wb") as plain:
        if not packed:
            yield plain
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0, compresslevel=6) as zipped:
            yield cast("IO[bytes]", zipped)
