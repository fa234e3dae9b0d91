"""By what an opened trace is found: the content of its file, and the code that reads it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from stat import S_ISREG

from overlapscope import __version__

_PACKAGE = Path(__file__).parent.parent
_READERS = ("cache", "calibration", "model", "read")
_DIGITS = 40


@dataclass(frozen=True)
class FileState:
    """What a file system says about a file; a file whose content changes has another one."""

    size_bytes: int
    modified_ns: int
    changed_ns: int
    inode: int
    device: int


def file_state(path: Path) -> FileState | None:
    """The state of a file; None where there is none, or where its content is not all that is read.

    A database with a write-ahead log beside it has rows that its own file has not.
    """
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode) or path.with_name(f"{path.name}-wal").exists():
            return None
    except OSError:
        return None
    return FileState(about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino, about.st_dev)


def content_of(path: Path) -> str:
    """The hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]


def reader_version() -> str:
    """The version of the code that reads."""
    return code_version(*_READERS)


@cache
def code_version(*parts: str) -> str:
    """The version of some modules and packages of ours: the number, and their files, which a developer changes."""
    digest = hashlib.sha256(__version__.encode())
    patterns = (pattern for part in parts for pattern in (f"{part}.py", f"{part}/**/*.py"))
    for file in sorted(file for pattern in patterns for file in _PACKAGE.glob(pattern)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
