"""The part of a trace that a timeline shows: a stretch, by time, range, step or finding, and the lanes."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from overlapscope.analysis.analysis import Analysis, Source, analyse
from overlapscope.diagnosis.finding import Diagnosis, Finding
from overlapscope.diagnosis.intervals import finding_intervals, longest
from overlapscope.errors import WindowEmpty
from overlapscope.formatting import changed, safe
from overlapscope.measure.windows import Window, work_window
from overlapscope.model.trace import Trace

_AROUND = 0.75  # of the length of a finding's interval, shown on both sides of it


@dataclass(frozen=True)
class Shown:
    """What of a trace a figure shows. None shows everything, as far as it can be read.

    ``ranges``: names of annotations (* and ? match); ``threads`` and ``streams``: their numbers. ``calls``: host
    threads with their calls. ``overlap``: a strip for each device that says where copies and kernels ran together;
    ``why_idle``: one with its time without a kernel by finding, and one for each finding without such time, with its
    places; ``queue``: one with the work that was issued and had not begun.
    ``labels``: that time with its causes, one bar for each. ``range_depth``: rows of nested ranges per thread,
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
        """Whether the figure shows a thread."""
        return self.threads is None or thread in self.threads

    def has_stream(self, stream: int) -> bool:
        """Whether the figure shows a stream."""
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


def drawn(
    source: Source, window: tuple[int, int] | Window | None = None, within: str | Window | None = None
) -> tuple[Analysis, Window | None]:
    """The analysis whose causes of idle time a figure shows, and the window that it shows; None for all device work.

    An analysis keeps its window, of which ``window`` shows a part; a trace is analysed within what is shown.

    Raises:
        WindowEmpty: ``window`` has no length, or nothing of the trace is in it; or both are given.
        RangeNotFound: the trace has no range of that name.
    """
    if within is not None:
        if window is not None:
            raise WindowEmpty("choose the window by window= or within=, not by both")
        analysis = analyse(source, within)
        return analysis, analysis.window
    analysis = analyse(source)
    part = _shown_window(analysis.trace, window)
    if not isinstance(source, Analysis):
        return analyse(analysis, window=part), part
    whole = analysis.window.is_whole
    return analysis, analysis.window if part is None and not whole else part


def _shown_window(trace: Trace, window: tuple[int, int] | Window | None) -> Window | None:
    """The window that a figure shows; None for all device work.

    Raises:
        WindowEmpty: ``window`` has no length, or nothing of the trace is in it.
    """
    if window is None or isinstance(window, Window):
        return window
    first, last = map(int, window)
    if last <= first:
        raise WindowEmpty(f"no window from {first} to {last} ns: it ends before it begins")
    if last <= trace.start_ns or first >= max(trace.end_ns, trace.start_ns + 1):
        raise WindowEmpty(
            f"nothing of the trace is in the window from {first} to {last} ns: on its clock, it has {trace.start_ns} "
            f"to {trace.end_ns}. Add trace.start_ns to times since its begin, or name a range by within="
        )
    return Window.between(first, last)


def edges_of(trace: Trace, window: Window | None) -> tuple[int, int]:
    """The stretch that a figure of a window shows: from its begin to its end, `work_window` without one."""
    return work_window(trace) if window is None else (window.first_ns, window.last_ns)


def of_finding(diagnosis: Diagnosis, finding: Finding) -> Window:
    """The longest interval of a finding, with time around it."""
    ((first, last),) = longest(*finding_intervals(diagnosis, finding))
    around = round(_AROUND * (last - first))
    return Window.between(max(first - around, diagnosis.trace.start_ns), min(last + around, diagnosis.trace.end_ns))
