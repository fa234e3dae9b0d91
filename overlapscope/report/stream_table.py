"""The table ``streams``: the work of each stream by kind, and how much of it ran beside kernels of other streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.measure.devices import DeviceKey, device_keys
from overlapscope.measure.spans import Spans, intersect, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64, Table, column
from overlapscope.model.enums import Direction
from overlapscope.model.tables import Timed
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.given import trace_and_window
from overlapscope.report.words import Words

_NUMBERS = ("process", "device", "stream", "count", "busy_ns", "overlapped_ns", "exposed_ns")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StreamTable(Table):
    """The work of each stream by kind, and how much of it ran beside kernels of other streams."""

    row_meaning: ClassVar[str] = "The work of one kind on one stream within the window."

    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    stream: Int64 = column("i8", "stream id", null=NO_ID)
    kind_id: Int32 = column("i4", "`kernel`, `memset`, or the direction of copies", text=True)
    count: Int64 = column("i8", "how many of them the window touches")
    busy_ns: Int64 = column("i8", "time with one of them; several at once count once", unit="ns")
    overlapped_ns: Int64 = column("i8", "part of it with a kernel on another stream of the device", unit="ns")
    exposed_ns: Int64 = column("i8", "the rest of it", unit="ns")


def stream_table(found: Trace | Diagnosis | Audit, within: str | Window | None = None) -> StreamTable:
    """The work of each stream by kind, with the time that it ran beside kernels of other streams of its device.

    Args:
        found: an opened trace; or a diagnosis or audit, for the window that it is about.
        within: only the host ranges of this name (``*`` and ``?`` match), or a `Window`.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    trace, window = trace_and_window(found, within)
    of_streams = [entry for key in device_keys(trace, window) for entry in _rows(trace, key, window)]
    words = Words()
    columns = {name: np.array([numbers[name] for _, numbers in of_streams]) for name in _NUMBERS}
    columns["kind_id"] = words.ids(kind for kind, _ in of_streams)
    return StreamTable.build(words.names, len(of_streams), columns)


def _rows(trace: Trace, key: DeviceKey, window: Window) -> Iterator[tuple[str, dict[str, int]]]:
    """Kind and numbers of each row of a device."""
    within, mine = window.of(key.process), key.rows(trace.kernels)
    streams = {int(number) for table in trace.device_work for number in np.unique(table.stream[key.rows(table)])}
    for stream in sorted(streams):
        others = _busy(trace.kernels, mine & (trace.kernels.stream != stream), within)
        for kind, table, rows in _kinds(trace, key, stream):
            touched = rows & window.touches(table.process, table.start_ns, table.end_ns)
            busy = _busy(table, touched, within)
            if busy.total_ns:
                beside = intersect(busy, others).total_ns
                values = (int(touched.sum()), busy.total_ns, beside, busy.total_ns - beside)
                yield kind, dict(zip(_NUMBERS, (key.process, key.device, stream, *values), strict=True))


def _kinds(trace: Trace, key: DeviceKey, stream: int) -> Iterator[tuple[str, Timed, Bool]]:
    """The tables of a stream's work with its rows in them, copies by direction."""
    for kind, table in (("kernel", trace.kernels), ("memset", trace.memsets)):
        yield kind, table, key.rows(table) & (table.stream == stream)
    mine = key.rows(trace.copies) & (trace.copies.stream == stream)
    for way in np.unique(trace.copies.direction[mine]).tolist():
        yield Direction(way).label, trace.copies, mine & (trace.copies.direction == way)


def _busy(table: Timed, rows: Bool, within: Spans) -> Spans:
    return intersect(union(table.start_ns[rows], table.end_ns[rows]), within)
