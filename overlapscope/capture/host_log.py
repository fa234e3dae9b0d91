"""Note what takes the host while a program is recorded: garbage collections, sleeps, files, output, batches.

Calls are heard by functions that stand in the place of the original ones for a while, so that a function that was
imported by name before (``from time import sleep``) is not heard; samples of the Python stacks show it all the same.
Reads and writes of a file object happen in C and are not heard either, nor are ``os.read`` and ``os.write``, which
serve pipes more often than files.
"""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import logging
import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from overlapscope.capture import places
from overlapscope.capture.kineto_file import TraceEvent

CATEGORY = "host_event"
"""The category of what took the host in a trace."""
LEAST_NS = 1_000_000
"""The least duration of a call that is noted: less is not worth a line, and there are many of them."""
LEAST_REGULAR_NS = 100_000
"""The same for garbage collections, items and collations, of which each step has its share."""
_MOST = 200_000  # events, about 40 MB of trace
_OLDEST = 2  # generation: the one that an explicit collection collects


class HostLog:
    """Collects events of this process and its workers while it `keeps` them.

    Attributes:
        keeps: whether what ends now is noted.
        events: what was noted.
    """

    def __init__(self) -> None:
        self.keeps = False
        self.events: list[TraceEvent] = []
        self.process = os.getpid()
        self._begin_ns = 0

    def begin(self) -> None:
        """Keep what ends from now on."""
        self.events.clear()
        self._begin_ns, self.keeps = time.time_ns(), True

    def add(self, event: TraceEvent, least_ns: int) -> None:
        """Note an event that was long enough, unless it began too early or this process was forked off."""
        is_kept = self._begin_ns and event.begin_ns >= self._begin_ns and len(self.events) < _MOST
        if is_kept and event.end_ns - event.begin_ns >= least_ns and os.getpid() == self.process:
            self.events.append(event)

    def note(
        self, kind: str, name: str, begin_ns: int, *, end_ns: int = 0, least_ns: int = LEAST_NS, **notes: Any
    ) -> None:
        """Note what ends now on this thread, with its place in the program where ``notes`` have none."""
        end_ns = end_ns or time.time_ns()
        if not self.keeps or end_ns - begin_ns < least_ns:
            return
        if "place" not in notes and (frame := places.caller()) is not None:
            name = f"{name} ({places.file_and_line(frame)})"
            notes["place"] = places.function(frame.f_code, frame.f_lineno)
        thread = threading.get_native_id()
        self.add(TraceEvent(CATEGORY, name, begin_ns, end_ns, self.process, thread, {"kind": kind, **notes}), least_ns)


class _Inside(threading.local):
    """Whether this thread is in a call that is heard: what that calls is a part of it."""

    now = False


@contextmanager
def watch_host(log: HostLog) -> Iterator[None]:
    """Hear what takes the host, for a while."""
    import torch

    inside = _Inside()
    calls: tuple[tuple[Any, str, str, str], ...] = (
        (time, "sleep", "sleep", "time.sleep"),
        (torch, "save", "save", "torch.save"),
        (torch, "load", "load", "torch.load"),
        (torch.cuda, "empty_cache", "empty_cache", "torch.cuda.empty_cache"),
        (builtins, "print", "log", "print"),
        (logging.Logger, "callHandlers", "log", "logging"),
        (builtins, "open", "file", "open"),
        (os, "fsync", "file", "os.fsync"),
        *((pathlib.Path, name, "file", f"Path.{name}") for name in ("read_bytes", "read_text")),
        *((pathlib.Path, name, "file", f"Path.{name}") for name in ("write_bytes", "write_text")),
    )
    with ExitStack() as changes:
        for owner, name, kind, shown in calls:
            changes.enter_context(_heard(log, inside, owner, name, kind, shown))
        changes.enter_context(_watch_collections(log))
        yield


@contextmanager
def _heard(log: HostLog, inside: _Inside, owner: Any, name: str, kind: str, shown: str) -> Iterator[None]:
    """Note the long calls of a function of ``owner``; afterwards it is the original, unless the program changed it."""
    original = getattr(owner, name)
    was_own = name in vars(owner)
    clock = time.time_ns

    @functools.wraps(original)
    def heard(*args: Any, **kwargs: Any) -> Any:
        if not log.keeps or inside.now:
            return original(*args, **kwargs)
        inside.now, begin_ns = True, clock()
        try:
            return original(*args, **kwargs)
        finally:
            inside.now = False
            log.note(kind, shown, begin_ns)

    setattr(owner, name, heard)
    try:
        yield
    finally:
        if vars(owner).get(name) is heard:
            if was_own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)


@contextmanager
def _watch_collections(log: HostLog) -> Iterator[None]:
    """Note garbage collections; they begin and end on one thread, one at a time."""
    begin_ns = 0

    def heard(phase: str, info: Mapping[str, int]) -> None:
        nonlocal begin_ns
        if phase == "start":
            begin_ns = time.time_ns()
            return
        begun_ns, begin_ns = begin_ns, 0
        is_long = begun_ns and log.keeps and time.time_ns() - begun_ns >= LEAST_REGULAR_NS
        if is_long and places.caller() is not None:  # else it came on the sampler's thread
            asked = info["generation"] == _OLDEST and _asks_for(sys._getframe().f_back)  # noqa: SLF001
            name = "gc.collect" if asked else "garbage collection"
            counts = {"generation": info["generation"], "collected": info["collected"]}
            log.note("gc", name, begun_ns, least_ns=LEAST_REGULAR_NS, **counts)

    gc.callbacks.append(heard)
    try:
        yield
    finally:
        gc.callbacks.remove(heard)


def _asks_for(frame: FrameType | None) -> bool:
    """Whether the line that runs names ``collect``: else the collector came by itself."""
    return frame is not None and any(
        each.argval == "collect" and each.positions is not None and each.positions.lineno == frame.f_lineno
        for each in dis.get_instructions(frame.f_code)
    )
