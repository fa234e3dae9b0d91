"""The folder of opened traces, in the user's cache folder or the one in OVERLAPSCOPE_CACHE.

Entries appear whole or not at all:

    SIZE-CONTENT-READER.arrow   a trace, by its file's size and content, and by the code that read it
    seen/PATH.json              the content of a file in one state

Any number of processes may read, write and evict at once: an entry is never changed, and one that is gone is read
from its file again. What cannot be written is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from stat import S_ISREG

from overlapscope import __version__
from overlapscope.atomic_files import writing
from overlapscope.cache.trace_file import read_trace, source_of, write_trace
from overlapscope.errors import OutputError
from overlapscope.model.trace import Trace

VARIABLE = "OVERLAPSCOPE_CACHE"
"""The environment variable that names another folder than the user's cache folder, or says ``off``."""
MOST_BYTES = 5_000_000_000
"""Bytes of all entries; beyond it those go first that were used longest ago. An entry has a tenth of the bytes of its
JSON, so that this is room for 50 GB of traces."""
LEAST_READ_S = 0.5
"""Seconds; a trace that was read faster is not kept: reading it again is no wait."""
SETTLED_NS = 2_000_000_000
"""A file that changed this short a time before its content was read is not known by its time of change, since another
change may have the same: file systems round times up to two seconds."""
_ABANDONED_S = 3600  # what a writer left unfinished for so long is of one that was killed
_OFF = ("off", "0", "")
_PACKAGE = Path(__file__).parent.parent
_READERS = ("cache", "calibration", "model", "read")
_DIGITS = 40  # of the hash of a file's content, in a file name


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the cache; None where OVERLAPSCOPE_CACHE is ``off``, or nobody has a home."""
    chosen = environment.get(VARIABLE)
    if chosen is not None:
        return None if chosen.lower() in _OFF else Path(chosen)
    try:
        return _of_user(environment) / "overlapscope"
    except RuntimeError:  # no home folder
        return None


def _of_user(environment: Mapping[str, str]) -> Path:
    """The cache folder of the user on each system."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = environment.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    return Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"


@dataclass(frozen=True)
class FileState:
    """The state of a file in its file system; a file whose content changes has another one."""

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
        stat = path.stat()
        if not S_ISREG(stat.st_mode) or path.with_name(f"{path.name}-wal").exists():
            return None
    except OSError:
        return None
    return FileState(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev)


def content_of(path: Path) -> str:
    """The hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]


def reader_version() -> str:
    """The version of the code that reads traces."""
    return code_version(*_READERS)


@cache
def code_version(*parts: str) -> str:
    """The version of modules and packages of ours: the number, and their files, which a developer changes."""
    digest = hashlib.sha256(__version__.encode())
    patterns = (pattern for part in parts for pattern in (f"{part}.py", f"{part}/**/*.py"))
    for file in sorted(file for pattern in patterns for file in _PACKAGE.glob(pattern)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Entry:
    """One kept trace."""

    path: Path
    size_bytes: int
    used_s: float

    @property
    def source(self) -> str:
        """The file that it was read from."""
        return source_of(self.path)

    @property
    def of_this_version(self) -> bool:
        """Whether this version of the package can use it."""
        return self.path.stem.endswith(reader_version())


class Store:
    """The traces in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entries(self) -> list[Entry]:
        """All entries, the last used first."""
        entries = []
        for path in self.folder.glob("*.arrow"):
            with suppress(OSError):  # another process has just removed it
                stat = path.stat()
                entries.append(Entry(path, stat.st_size, stat.st_mtime))
        return sorted(entries, key=lambda entry: (-entry.used_s, entry.path))

    def may_have(self, state: FileState) -> bool:
        """Whether there is a trace of a file of this size, so that its content is worth a look."""
        return any(self.folder.glob(f"{state.size_bytes}-*-{reader_version()}.arrow"))

    def load(self, path: Path, state: FileState, content: str) -> Trace | None:
        """The trace of a file with this content; None where there is none. One that is damaged is removed."""
        entry = self._entry(state, content)
        try:
            trace = read_trace(entry, str(path))
            os.utime(entry)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            with suppress(OSError):
                entry.unlink()
            return None
        return trace

    def keep(self, trace: Trace, state: FileState, content: str) -> None:
        """Keep a trace, and make room for it."""
        with suppress(OSError, OutputError, ValueError):  # no room, no right to write, a text that Arrow cannot hold
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with writing(self._entry(state, content)) as file:
                write_trace(trace, file)
            self.evict()

    def seen(self, path: Path, state: FileState) -> str:
        """The content of a file that has not changed since it was seen; empty where that is not certain."""
        try:
            known = json.loads(self._note(path).read_text())
            return str(known["content"]) if FileState(**known["state"]) == state else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def note(self, path: Path, state: FileState, content: str, since_ns: int) -> None:
        """Note the content of a file that was read from ``since_ns`` on, where its state then says enough."""
        if since_ns - max(state.modified_ns, state.changed_ns) < SETTLED_NS:
            return
        with suppress(OSError, OutputError):
            note = self._note(path)
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with writing(note) as file:
                file.write(json.dumps({"state": asdict(state), "content": content}).encode())

    def evict(self) -> None:
        """Remove what was used longest ago, down to the size that is allowed, and what killed writers left."""
        room = MOST_BYTES
        for entry in self.entries():
            room -= entry.size_bytes
            if room < 0:
                with suppress(OSError):
                    entry.path.unlink()
        for left in self._abandoned():
            shutil.rmtree(left, ignore_errors=True)
        for note in self._useless():
            note.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove everything that is the cache's own."""
        for entry in self.entries():
            entry.path.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "seen", ignore_errors=True)
        for left in self.folder.glob(".writing-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _entry(self, state: FileState, content: str) -> Path:
        return self.folder / f"{state.size_bytes}-{content}-{reader_version()}.arrow"

    def _note(self, path: Path) -> Path:
        name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()
        return self.folder / "seen" / f"{name[:32]}.json"

    def _useless(self) -> Iterator[Path]:
        """Notes of files whose traces are gone."""
        contents = {entry.path.name.split("-")[1] for entry in self.entries()}
        for note in (self.folder / "seen").glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                if json.loads(note.read_text())["content"] not in contents:
                    yield note

    def _abandoned(self) -> Iterator[Path]:
        before = time.time() - _ABANDONED_S
        for left in self.folder.glob(".writing-*"):
            with suppress(OSError):
                if left.stat().st_mtime < before:
                    yield left


def cached(path: Path, read: Callable[[], Trace]) -> Trace:
    """The trace of a file: from the cache where it has the file's content, else as ``read`` gives it, and then kept.

    A file in the state in which it was seen before is not read. Of another one the content decides.
    """
    folder, state = cache_folder(), file_state(path)
    if folder is None or state is None:
        return read()
    store, since_ns = Store(folder), time.time_ns()
    content = store.seen(path, state)
    known = bool(content)
    if not known and store.may_have(state):
        content = _content(path, state)
    trace = store.load(path, state, content) if content else None
    if trace is None:
        return _kept(path, read, state, store)
    if not known:
        store.note(path, state, content, since_ns)
    return trace


def _kept(path: Path, read: Callable[[], Trace], state: FileState, store: Store) -> Trace:
    """Read a trace while another thread hashes its file, and keep it where that took long enough."""
    since_ns = time.time_ns()
    with ThreadPoolExecutor(1) as other:
        content = other.submit(_content, path, state)
        trace = read()
        took_s = (time.time_ns() - since_ns) / 1e9
    same = file_state(path) == state  # the hash may have been done before the rest was read
    if took_s >= LEAST_READ_S and content.result() and same:
        store.keep(trace, state, content.result())
        store.note(path, state, content.result(), since_ns)
    return trace


def _content(path: Path, state: FileState) -> str:
    """The hash of a file; empty where it changed meanwhile, or cannot be read."""
    try:
        content = content_of(path)
    except OSError:
        return ""
    return content if file_state(path) == state else ""
