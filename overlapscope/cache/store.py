"""The folder of opened traces: entries that appear whole or not at all, and the files whose content is known.

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
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from overlapscope.atomic_files import writing
from overlapscope.cache.config import DEFAULT, CacheConfig
from overlapscope.cache.keys import FileState, reader_version
from overlapscope.cache.trace_file import read_trace, source_of, write_trace
from overlapscope.errors import OutputError
from overlapscope.model.trace import Trace


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

    def __init__(self, folder: Path, config: CacheConfig = DEFAULT) -> None:
        self.folder, self.config = folder, config

    def entries(self) -> list[Entry]:
        """All entries, the last used first."""
        found = []
        for path in self.folder.glob("*.arrow"):
            with suppress(OSError):  # another process has just removed it
                about = path.stat()
                found.append(Entry(path, about.st_size, about.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used_s, entry.path))

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
        if since_ns - max(state.modified_ns, state.changed_ns) < self.config.settled_ns:
            return
        with suppress(OSError, OutputError):
            note = self._note(path)
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with writing(note) as file:
                file.write(json.dumps({"state": asdict(state), "content": content}).encode())

    def evict(self) -> None:
        """Remove what was used longest ago, down to the size that is allowed, and what killed writers left."""
        room = self.config.most_bytes
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
        before = time.time() - self.config.abandoned_s
        for left in self.folder.glob(".writing-*"):
            with suppress(OSError):
                if left.stat().st_mtime < before:
                    yield left
