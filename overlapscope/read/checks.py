"""Check the assembled trace for plausibility: count everything doubtful in its health, change nothing.

Only rows that were asked for are checked, and only in ways for which all their tables were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Table
from overlapscope.model.enums import ISSUING, ApiKind, Direction, MemoryKind, SyncKind
from overlapscope.model.tables import ApiCalls, Copies, DeviceWork, Syncs
from overlapscope.model.trace import DEVICE_WORK
from overlapscope.read.draft import Draft
from overlapscope.read.log import HealthLog
from overlapscope.read.selection import asked_for

_HOST_SIDED = (Direction.HTOD, Direction.DTOH, Direction.HTOH)
_HOST_TABLES = ("api_calls", "cpu_ops", "ranges")


_CLOCK_DISTANCE_NS = 3_600_000_000_000
"""Device work this far from every host event has a wrong clock; profiles are seconds to minutes long, so an hour is far
beyond any of them."""
_NO_BYTES_NS = 1_000
"""A copy call that took no longer was of no bytes: those with bytes took 1.3 us or more in 200 traces."""


def check(draft: Draft, tables: Mapping[str, Table]) -> None:
    """Log everything doubtful about what was asked for of the finished tables."""
    log, asked, takes = draft.log, asked_for(tables, draft.selection), draft.selection.takes
    work = [cast(DeviceWork, asked[name]) for name in DEVICE_WORK]
    calls = cast(ApiCalls, tables["api_calls"])
    total = sum(len(table) for table in work)
    if takes("api_calls", *DEVICE_WORK):
        _check_presence(draft, tables)
    if takes("api_calls"):
        _check_joins(log, work, total)
        _check_order(log, work, calls, total)
    if takes("api_calls", *DEVICE_WORK) and draft.selection.window is None:
        _check_calls(log, work, calls)
        _check_kinds(log, work, calls)
    if takes(*_HOST_TABLES):
        _check_clocks(log, work, tables, total)
    _check_places(log, work, total)
    _check_copies(log, cast(Copies, asked["copies"]))
    _check_doubles(log, work, total)
    _check_waits(log, cast(Syncs, asked["syncs"]))
    if takes("syncs") and not draft.syncs_recorded:
        _note_no_syncs(log, cast(ApiCalls, asked["api_calls"]))


def _of_a_program(table: DeviceWork) -> Bool:
    """Which work was issued by a program; page migrations are not, and have no call."""
    migrations = table.direction >= Direction.UVM_HTOD if isinstance(table, Copies) else np.zeros(len(table), np.bool_)
    return ~migrations


def _check_presence(draft: Draft, tables: Mapping[str, Table]) -> None:
    log, calls = draft.log, cast(ApiCalls, tables["api_calls"])
    total = sum(len(tables[name]) for name in DEVICE_WORK)
    issuing = int(np.isin(calls.kind, ISSUING).sum())
    if total == 0 and issuing:
        log.add(
            "unknown-device-work" if log.has_prefix("unknown-category:") else "device-work-lost", issuing, of=issuing
        )
    elif total == 0:
        log.add("no-device-work", 1, _why_no_device_work(draft, tables))


def _why_no_device_work(draft: Draft, tables: Mapping[str, Table]) -> str:
    if len(tables["api_calls"]):
        return "calls of the GPU's runtime were recorded, but none of them launches or copies"
    if draft.log.has_prefix("truncated"):
        return "the file is truncated before any call of a GPU's runtime; get the whole file"
    if draft.metadata.format == "kineto" and draft.selection.everything and not any(map(len, tables.values())):
        why = "the profiler was never active; with a schedule, prof.step() has to reach its active steps"
        return f"nothing was recorded: {why}"
    return f"a CPU-only trace, without a call of a GPU's runtime: {_why_cpu_only(draft)}"


def _why_cpu_only(draft: Draft) -> str:
    recording = draft.metadata.recording
    if recording is not None and not recording.devices:
        return "it was recorded with --device cpu; leave that out on a machine with a GPU"
    if draft.metadata.format == "nsys":
        return "the program used no GPU, or nsys ran without -t cuda"
    return "the program used no GPU, or torch.profiler ran without ProfilerActivity.CUDA"


def _check_joins(log: HealthLog, work: list[DeviceWork], total: int) -> None:
    unjoined = sum(int(((table.call == NO_ID) & _of_a_program(table)).sum()) for table in work)
    log.add("device-work-without-call", unjoined, of=total)


def _check_calls(log: HealthLog, work: list[DeviceWork], calls: ApiCalls) -> None:
    issuing = np.isin(calls.kind, ISSUING) & (calls.parent == NO_ID)
    if any(map(len, work)):
        log.add("calls-without-device-work", issuing & ~_owned(work, calls), of=int(issuing.sum()))


def _check_kinds(log: HealthLog, work: list[DeviceWork], calls: ApiCalls) -> None:
    """Log a kind of work that was called, but has no row; without any work at all, that has been said."""
    if not any(map(len, work)):
        return
    kernels, copies, _ = work
    without = ~_owned(work, calls) & ~calls.captured & (calls.parent == NO_ID)
    launched = without & (calls.kind == ApiKind.LAUNCH)
    copied = without & (calls.kind == ApiKind.COPY) & (calls.duration_ns > _NO_BYTES_NS)
    if not len(kernels):
        log.add("kernels-not-recorded", int(launched.sum()))
    if not len(copies):
        log.add("copies-not-recorded", int(copied.sum()))


def _owned(work: list[DeviceWork], calls: ApiCalls) -> Bool:
    """Which calls have work in the trace."""
    owned = np.zeros(len(calls), np.bool_)
    for table in work:
        owned[table.call[table.call != NO_ID]] = True
    return owned


def _check_order(log: HealthLog, work: list[DeviceWork], calls: ApiCalls, total: int) -> None:
    early, worst = 0, 0
    for table in work:
        joined = table.call != NO_ID
        before = calls.start_ns[table.call[joined]] - table.start_ns[joined]
        early += int((before > 0).sum())
        worst = max(worst, int(before.max(initial=0)))
    log.add("starts-before-launch", early, worst / 1000, of=total)


def _check_clocks(log: HealthLog, work: list[DeviceWork], tables: Mapping[str, Table], total: int) -> None:
    host = [tables[name] for name in _HOST_TABLES if len(tables[name])]
    if not host:
        return
    first = min(int(table.start_ns.min()) for table in host)  # type: ignore[attr-defined]
    last = max(int(table.end_ns.max()) for table in host)  # type: ignore[attr-defined]
    first, last = first - _CLOCK_DISTANCE_NS, last + _CLOCK_DISTANCE_NS
    far = sum(int(((table.start_ns < first) | (table.start_ns > last)).sum()) for table in work)
    log.add("wrong-device-clock", far, of=total)


def _check_places(log: HealthLog, work: list[DeviceWork], total: int) -> None:
    for column in ("device", "stream", "process"):
        # Page migrations belong to no stream.
        missing = sum(int(((getattr(table, column) == NO_ID) & _of_a_program(table)).sum()) for table in work)
        log.add(f"no-{column}", missing, of=total)


def _check_copies(log: HealthLog, copies: Copies) -> None:
    log.add("unknown-direction", copies.direction == Direction.UNKNOWN)
    log.add("no-size", (copies.size_bytes == NO_ID) & _of_a_program(copies))
    host_side = np.where(copies.direction == Direction.DTOH, copies.target_kind, copies.source_kind)
    log.add("unknown-memory-kind", np.isin(copies.direction, _HOST_SIDED) & (host_side == MemoryKind.UNKNOWN))


def _check_doubles(log: HealthLog, work: list[DeviceWork], total: int) -> None:
    count = 0
    for table in work:
        place = (table.process, table.device, table.stream)
        keys = (*place, table.start_ns, table.end_ns, table.name_id, table.correlation)
        if len(table) > 1:
            order = np.lexsort(keys)
            same = np.ones(len(table) - 1, np.bool_)
            for key in keys:
                same &= np.diff(key[order]) == 0
            count += int((same & (table.duration_ns[order][1:] > 0) & (table.correlation[order][1:] > 0)).sum())
    log.add("duplicate-device-work", count, of=total)


def _note_no_syncs(log: HealthLog, calls: ApiCalls) -> None:
    waiting = np.isin(calls.kind, (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC, ApiKind.DEVICE_SYNC, ApiKind.WAIT_EVENT))
    rocm = any(calls.names[number].startswith("hip") for number in np.unique(calls.name_id[waiting]).tolist())
    why = "ROCm records none" if rocm else "record with enable_cuda_sync_events=True"
    log.add("syncs-not-recorded", int(waiting.sum()), why)


def _check_waits(log: HealthLog, syncs: Syncs) -> None:
    event_waits = syncs.kind == SyncKind.STREAM_WAIT_EVENT
    total = int(event_waits.sum())
    log.add("inferred-waits", event_waits & syncs.inferred, of=total)
    log.add("unknown-wait-source", event_waits & (syncs.source_stream == NO_ID), of=total)
