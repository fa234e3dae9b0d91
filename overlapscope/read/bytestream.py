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
PACKED_BLOCK_BYTES = 1 << 16
UNPACKED_BLOCK_BYTES = 1 << 17
_SMALL_STEP_BYTES = 256
_INFLATE_ERRORS: tuple[type[Exception], ...] = (zlib.error, inflate_library.error)

Block = tuple[int, bytes]
"""A place in the file, and the content that was read there."""
Progress = Callable[[int, int], None]
"""Called with (read so far, all there is): bytes of a file, or tables of a database."""


def read_blocks(path: Path, log: HealthLog, progress: Progress | None = None) -> Generator[bytes]:
    """Yield the file's content in blocks, unpacked when it is gzip by content.

    Raises:
        TraceNotFound: the path names no regular file, or one that cannot be opened.
    """
    return (block for _, block in placed_blocks(path, log, progress))


def placed_blocks(path: Path, log: HealthLog, progress: Progress | None = None, start: int = 0) -> Generator[Block]:
    """Yield the content with its places, from a multiple of `BLOCK_BYTES` of the file on.

    A place is the first byte of the file that was read for a block. Of gzip, everything before is unpacked too.

    Raises:
        TraceNotFound: the path names no regular file, or one that cannot be opened.
    """
    if not is_packed(path):
        return _raw_blocks(path, BLOCK_BYTES, progress, start)
    return (block for block in _gunzip_all(path, log, progress) if block[0] >= start)


def is_packed(path: Path) -> bool:
    """Whether the file is gzip.

    Raises:
        TraceNotFound: the path names no regular file, or one that cannot be opened.
    """
    return _head(path) == GZIP_MAGIC


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
        return "is a directory; name a trace inside it, or take overlapscope fleet for the ranks of a job"
    if not path.is_file():
        return "is no regular file" if path.exists() else "no such file"
    return None


def _raw_blocks(path: Path, size: int, progress: Progress | None, start: int = 0) -> Generator[Block]:
    total, place = path.stat().st_size, start
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while block := file.read(size):
            if progress is not None:
                progress(place + len(block), total)
            yield place, block
            place += len(block)


class _Damaged(Exception):
    """The compressed data cannot be unpacked further."""


def _gunzip_all(path: Path, log: HealthLog, progress: Progress | None) -> Generator[Block]:
    """Decompress a file; where it is damaged, read it again in small steps to get everything before the damage."""
    given = 0
    try:
        for place, data in _gunzip(_raw_blocks(path, PACKED_BLOCK_BYTES, progress), log, UNPACKED_BLOCK_BYTES):
            given += len(data)
            yield place, data
    except _Damaged as damage:
        log.add("corrupt-gzip", 1, damage)
        with suppress(_Damaged):
            for place, data in _gunzip(_raw_blocks(path, PACKED_BLOCK_BYTES, None), HealthLog(), _SMALL_STEP_BYTES):
                given, fresh = max(0, given - len(data)), data[given:]
                if fresh:
                    yield place, fresh


def _gunzip(blocks: Iterator[Block], log: HealthLog, step: int) -> Generator[Block]:
    """Unpack one or more gzip members; stop at the first byte that is not gzip."""
    member: Any = None
    pending = b""
    for place, block in blocks:
        pending += block
        while pending:
            if member is None:
                pending = pending.lstrip(b"\0") if len(pending) > 1 else pending
                if len(pending) < len(GZIP_MAGIC):
                    break
                if not pending.startswith(GZIP_MAGIC):
                    log.add("trailing-bytes", 1)
                    return
                member = inflate_library.decompressobj(wbits=31)
            try:
                data = member.decompress(pending, step)
            except _INFLATE_ERRORS as error:
                raise _Damaged(str(error)) from error
            if data:
                yield place, data
            pending = member.unused_data if member.eof else member.unconsumed_tail
            member = None if member.eof else member
    if member is not None:
        log.add("truncated", 1, "compressed file is truncated; everything up to its end was read")
