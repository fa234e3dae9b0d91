"""Write files atomically: a file appears complete or not at all."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from overlapscope.errors import OutputError, OverlapscopeError


@contextmanager
def writing(target: Path, level: int = 9) -> Iterator[IO[bytes]]:
    """Open a temporary file that becomes ``target`` when the block ends without an error.

    It is compressed with gzip at this ``level`` when the name ends in ``.gz``. The gzip header has no name and no time,
    so that equal content gives equal files.

    Raises:
        OutputError: the file cannot be written.
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
    except OverlapscopeError:
        raise
    except OSError as error:
        raise OutputError(f"{target}: cannot be written ({error.strerror or error})") from error
