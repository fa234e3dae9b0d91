"""`open_trace`: detect the format of a file by its content, and read it."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from os import PathLike
from pathlib import Path

from overlapscope.cache.store import cached
from overlapscope.errors import OutputError, OverlapscopeError, UnknownTraceFormat
from overlapscope.model.trace import Trace
from overlapscope.read.assemble import assemble
from overlapscope.read.bytestream import GZIP_MAGIC, Progress, read_blocks
from overlapscope.read.draft import Draft
from overlapscope.read.helpers import Options
from overlapscope.read.kineto import read_kineto
from overlapscope.read.log import HealthLog
from overlapscope.read.nsys import read_nsys
from overlapscope.read.selection import selection_of

_SQLITE_MAGIC = b"SQLite format 3\0"
_NSYS_REPORTS = {".nsys-rep", ".qdrep", ".qdstrm"}
_KNOWN_OTHERS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the trace itself: run `git lfs pull`"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed: unpack it first"),
    (b"\xfd7zXZ", "xz-compressed: unpack it first"),
    (b"BZh", "bzip2-compressed: unpack it first"),
    (GZIP_MAGIC, "gzip in gzip: unpack it once"),
    (b"\xff\xfe", "text in UTF-16, or UTF-32: write it again as UTF-8"),
    (b"\xfe\xff", "text in UTF-16: write it again as UTF-8"),
    (b"<!DOCTYPE", "a web page, not a trace: download the raw file"),
    (b"<html", "a web page, not a trace: download the raw file"),
)


def open_trace(
    path: str | PathLike[str],
    *,
    progress: Progress | None = None,
    categories: Collection[str] | None = None,
    window: tuple[int, int] | None = None,
    processes: int | None = None,
    cache: bool = False,
) -> Trace:
    """Read a profiler trace.

    Args:
        path: a Kineto (torch.profiler) JSON trace or an Nsight Systems SQLite export, plain or gzip.
            The content decides, whatever the suffix says.
        progress: called with (done, all) while reading: bytes of the file, or tables of a plain database.
        categories: the tables to keep, such as ``{"kernels", "copies"}``; the others stay empty. Tables on which these
            depend are read too, and left out afterwards, as calls are that tell the process of a kernel.
        window: keep only what touches this time, as (from, to) in ns on the trace's own clock. Calls, ranges and work
            of GPUs at other times are read too where what is kept depends on them.
        processes: with how many processes a big JSON trace is decoded; by default as many as there are cores.
        cache: whether to take it from the user's cache folder where its content was read before, and to keep it there
            where reading takes longer than half a second. ``OVERLAPSCOPE_CACHE`` names another folder, or is ``off``.
            A part of a trace is always read anew.

    Returns:
        The trace. Its ``health`` lists lost and doubtful data.

    Raises:
        TraceNotFound: no such file, or not readable.
        UnknownTraceFormat: the file has no known trace format.
        UnusableTrace: the format is known, but no event can be read.
        OutputError: a packed database cannot be unpacked into the folder for temporary files.
        ValueError: a category does not exist, or the window ends before it begins.
    """
    path = Path(path)
    options = Options(selection_of(categories, window), processes, progress)
    whole = categories is None and window is None
    return cached(path, lambda: read_file(path, options)) if cache and whole else read_file(path, options)


def read_file(path: Path, options: Options) -> Trace:
    """Read a file past the cache."""
    log = HealthLog()
    head = _first_bytes(path)
    if not head:
        empty = path.stat().st_size == 0
        raise UnknownTraceFormat(f"{path}: {'is empty' if empty else 'is gzip that cannot be unpacked; copy it again'}")
    if head.startswith(_SQLITE_MAGIC):
        return assemble(_open_nsys(path, log, options))
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return assemble(read_kineto(path, log, options))
    raise UnknownTraceFormat(f"{path}: {_what_else(path, head)}")


def is_database(path: str | Path) -> bool:
    """Whether the file is an SQLite database, plain or gzip.

    Raises:
        TraceNotFound: no such file, or not readable.
    """
    return _first_bytes(Path(path)).startswith(_SQLITE_MAGIC)


def _first_bytes(path: Path) -> bytes:
    """The first block of the content; damage is logged later, when the whole file is read."""
    with closing(read_blocks(path, HealthLog())) as blocks:
        return next(blocks, b"")


def _open_nsys(path: Path, log: HealthLog, options: Options) -> Draft:
    with path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    if not packed:
        return read_nsys(path, path, log, options)
    try:
        with tempfile.NamedTemporaryFile(suffix=".sqlite") as unpacked:
            for block in read_blocks(path, log, options.progress):
                unpacked.write(block)
            unpacked.flush()
            return read_nsys(Path(unpacked.name), path, log, replace(options, progress=None))
    except OverlapscopeError:
        raise
    except OSError as error:
        folder = tempfile.gettempdir()
        raise OutputError(f"{path}: cannot be unpacked into {folder} ({error.strerror or error})") from error


def _what_else(path: Path, head: bytes) -> str:
    for magic, meaning in _KNOWN_OTHERS:
        if head.lstrip()[: len(magic)].lower() == magic.lower():
            return meaning
    if path.suffix in _NSYS_REPORTS:  # only after the content ruled out everything else
        return "an Nsight Systems report: export it with `nsys export --type sqlite`"
    return "not a trace: expected torch.profiler JSON or an Nsight Systems SQLite export"
