"""A trace reaches its file whole or not at all."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from overlapscope.errors import OutputError


@contextmanager
def writing(target: Path, level: int = 9) -> Iterator[IO[bytes]]:
    """A file that takes the name ``target`` when the block ends well.

    It is gzip of this ``level`` when its name ends in ``.gz``. There is no name and no time in a gzip header, so
    that the same content gives the same file.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=target.parent) as folder:
            ready = Path(folder) / "ready"
            with ready.open("wb") as plain:
                if target.suffix == ".gz":
                    with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0, compresslevel=level) as zipped:
                        yield cast("IO[bytes]", zipped)
                else:
                    yield plain
            ready.replace(target)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written ({error.strerror or error})") from error
