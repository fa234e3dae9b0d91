"""Write files atomically: a file appears complete or not at all."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from overlapscope.errors import OutputError, OverlapscopeError

_OPEN_FILES = {"/dev", "/dev/fd", "/proc/self/fd"}


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Raise an error of the operating system as an `OutputError` about a path that cannot be written."""
    try:
        yield
    except OverlapscopeError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def writing(target: Path, level: int = 9) -> Iterator[IO[bytes]]:
    """Open a temporary file that becomes ``target`` when the block ends without an error.

    What is no regular file, such as a device or a pipe, cannot be replaced and is written as it is.

    It is compressed with gzip at this ``level`` when the name ends in ``.gz``. The gzip header has no name and no time,
    so that equal content gives equal files.

    Raises:
        OutputError: the file cannot be written.
    """
    with output_errors(target):
        if _stays(target):
            with target.open("wb") as plain, _packed(plain, target, level) as out:
                yield out
            return
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=target.parent) as folder:
            ready = Path(folder) / "ready"
            with ready.open("wb") as plain, _packed(plain, target, level) as out:
                yield out
            ready.replace(target)


def _stays(target: Path) -> bool:
    """Whether it is no regular file, or names an open one: standard output, wherever that goes."""
    return (target.exists() and not target.is_file()) or str(target.absolute().parent) in _OPEN_FILES


@contextmanager
def _packed(plain: IO[bytes], target: Path, level: int) -> Iterator[IO[bytes]]:
    """The file, or one that compresses into it."""
    if target.suffix != ".gz":
        yield plain
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0, compresslevel=level) as zipped:
        yield cast("IO[bytes]", zipped)
