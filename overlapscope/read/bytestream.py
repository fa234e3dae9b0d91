"""Read a file as blocks of uncompressed bytes, whatever its suffix; damage is logged, not raised."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from overlapscope.errors import TraceNotFound
from overlapscope.read.log import HealthLog

inflate_library: ModuleType = zlib
with suppress(ImportError):  # igzip is about three times as fast; it has no wheel for some platforms
    from isal import isal_zlib

    inflate_library = isal_zlib

GZIP_MAGIC = b"\x1f\x8b"
BLOCK_BYTES = 1 << 19
_PACKED_BLOCK_BYTES = 1 << 16
_UNPACKED_BLOCK_BYTES = 1 << 17
_SMALL_STEP_BYTES = 256
_INFLATE_ERRORS: tuple[type[Exception], ...] = (zlib.error, inflate_library.error)

Progress = Callable[[int, int], None]
"""Called with (read so far, all there is): bytes of a file, or tables of a database."""


def read_blocks(path: Path, log: HealthLog, progress: Progress | None = None) -> Generator[bytes]:
    """Yield the file's content in blocks, unpacked when it is gzip by content.

    Raises:
        TraceNotFound: the path names no regular file, or one that cannot be opened.
    """
    if _head(path) != GZIP_MAGIC:
        return _raw_blocks(path, BLOCK_BYTES, progress)
    return _gunzip_all(path, log, progress)


def _head(path: Path) -> bytes:
    """The first bytes of the file, by which gzip is recognised."""
    try:
        problem = _problem(path)
        if problem is None:
            with path.open("rb") as file:
                return file.read(len(GZIP_MAGIC))
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise TraceNotFound(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    raise TraceNotFound(f"{path}: {problem}")


def _problem(path: Path) -> str | None:
    """Why the path is no file that can be read; None where it is one."""
    if path.is_dir():
        return "is a directory; name the trace file inside it"
    if not path.is_file():
        return "is no regular file" if path.exists() else "no such file"
    return None


def _raw_blocks(path: Path, size: int, progress: Progress | None) -> Generator[bytes]:
    total, done = path.stat().st_size, 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(size):
            done += len(block)
            if progress is not None:
                progress(done, total)
            yield block


class _Damaged(Exception):
    """The compressed data cannot be unpacked further."""


def _gunzip_all(path: Path, log: HealthLog, progress: Progress | None) -> Generator[bytes]:
    """Decompress a file; where it is damaged, read it again in small steps to get everything before the damage."""
    given = 0
    try:
        for data in _gunzip(_raw_blocks(path, _PACKED_BLOCK_BYTES, progress), log, _UNPACKED_BLOCK_BYTES):
            given += len(data)
            yield data
    except _Damaged as damage:
        log.damage(
            "corrupt-gzip", 1, f"the compressed data is damaged ({damage}); everything before the damage was read"
        )
        with suppress(_Damaged):
            for data in _gunzip(_raw_blocks(path, _PACKED_BLOCK_BYTES, None), HealthLog(), _SMALL_STEP_BYTES):
                given, fresh = max(0, given - len(data)), data[given:]
                if fresh:
                    yield fresh


def _gunzip(blocks: Iterator[bytes], log: HealthLog, step: int) -> Generator[bytes]:
    """Unpack one or more gzip members; stop at the first byte that is not gzip."""
    member: Any = None
    pending = b""
    for block in blocks:
        pending += block
        while pending:
            if member is None:
                pending = pending.lstrip(b"\0") if len(pending) > 1 else pending
                if len(pending) < len(GZIP_MAGIC):
                    break
                if not pending.startswith(GZIP_MAGIC):
                    log.warn("trailing-bytes", 1, "bytes that are not gzip follow the compressed data; not read")
                    return
                member = inflate_library.decompressobj(wbits=31)
            try:
                data = member.decompress(pending, step)
            except _INFLATE_ERRORS as error:
                raise _Damaged(str(error)) from error
            if data:
                yield data
            pending = member.unused_data if member.eof else member.unconsumed_tail
            member = None if member.eof else member
    if member is not None:
        log.damage("truncated", 1, "the compressed file is truncated; everything up to its end was read")
