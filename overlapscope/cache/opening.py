"""Open a trace by way of the cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from overlapscope.cache.config import DEFAULT, CacheConfig
from overlapscope.cache.folder import cache_folder
from overlapscope.cache.keys import FileState, content_of, file_state
from overlapscope.cache.store import Store
from overlapscope.model.trace import Trace


def cached(path: Path, read: Callable[[], Trace], config: CacheConfig = DEFAULT) -> Trace:
    """The trace of a file: from the cache where it has the file's content, else as ``read`` gives it, and then kept.

    A file in the state in which it was seen before is not read. Of another one the content decides.
    """
    folder, state = cache_folder(), file_state(path)
    if folder is None or state is None:
        return read()
    store, since_ns = Store(folder, config), time.time_ns()
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
    if took_s >= store.config.least_read_s and content.result() and same:
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
