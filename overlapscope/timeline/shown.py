"""What of a trace a timeline shows."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from overlapscope.errors import WindowEmpty
from overlapscope.formatting import changed, safe
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class Shown:
    """What of a trace a figure shows. None shows all there is, as far as it can be read.

    ``ranges``: names of annotations (* and ? match); ``threads`` and ``streams``: their numbers. ``calls``: host
    threads with their calls. ``overlap``: a strip for each device that says where copies and kernels ran together;
    ``why_idle``: one with its idle time by finding; ``queue``: one with the work that was issued and had not begun.
    ``labels``: idle time with its causes, one bar for each. ``range_depth``: rows of nested ranges per thread,
    outermost first. ``most_range_threads``: threads whose ranges are shown. ``most_streams``: lanes of streams, those
    with copies first. ``most_threads``: lanes of host threads, those that copies blocked longest first.
    """

    ranges: tuple[str, ...] | None = None
    threads: tuple[int, ...] | None = None
    streams: tuple[int, ...] | None = None
    calls: bool = True
    overlap: bool = True
    why_idle: bool = True
    queue: bool = False
    labels: bool = False
    range_depth: int = 3
    most_range_threads: int = 2
    most_streams: int = 16
    most_threads: int = 6

    __repr__ = changed

    def has_thread(self, thread: int) -> bool:
        """Whether a thread is to be shown."""
        return self.threads is None or thread in self.threads

    def has_stream(self, stream: int) -> bool:
        """Whether a stream is to be shown."""
        return self.streams is None or stream in self.streams


def check_shown(trace: Trace, shown: Shown) -> None:
    """Raise `WindowEmpty` where a stream, thread or range that was asked for is not in the trace."""
    streams = {int(stream) for table in trace.device_work for stream in np.unique(table.stream)}
    threads = {int(thread) for table in (trace.api_calls, trace.ranges) for thread in np.unique(table.thread)}
    for what, wanted, there in (("stream", shown.streams, streams), ("thread", shown.threads, threads)):
        missing = sorted(set(wanted or ()) - there)
        if missing:
            known = ", ".join(map(str, sorted(there))) or "none"
            raise WindowEmpty(f"no {what} {missing[0]} in the trace: there is {known}")
    names = [trace.names[number] for number in np.unique(trace.ranges.name_id).tolist()]
    for pattern in shown.ranges or ():
        if not any(fnmatchcase(name, pattern) for name in names):
            raise WindowEmpty(f"no range {safe(pattern)!r} in the trace")
