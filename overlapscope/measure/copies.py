"""Measure each copy: hidden and exposed time, launch delay, and the time for which its call blocked the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.measure.devices import device_keys
from overlapscope.measure.host import DEFAULT, HostConfig, blocked_ns
from overlapscope.measure.places import innermost, step_of
from overlapscope.measure.spans import covered, intersect, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, NO_TIME, Float64, Int8, Int32, Int64, Table, column
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.tables import Copies
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CopyFacts(Table):
    """The measurements of each copy; row i describes row i of ``trace.copies``."""

    row_meaning: ClassVar[str] = "The measurements of one copy; row i describes row i of copies."

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


def copy_facts(trace: Trace, window: Window, config: HostConfig = DEFAULT) -> CopyFacts:
    """Measure every copy of ``trace``; times are clipped to the window, delays and call durations are not."""
    copies = trace.copies
    call = _CallFacts.of(trace, window, config)
    total, hidden = np.zeros(len(copies), np.int64), np.zeros(len(copies), np.int64)
    potential = np.full(len(copies), NO_ID, np.int64)
    following = _next_in_stream(trace)
    for key in device_keys(trace):
        rows = np.flatnonzero(key.rows(copies))
        mine = key.rows(trace.kernels)
        kernels = union(trace.kernels.start_ns[mine], trace.kernels.end_ns[mine])
        within = window.of(key.process)
        total[rows] = covered(copies.start_ns[rows], copies.end_ns[rows], within)
        hidden[rows] = covered(copies.start_ns[rows], copies.end_ns[rows], intersect(kernels, within))
        joined = rows[copies.call[rows] != NO_ID]
        reachable = covered(call.start_ns[joined], following[joined], kernels)
        potential[joined] = np.minimum(reachable, copies.duration_ns[joined])
    with np.errstate(divide="ignore", invalid="ignore"):
        bandwidth = np.where(
            (copies.size_bytes != NO_ID) & (copies.duration_ns > 0), copies.size_bytes / copies.duration_ns, np.nan
        )
    return CopyFacts(
        names=trace.names,
        total_ns=total,
        hidden_ns=hidden,
        exposed_ns=total - hidden,
        hideable_ns=potential,
        launch_delay_ns=_launch_delay(copies, call.start_ns),
        call_duration_ns=call.span_ns,
        blocked_ns=call.blocked_ns,
        bandwidth_gb_s=bandwidth,
        host_kind=host_kind(copies),
        range_row=innermost(trace.ranges, copies.process, call.thread, call.start_ns),
        step_row=step_of(trace, copies.process, call.start_ns),
    )


def _launch_delay(copies: Copies, issued_ns: Int64) -> Int64:
    """Not known where there is no call, nor where clocks disagree so that the copy starts before it."""
    unknown = (copies.call == NO_ID) | (copies.start_ns < issued_ns)
    return np.where(unknown, NO_TIME, copies.start_ns - issued_ns)


@dataclass(frozen=True, eq=False)
class _CallFacts:
    """Facts of the call that issued each copy, one row per copy."""

    start_ns: Int64
    span_ns: Int64
    blocked_ns: Int64
    thread: Int64

    @classmethod
    def of(cls, trace: Trace, window: Window, config: HostConfig) -> _CallFacts:
        calls, row = trace.api_calls, trace.copies.call
        unknown = row == NO_ID
        if not len(calls):
            nothing = np.full(len(row), NO_ID, np.int64)
            return cls(np.full(len(row), NO_TIME, np.int64), nothing, nothing.copy(), nothing.copy())
        blocked = np.where(calls.kind == ApiKind.COPY, blocked_ns(trace, window, config), 0)
        return cls(
            start_ns=np.where(unknown, NO_TIME, calls.start_ns[row]),
            span_ns=np.where(unknown, NO_ID, calls.duration_ns[row]),
            blocked_ns=np.where(unknown, NO_ID, blocked[row]),
            thread=np.where(unknown, NO_ID, calls.thread[row]),
        )


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
    process, device, stream, start = (
        np.concatenate([getattr(table, name).astype(np.int64) for table in work])
        for name in ("process", "device", "stream", "start_ns")
    )
    order = np.lexsort((start, stream, device, process))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in (process, device, stream):
        same &= np.diff(key[order]) == 0
    following = np.full(len(order), NO_TIME, np.int64)
    following[order[:-1][same]] = start[order[1:][same]]
    return np.maximum(following[: len(trace.copies)], trace.copies.end_ns)
