"""The tables of an analysis: copies, gaps, findings, ranges and streams, each declared once with its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.analysis.analysis import Source, analyse
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis, Finding
from overlapscope.diagnosis.places import Moments, places
from overlapscope.measure.devices import DeviceKey, device_keys
from overlapscope.measure.ranges import figures_by_range
from overlapscope.measure.spans import Spans, intersect, union
from overlapscope.measure.windows import Window, inside, ranges_within
from overlapscope.model.columns import NO_ID, Bool, Float64, Int8, Int32, Int64, Names, Table, column
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Timed
from overlapscope.model.trace import Trace

PLACE = ("range", "source", "op", "api")
"""Names of the texts that say where a moment is in the program, as `Place` has them."""


class Words:
    """The texts of a table while it is made."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def ids(self, texts: Iterable[str | None]) -> Int32:
        """The numbers of some texts; `NO_ID` for None."""
        numbers = (NO_ID if text is None else self._number.setdefault(text, len(self._number)) for text in texts)
        return np.fromiter(numbers, np.int32)

    @property
    def names(self) -> Names:
        """All texts so far."""
        return Names(tuple(self._number))


def places_of(trace: Trace, at: Moments, words: Words) -> dict[str, Int32]:
    """Where some moments are in the program, as columns; nothing for `NO_ID`."""
    distinct, member = at.distinct()
    each = places(trace, distinct, NO_ID)
    return {f"{name}_id": words.ids(getattr(place, name) for place in each)[member] for name in PLACE}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CopyTable(Table):
    """One copy of the window, with its cost, its cause and its place in the program."""

    row: Int64 = column("i8", "row in the trace's copies")
    start_ns: Int64 = column("i8", "begin, on the trace's clock", unit="ns")
    end_ns: Int64 = column("i8", "end, exclusive", unit="ns")
    duration_ns: Int64 = column("i8", "device time", unit="ns")
    hidden_ns: Int64 = column("i8", "part of it within the window that overlaps a kernel of its device", unit="ns")
    exposed_ns: Int64 = column("i8", "part of it within the window that overlaps no kernel", unit="ns")
    blocked_ns: Int64 = column("i8", "time for which its call blocked the host", unit="ns", null=NO_ID)
    no_kernel_ns: Int64 = column(
        "i8", "time without a kernel that is attributed to it: idle or only copying", unit="ns"
    )
    code_id: Int32 = column("i4", "rule that explains most of its cost", text=True, null=NO_ID)
    cause_id: Int32 = column("i4", "cause of most of that", text=True, null=NO_ID)
    direction: Int8 = column("i1", "direction", enum=Direction)
    memory: Int8 = column("i1", "memory kind on the host side", enum=MemoryKind)
    size_bytes: Int64 = column("i8", "bytes copied", unit="bytes", null=NO_ID)
    bandwidth_gb_s: Float64 = column("f8", "bytes over device time; NaN where unknown", unit="GB/s")
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    stream: Int64 = column("i8", "stream id", null=NO_ID)
    range_id: Int32 = column("i4", "ranges around its call, outermost first", text=True, null=NO_ID)
    source_id: Int32 = column("i4", "line of user code of its call", text=True, null=NO_ID)
    op_id: Int32 = column("i4", "PyTorch operator of its call", text=True, null=NO_ID)
    api_id: Int32 = column("i4", "CUDA call that issued it", text=True, null=NO_ID)


def copy_table(source: Source, within: str | Window | None = None) -> CopyTable:
    """Every copy of the window, in the order of time.

    Raises:
        RangeNotFound: the trace has no range that ``within`` names.
    """
    analysis, words = analyse(source, within), Words()
    found, trace = analysis.recorded, analysis.trace
    rows = np.flatnonzero(inside(trace.copies, found.window))
    copies, facts = trace.copies.take(rows), analysis.copy_facts.take(rows)
    no_kernel_ns, cause = _attributed(found)
    causes = [None if number == NO_ID else Cause(number).name.lower() for number in cause[rows].tolist()]
    columns = {
        "row": rows,
        "no_kernel_ns": no_kernel_ns[rows],
        "code_id": words.ids([found.copy_reasons[row] for row in rows.tolist()]),
        "cause_id": words.ids(causes),
        "memory": facts.host_kind,
        **{name: getattr(facts, name) for name in ("hidden_ns", "exposed_ns", "blocked_ns", "bandwidth_gb_s")},
        **{name: getattr(copies, name) for name in ("start_ns", "end_ns", "duration_ns", "direction", "size_bytes")},
        **{name: getattr(copies, name) for name in ("process", "device", "stream")},
        **places_of(trace, Moments.of_calls(trace, copies.call), words),
    }
    return CopyTable.build(words.names, len(rows), columns)


def _attributed(found: Diagnosis) -> tuple[Int64, Int64]:
    """For each copy of the trace the time without a kernel attributed to it, and the cause of most of that."""
    totals = np.zeros((len(found.trace.copies) + 1, len(Cause)), np.int64)
    for device in found.devices:
        np.add.at(totals, (device.idle.copy, device.idle.cause), device.idle.duration_ns)  # the last row: of no copy
    no_kernel_ns = totals[:-1].sum(axis=1)
    return no_kernel_ns, np.where(no_kernel_ns > 0, totals[:-1].argmax(axis=1), NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GapTable(Table):
    """One stretch in which a GPU did no work of its own, with one cause."""

    start_ns: Int64 = column("i8", "begin, on the trace's clock", unit="ns")
    end_ns: Int64 = column("i8", "end, exclusive", unit="ns")
    duration_ns: Int64 = column("i8", "its length", unit="ns")
    code_id: Int32 = column("i4", "rule that it counts for; unknown for the start-up", text=True, null=NO_ID)
    cause_id: Int32 = column("i4", "what it is attributed to", text=True, null=NO_ID)
    inferred: Bool = column("?", "whether the wait was inferred from times rather than recorded")
    copy_row: Int64 = column("i8", "row of the copy concerned in the trace's copies", null=NO_ID)
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    range_id: Int32 = column("i4", "ranges around the place to look at, outermost first", text=True, null=NO_ID)
    source_id: Int32 = column("i4", "line of user code there", text=True, null=NO_ID)
    op_id: Int32 = column("i4", "PyTorch operator there", text=True, null=NO_ID)
    api_id: Int32 = column(
        "i4", "CUDA call there: it blocked the thread, issued the copy, or was running", text=True, null=NO_ID
    )


def gap_table(source: Source, within: str | Window | None = None) -> GapTable:
    """Every stretch in which a GPU had no work of its own, of all devices, in the order of time.

    Raises:
        RangeNotFound: the trace has no range that ``within`` names.
    """
    analysis, words = analyse(source, within), Words()
    found, trace = analysis.recorded, analysis.trace
    idle = [device.idle for device in found.devices]
    start = _together([table.start_ns for table in idle])
    order = np.argsort(start, kind="stable")
    reasons = [device.codes[row] if row >= 0 else None for device in found.devices for row in device.reason.tolist()]
    causes = [Cause(number).name.lower() for table in idle for number in table.cause.tolist()]
    columns: dict[str, npt.NDArray[Any]] = {
        "start_ns": start,
        "end_ns": _together([table.end_ns for table in idle]),
        "duration_ns": _together([table.duration_ns for table in idle]),
        "code_id": words.ids(reasons),
        "cause_id": words.ids(causes),
        "inferred": _together([table.inferred for table in idle]).astype(np.bool_),
        "copy_row": _together([table.copy for table in idle]),
        "process": _together([np.full(len(device.idle), device.key.process) for device in found.devices]),
        "device": _together([np.full(len(device.idle), device.key.device) for device in found.devices]),
        **_places(trace, found.devices, words),
    }
    return GapTable.build(words.names, len(start), columns).take(order)


def _together(parts: list[Int64] | list[Int32] | list[Bool]) -> Int64:
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def _places(trace: Trace, devices: Iterable[DeviceDiagnosis], words: Words) -> dict[str, npt.NDArray[Any]]:
    parts = [places_of(trace, Moments.of_idle(trace, each.idle, each.idle.copy), words) for each in devices]
    names = [f"{name}_id" for name in PLACE]
    return {name: np.concatenate([np.empty(0, np.int32), *(part[name] for part in parts)]) for name in names}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FindingTable(Table):
    """One finding as recorded, with the place that has the most GPU idle time; savings are on a basis of their own.

    The columns are those of `Diagnosis.to_pandas`. An audit states times without the profiler where all of its cost is
    known: `Audit.conclusion`.
    """

    rank: Int64 = column("i8", "1 for the finding to look at first")
    code_id: Int32 = column("i4", "code of the rule", text=True)
    name_id: Int32 = column("i4", "name of the rule", text=True)
    kind_id: Int32 = column("i4", "kind, of a rule that has several", text=True, null=NO_ID)
    severity_id: Int32 = column("i4", "hazard, high, medium, low or info", text=True)
    confidence_id: Int32 = column("i4", "high, medium or low", text=True)
    no_kernel_ns: Int64 = column(
        "i8",
        "time without a kernel that is attributed to it, or that slow kernels and collectives cost, as recorded",
        unit="ns",
    )
    idle_ns: Int64 = column("i8", "part of it without any work, not even copies, as recorded", unit="ns")
    blocked_ns: Int64 = column("i8", "host time for which its calls blocked their threads, as recorded", unit="ns")
    change_id: Int32 = column("i4", "change that what-if simulates for it", text=True, null=NO_ID)
    saving_ns: Int64 = column(
        "i8",
        "simulated saving of that change, without the profiler where all of its cost is known, else as recorded",
        unit="ns",
        null=NO_ID,
    )
    saving_high_ns: Int64 = column(
        "i8", "upper bound of the saving on its basis, where it is uncertain", unit="ns", null=NO_ID
    )
    offered: Bool = column("?", "whether its change is worth trying")
    message_id: Int32 = column("i4", "what was found, as one sentence", text=True)
    range_id: Int32 = column("i4", "ranges around the call, outermost first", text=True, null=NO_ID)
    source_id: Int32 = column("i4", "line of user code of the call", text=True, null=NO_ID)
    op_id: Int32 = column("i4", "PyTorch operator of the call", text=True, null=NO_ID)
    api_id: Int32 = column("i4", "the CUDA call", text=True, null=NO_ID)
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    thread: Int64 = column("i8", "operating-system thread id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    stream: Int64 = column("i8", "stream id", null=NO_ID)
    copies: Int64 = column("i8", "number of copies concerned")


def finding_table(source: Source, within: str | Window | None = None) -> FindingTable:
    """The findings of the window, ranked.

    Raises:
        RangeNotFound: the trace has no range that ``within`` names.
    """
    return rows_of(analyse(source, within).diagnosis.findings)


def rows_of(findings: Iterable[Finding]) -> FindingTable:
    """Some findings, one per row."""
    words, rows = Words(), [finding.row() for finding in findings]
    columns = {}
    for spec in FindingTable.columns():
        values = [row[spec.name.removesuffix("_id")] for row in rows]
        filled = [NO_ID if value is None else value for value in values]
        columns[spec.name] = words.ids(values) if spec.text else np.array(filled, spec.dtype)
    return FindingTable.build(words.names, len(rows), columns)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RangeTable(Table):
    """All ranges of one name, each up to the end of the device work issued in it."""

    name_id: Int32 = column("i4", "name of the range", text=True)
    occurrences: Int64 = column("i8", "how often it occurs")
    host_ns: Int64 = column("i8", "median time from its begin to its end on the host", unit="ns")
    after_ns: Int64 = column("i8", "median time for which its device work goes on after that", unit="ns")
    blocked_ns: Int64 = column("i8", "time for which calls in it blocked its thread, over all occurrences", unit="ns")
    wall_ns: Int64 = column("i8", "union of its occurrences", unit="ns")
    kernel_busy_ns: Int64 = column("i8", "time with a kernel in it, summed over devices", unit="ns")
    copy_busy_ns: Int64 = column("i8", "time with a copy in it, summed over devices", unit="ns")
    overlap_ns: Int64 = column("i8", "time with both, summed over devices", unit="ns")


def range_table(source: Source, within: str | Window | None = None) -> RangeTable:
    """Every range name of a window, the longest first; ranges nest, so their times do not add up.

    Raises:
        RangeNotFound: the trace has no range that ``within`` names.
    """
    analysis = analyse(source, within)
    trace, window = analysis.trace, analysis.window
    words, figures = Words(), figures_by_range(trace, ranges_within(trace, window), window=window)
    numbers = [spec.name for spec in RangeTable.columns() if not spec.text]
    columns = {name: np.array([getattr(entry, name) for entry in figures]) for name in numbers}
    columns["name_id"] = words.ids(entry.name for entry in figures)
    return RangeTable.build(words.names, len(figures), columns)


_NUMBERS = ("process", "device", "stream", "count", "busy_ns", "overlapped_ns", "exposed_ns")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StreamTable(Table):
    """The work of one kind on one stream within the window."""

    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    stream: Int64 = column("i8", "stream id", null=NO_ID)
    kind_id: Int32 = column("i4", "`kernel`, `memset`, or the direction of copies", text=True)
    count: Int64 = column("i8", "how many of them the window touches")
    busy_ns: Int64 = column("i8", "time with one of them; several at once count once", unit="ns")
    overlapped_ns: Int64 = column("i8", "part of it with a kernel on another stream of the device", unit="ns")
    exposed_ns: Int64 = column("i8", "the rest of it", unit="ns")


def stream_table(source: Source, within: str | Window | None = None) -> StreamTable:
    """The work of each stream by kind, with the time that it ran beside kernels of other streams of its device.

    Args:
        source: an opened trace, its path, or an analysis.
        within: only the host ranges of this name (``*`` and ``?`` match), or a `Window`.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    analysis = analyse(source, within)
    trace, window = analysis.trace, analysis.window
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
