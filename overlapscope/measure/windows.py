"""The stretch of a trace that figures are taken over: all of it, or every occurrence of a named range."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from overlapscope.errors import RangeNotFound
from overlapscope.measure.spans import Spans, union
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class Window:
    """Where figures are taken: the union of all occurrences.

    ``start_ns`` and ``end_ns`` hold each occurrence; they may overlap where one's device work runs into
    the next. ``name`` is None for the whole trace.
    """

    name: str | None
    start_ns: Int64
    end_ns: Int64
    spans: Spans

    @property
    def first_ns(self) -> int:
        """Begin of the first occurrence."""
        return int(self.start_ns.min()) if len(self.start_ns) else 0

    @property
    def last_ns(self) -> int:
        """End of the last occurrence."""
        return int(self.end_ns.max()) if len(self.end_ns) else 0

    @property
    def wall_ns(self) -> int:
        """Length of the union of all occurrences."""
        return self.spans.total_ns


def whole(trace: Trace) -> Window:
    """The window of the whole trace: from the first begin to the last end of anything recorded."""
    return between(trace.start_ns, trace.end_ns)


def between(start_ns: int, end_ns: int, name: str | None = None) -> Window:
    """The window [start_ns, end_ns)."""
    start, end = np.array([start_ns], np.int64), np.array([end_ns], np.int64)
    return Window(name, start, end, union(start, end))


def of_range(trace: Trace, name: str) -> Window:
    """The window of every host range called ``name`` (or matching it, when it has ``*`` or ``?``).

    An occurrence lasts from its host start to its host end, or to the end of the last device work that
    its process issued meanwhile, whichever is later.

    Raises:
        RangeNotFound: no such range; the message names the nearest ones.
    """
    rows = _rows_called(trace, name)
    ranges = trace.ranges.take(rows)
    ends = ranges.end_ns.copy()
    issued, done, process = _issued_work(trace)
    for owner in np.unique(ranges.process):
        mine = process == owner
        issued_here, done_here = issued[mine], done[mine]
        for row in np.flatnonzero(ranges.process == owner):
            first, last = np.searchsorted(issued_here, (ranges.start_ns[row], ranges.end_ns[row]))
            ends[row] = max(ends[row], done_here[first:last].max(initial=ends[row]))
    return Window(name, ranges.start_ns, ends, union(ranges.start_ns, ends))


def _rows_called(trace: Trace, name: str) -> Int64:
    exact = trace.names.find(name)
    rows = np.flatnonzero(np.isin(trace.ranges.name_id, exact))
    if len(rows):
        return rows
    known = {number: trace.names[number] for number in np.unique(trace.ranges.name_id).tolist()}
    if any(sign in name for sign in "*?"):
        matching = [number for number, text in known.items() if fnmatchcase(text, name)]
        rows = np.flatnonzero(np.isin(trace.ranges.name_id, matching))
        if len(rows):
            return rows
    if not known:
        raise RangeNotFound(
            f"no range {name!r}: the trace has no annotations or NVTX ranges; wrap the code in "
            "torch.profiler.record_function or overlapscope.annotate and record again"
        )
    near = difflib.get_close_matches(name, known.values(), n=5, cutoff=0.3) or sorted(set(known.values()))[:5]
    raise RangeNotFound(f"no range {name!r} in the trace; it has, for example: {', '.join(near)}")


def _issued_work(trace: Trace) -> tuple[Int64, Int64, Int64]:
    """When each joined device op was issued and done, and by which process, in the order of issue."""
    work: tuple[DeviceWork, ...] = (trace.kernels, trace.copies, trace.memsets)
    joined = [table.take(table.call != NO_ID) for table in work]
    issued = np.concatenate([trace.api_calls.start_ns[table.call] for table in joined])
    done = np.concatenate([table.end_ns for table in joined])
    process = np.concatenate([table.process for table in joined])
    order = np.argsort(issued, kind="stable")
    return issued[order], done[order], process[order]
