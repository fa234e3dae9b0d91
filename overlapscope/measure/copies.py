"""Measure each copy and sum up copies: hidden and exposed time, launch delay, time for which calls blocked the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from overlapscope.measure.devices import DeviceKey, device_keys
from overlapscope.measure.grouping import at, distinct_columns, neighbours
from overlapscope.measure.host import blocked_ns
from overlapscope.measure.places import innermost, step_of
from overlapscope.measure.spans import covered, intersect, merge, spans_of
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Float64, Int8, Int32, Int64, Table, column, known, stacked
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.frames import Row
from overlapscope.model.tables import Copies
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CopyFacts(Table):
    """The measurements of one copy; row i describes row i of copies."""

    total_ns: Int64 = column("i8", "device time of the copy within the window", unit="ns")
    hidden_ns: Int64 = column("i8", "part of it that overlaps a kernel on the same device", unit="ns")
    exposed_ns: Int64 = column("i8", "part of it that overlaps no kernel", unit="ns")
    hideable_ns: Int64 = column(
        "i8",
        "upper bound of the hidden time for this issue order: kernel time between its call and the next work "
        "on its stream, at most its own duration",
        unit="ns",
        null=NO_ID,
    )
    launch_delay_ns: Int64 = column("i8", "from the start of its call to its own start", unit="ns", null=NO_TIME)
    call_duration_ns: Int64 = column("i8", "duration of its call", unit="ns", null=NO_ID)
    blocked_ns: Int64 = column(
        "i8",
        "time for which its call blocked the thread within the window; 0 in a graph launch",
        unit="ns",
        null=NO_ID,
    )
    bandwidth_gb_s: Float64 = column("f8", "bytes over device time; NaN where unknown", unit="GB/s")
    host_kind: Int8 = column("i1", "memory kind on the host side; device for device-to-device copies", enum=MemoryKind)
    range_row: Int32 = column("i4", "row of the innermost range around its call", null=NO_ID)
    step_row: Int32 = column("i4", "row of the profiler step around its call", null=NO_ID)


def copy_facts(trace: Trace, window: Window) -> CopyFacts:
    """Measure every copy of ``trace``; times are clipped to the window, delays and call durations are not."""
    copies, calls = trace.copies, trace.api_calls
    issued_ns, thread = at(calls.start_ns, copies.call, NO_TIME), at(calls.thread, copies.call)
    blocked = at(np.where(calls.kind == ApiKind.COPY, blocked_ns(calls, window), 0), copies.call)
    total, hidden = np.zeros((2, len(copies)), np.int64)
    hideable = np.full(len(copies), NO_ID, np.int64)
    following = _next_in_stream(trace)
    for key in device_keys(trace):
        rows = np.flatnonzero(key.rows(copies))
        kernels, within = spans_of(trace.kernels, key.rows(trace.kernels)), window.of(key.process)
        total[rows] = covered(copies.start_ns[rows], copies.end_ns[rows], within)
        hidden[rows] = covered(copies.start_ns[rows], copies.end_ns[rows], intersect(kernels, within))
        joined = rows[copies.call[rows] != NO_ID]
        reachable = covered(issued_ns[joined], following[joined], kernels)
        hideable[joined] = np.minimum(reachable, copies.duration_ns[joined])
    timed = (copies.size_bytes != NO_ID) & (copies.duration_ns > 0)
    return CopyFacts(
        names=trace.names,
        total_ns=total,
        hidden_ns=hidden,
        exposed_ns=total - hidden,
        hideable_ns=hideable,
        launch_delay_ns=_launch_delay(copies, issued_ns),
        call_duration_ns=at(calls.duration_ns, copies.call),
        blocked_ns=blocked,
        bandwidth_gb_s=np.where(timed, copies.size_bytes / np.where(timed, copies.duration_ns, 1), np.nan),
        host_kind=host_kind(copies),
        range_row=innermost(trace.ranges, copies.process, thread, issued_ns),
        step_row=step_of(trace, copies.process, issued_ns),
    )


def _launch_delay(copies: Copies, issued_ns: Int64) -> Int64:
    """The time from the start of each copy's call to its own; `NO_TIME` without a call, or where clocks disagree."""
    unknown = (copies.call == NO_ID) | (copies.start_ns < issued_ns)
    return np.where(unknown, NO_TIME, copies.start_ns - issued_ns)


def blocked_by_calls(trace: Trace, facts: CopyFacts, rows: Int64) -> int:
    """Time for which the calls of some copies blocked the host, each call counted once, in ns."""
    calls = trace.copies.call[rows]
    _, first = np.unique(calls[calls != NO_ID], return_index=True)
    return int(facts.blocked_ns[rows][calls != NO_ID][first].sum())


def host_kind(copies: Copies) -> Int8:
    """The memory kind on the host side of each copy: its source for H2D copies, its target for D2H copies."""
    down = np.isin(copies.direction, (Direction.DTOH, Direction.UVM_DTOH))
    return np.where(down, copies.target_kind, copies.source_kind)


def _next_in_stream(trace: Trace) -> Int64:
    """For each copy, the start of the next work on its stream, but not before its own end."""
    work = (trace.copies, trace.kernels, trace.memsets)
    process, device, stream, start = stacked(work, "process", "device", "stream", "start_ns")
    one, other = neighbours(np.lexsort((start, stream, device, process)), process, device, stream)
    following = np.full(len(start), NO_TIME, np.int64)
    following[one] = start[other]
    return np.maximum(following[: len(trace.copies)], trace.copies.end_ns)


_SIZE_FACTOR = 2.0
"""Largest ratio of the sizes of copies that are compared: the effective bandwidth of small copies grows with size."""


@dataclass(frozen=True)
class Staging(Row):
    """The pageable copies of one device and direction, and what staging cost in device time.

    ``staging_cost_ns`` is their device time beyond that of pinned copies of the same size in this trace, else in its
    calibration. It covers the ``compared_count`` copies for which one of them tells; it is None where there are none.
    """

    key: DeviceKey
    direction: str
    count: int
    size_bytes: int
    total_ns: int
    compared_count: int
    staging_cost_ns: int | None


def staging(
    trace: Trace,
    facts: CopyFacts,
    key: DeviceKey,
    window: Window,
    calibrated_ns: Mapping[Direction, Callable[[Int64], Float64]] = MappingProxyType({}),
) -> list[Staging]:
    """The pageable copies of a device within the window, by direction.

    ``calibrated_ns`` gives what pinned copies of some sizes take by the calibration, for directions that it has.
    """
    copies = trace.copies
    here = key.rows(copies) & window.touches(copies.process, copies.start_ns, copies.end_ns)
    timed = key.rows(copies) & (copies.size_bytes > 0) & (copies.duration_ns > 0)
    result = []
    for direction in (Direction.HTOD, Direction.DTOH):
        way = copies.direction == direction
        pageable = here & way & (facts.host_kind == MemoryKind.PAGEABLE)
        if not pageable.any():
            continue
        pinned, costly = timed & way & (facts.host_kind == MemoryKind.PINNED), pageable & timed
        cost = _costs(copies.size_bytes, copies.duration_ns, costly, pinned)
        if direction in calibrated_ns:
            beyond = copies.duration_ns[costly] - calibrated_ns[direction](copies.size_bytes[costly])
            cost = np.where(np.isfinite(cost), cost, beyond)
        cost *= facts.total_ns[costly] / copies.duration_ns[costly]  # the part of it within the window
        cost, count = cost[np.isfinite(cost)], int(pageable.sum())
        size, total_ns = np.maximum(copies.size_bytes[pageable], 0).sum(), facts.total_ns[pageable].sum()
        cost_ns = int(cost.sum()) if len(cost) else None
        result.append(Staging(key, direction.label, count, int(size), int(total_ns), len(cost), cost_ns))
    return result


def _costs(size: Int64, duration: Int64, pageable: Bool, pinned: Bool) -> Float64:
    """Device time beyond that of the pinned copy closest in size, scaled to the same size; NaN without one."""
    if not pinned.any():
        return np.full(int(pageable.sum()), np.nan)
    sizes, position = np.unique(size[pinned], return_inverse=True)
    rate = np.array([np.median(duration[pinned][position == index]) / bytes_ for index, bytes_ in enumerate(sizes)])
    wanted = size[pageable].astype(float)
    above = np.minimum(np.searchsorted(sizes, wanted), len(sizes) - 1)
    below = np.maximum(above - 1, 0)
    nearer = np.abs(np.log(wanted / sizes[below])) <= np.abs(np.log(wanted / sizes[above]))
    nearest = np.where(nearer, below, above)
    same = np.maximum(wanted / sizes[nearest], sizes[nearest] / wanted) <= _SIZE_FACTOR
    return np.where(same, duration[pageable] - rate[nearest] * wanted, np.nan)


@dataclass(frozen=True)
class CopyGroup(Row):
    """Figures of the copies of one group that overlap the window.

    ``total_ns``, ``hidden_ns`` and ``exposed_ns`` are sums over copies, clipped to the window; ``busy_ns`` is
    the time in which at least one of them ran. ``unclipped_ns`` is the sum of their whole durations. ``size_bytes``
    is the sum of known sizes, and None where none is known; ``unknown_size`` is the number of copies of unknown size.
    ``blocked_ns`` is the time for which their calls blocked the host, each call counted once.
    """

    key: dict[str, Any]
    count: int
    size_bytes: int | None
    unknown_size: int
    total_ns: int
    unclipped_ns: int
    busy_ns: int
    hidden_ns: int
    exposed_ns: int
    blocked_ns: int


def _number(_: Trace, value: int) -> int | None:
    return known(value)


def _name(trace: Trace, number: int) -> str | None:
    return trace.names[number] if number != NO_ID else None


Codes = Callable[[Trace, CopyFacts], Int64 | Int32 | Int8]
Decode = Callable[[Trace, int], Any]
KEYS: dict[str, tuple[Codes, Decode]] = {
    "process": (lambda trace, _: trace.copies.process, _number),
    "device": (lambda trace, _: trace.copies.device, _number),
    "stream": (lambda trace, _: trace.copies.stream, _number),
    "direction": (lambda trace, _: trace.copies.direction, lambda _, value: Direction(value).label),
    "memory": (lambda _, facts: facts.host_kind, lambda _, value: MemoryKind(value).label),
    "range": (lambda trace, facts: at(trace.ranges.name_id, facts.range_row), _name),
    "step": (lambda trace, facts: at(trace.ranges.name_id, facts.step_row), _name),
}
"""The keys by which copies can be grouped; ``range`` is the innermost range around the copy's call."""


def group_copies(
    trace: Trace, facts: CopyFacts, window: Window, by: tuple[str, ...], where: Bool | None = None
) -> tuple[CopyGroup, ...]:
    """Sum up the copies that overlap the window, by any of `KEYS`; the longest group first.

    Args:
        trace: the trace.
        facts: its `copy_facts` over the same window.
        window: the analysed part of the trace.
        by: names of keys.
        where: only these rows of ``trace.copies``.

    Raises:
        KeyError: an entry of ``by`` is none of `KEYS`.
    """
    touched = window.touches(trace.copies.process, trace.copies.start_ns, trace.copies.end_ns)
    rows = np.flatnonzero(touched if where is None else touched & where)
    columns = (KEYS[name][0](trace, facts)[rows].astype(np.int64) for name in by)
    codes = np.stack([np.zeros(len(rows), np.int64), *columns])
    keys, member = distinct_columns(codes)
    groups = []
    for number, key in enumerate(keys.T.tolist()):
        named = {name: KEYS[name][1](trace, code) for name, code in zip(by, key[1:], strict=True)}
        groups.append(_group(named, trace, facts, window, rows[member == number]))
    return tuple(sorted(groups, key=lambda group: -group.total_ns))


def _group(key: dict[str, Any], trace: Trace, facts: CopyFacts, window: Window, rows: Int64) -> CopyGroup:
    copies = trace.copies
    sizes = copies.size_bytes[rows]
    known = sizes[sizes != NO_ID]
    within = merge(*(window.of(process) for process in np.unique(copies.process[rows]).tolist()))
    return CopyGroup(
        key=key,
        count=len(rows),
        size_bytes=int(known.sum()) if len(known) else None,
        unknown_size=len(rows) - len(known),
        total_ns=int(facts.total_ns[rows].sum()),
        unclipped_ns=int(copies.duration_ns[rows].sum()),
        busy_ns=intersect(spans_of(copies, rows), within).total_ns,
        hidden_ns=int(facts.hidden_ns[rows].sum()),
        exposed_ns=int(facts.exposed_ns[rows].sum()),
        blocked_ns=blocked_by_calls(trace, facts, rows),
    )
