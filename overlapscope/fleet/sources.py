"""Where traces come from: folders, patterns and URLs, each read as a stream."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.request import url2pathname

from overlapscope.errors import OverlapscopeError, TraceNotFound

TRACE_NAMES = ("*.json", "*.json.gz", "*.sqlite", "*.sqlite.gz", "*.json.tmp")
"""What a trace in a folder is called; a pattern may name others."""
_BLOCK_BYTES = 1 << 20
_FILE = "file://"


@dataclass(frozen=True)
class Source:
    """A file that may be a trace, by its absolute path or URL, with what tells whether it has changed."""

    name: str
    size_bytes: int
    modified_ns: int


def find_sources(names: Sequence[str]) -> list[Source]:
    """All files that folders, patterns, paths and URLs name, each once, sorted by name.

    A name that stands for no file is a source, too, which cannot be read: it does not keep the others from it.

    Raises:
        TraceNotFound: no name stands for a file.
    """
    sources, missing = dict[str, Source](), list[str]()
    for name in names:
        remote = "://" in name.removeprefix(_FILE)
        files = {source.name: source for source in (_remote(name) if remote else _local(_path(name)))}
        sources |= files
        missing += [] if files else [name if remote else str(_path(name).absolute())]
    if not sources:
        raise TraceNotFound(f"{', '.join(names)}: no such file, and no trace in it")
    sources |= {name: Source(name, 0, 0) for name in missing}
    return [sources[name] for name in sorted(sources)]


@contextmanager
def local_file(name: str) -> Iterator[tuple[Path, str]]:
    """The file at ``name``, and the hash of its content; what lies elsewhere is streamed to a temporary file first.

    Raises:
        TraceNotFound: it cannot be read.
    """
    try:
        with ExitStack() as stack:
            path = Path(name)
            if "://" in name:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="overlapscope-"))
                path = Path(folder) / PurePosixPath(name).name
                with _filesystem(name).open(name, "rb") as stream, path.open("wb") as copy:
                    shutil.copyfileobj(stream, copy, _BLOCK_BYTES)
            with path.open("rb", buffering=0) as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            yield path, content
    except OverlapscopeError:
        raise
    except IsADirectoryError as error:
        raise TraceNotFound(f"{name}: no trace in this folder") from error
    except OSError as error:
        raise TraceNotFound(f"{name}: cannot be read ({error.strerror or error})") from error


def _path(name: str) -> Path:
    """The path of a file that is here, by its path or its URL."""
    return Path(url2pathname(name.removeprefix(_FILE)) if name.startswith(_FILE) else name)


def _local(path: Path) -> Iterator[Source]:
    if path.is_dir():
        files: Iterable[Path] = (file for pattern in TRACE_NAMES for file in path.rglob(pattern))
    elif has_magic(str(path)) and not path.exists():
        root = Path(path.anchor or ".")
        files = root.glob(str(path.relative_to(path.anchor) if path.anchor else path))
    else:
        files = [path]
    for file in files:
        if file.is_file():
            state = file.stat()
            yield Source(str(file.absolute()), state.st_size, state.st_mtime_ns)
        elif file.is_symlink() and not file.exists():
            yield Source(str(file.absolute()), 0, 0)


def _remote(url: str) -> Iterator[Source]:
    system = _filesystem(url)
    if has_magic(url):
        paths = system.glob(url)
    elif system.isdir(url):
        paths = [path for path in system.find(url) if any(PurePosixPath(path).match(name) for name in TRACE_NAMES)]
    else:
        paths = [url] if system.exists(url) else []
    for path in paths:
        info = system.info(path)
        if info.get("type") != "directory":
            yield Source(system.unstrip_protocol(path), int(info.get("size") or 0), _modified_ns(info))


def _modified_ns(info: dict[str, Any]) -> int:
    """The time at which an object was written; 0 where its store does not say."""
    for key in ("LastModified", "last_modified", "updated", "mtime", "created"):
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e9)
        if isinstance(value, int | float):
            return int(value * 1e9)
    return 0


def _filesystem(url: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise TraceNotFound(f"{url}: URLs need `pip install fsspec s3fs gcsfs`") from error
    try:
        return fsspec.url_to_fs(url)[0]
    except (ImportError, ValueError) as error:
        raise TraceNotFound(f"{url}: cannot be opened ({error})") from error
