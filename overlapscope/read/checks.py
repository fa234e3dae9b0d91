"""Check the assembled trace for plausibility: count everything doubtful in its health, change nothing.

Only rows that were asked for are checked, and only in ways for which all their tables were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64, Table
from overlapscope.model.enums import ISSUING, ApiKind, Direction, MemoryKind, SyncKind
from overlapscope.model.tables import ApiCalls, Copies, DeviceWork, Syncs
from overlapscope.model.trace import DEVICE_WORK
from overlapscope.read.captures import captured
from overlapscope.read.draft import Draft
from overlapscope.read.log import UNKNOWN_CATEGORY, HealthLog
from overlapscope.read.part import asked_for

_HOST_SIDED = (Direction.HTOD, Direction.DTOH, Direction.HTOH)
_HOST_TABLES = ("api_calls", "cpu_ops", "ranges")


@dataclass(frozen=True)
class Limits:
    """Limits of a plausible trace.

    ``clock_distance_ns``: device work this far from every host event has a wrong clock; profiles are seconds to minutes
    long, so an hour is far beyond any of them.
    ``nothing_ns``: a copy call that took no longer was of no bytes: those with bytes took 1.3 us or more in 200 traces.
    """

    clock_distance_ns: int = 3_600_000_000_000
    nothing_ns: int = 1_000


def check(draft: Draft, tables: Mapping[str, Table], limits: Limits | None = None) -> None:
    """Log everything doubtful about what was asked for of the finished tables."""
    limits = limits or Limits()
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
        _check_kinds(log, work, calls, limits)
    if takes(*_HOST_TABLES):
        _check_clocks(log, work, tables, limits, total)
    _check_places(log, work, total)
    _check_copies(log, cast(Copies, asked["copies"]))
    _check_doubles(log, work, total)
    _check_waits(log, cast(Syncs, asked["syncs"]))
    if takes("syncs") and not draft.syncs_recorded:
        _note_no_syncs(log, cast(ApiCalls, asked["api_calls"]))


def _of_a_program(table: DeviceWork) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which work was issued by a program; page migrations are not, and have no call."""
    if isinstance(table, Copies):
        return cast("np.ndarray[tuple[int], np.dtype[np.bool_]]", table.direction < Direction.UVM_HTOD)
    return np.ones(len(table), np.bool_)


def _check_presence(draft: Draft, tables: Mapping[str, Table]) -> None:
    log, calls = draft.log, cast(ApiCalls, tables["api_calls"])
    total = sum(len(tables[name]) for name in DEVICE_WORK)
    issuing = int(np.isin(calls.kind, ISSUING).sum())
    if total == 0 and issuing and log.has_prefix(UNKNOWN_CATEGORY):
        log.damage(
            "unknown-device-work",
            issuing,
            "calls that launch or copy were recorded, but their device work has an unknown format "
            "(see the unknown categories): this accelerator is not supported",
            issuing,
        )
    elif total == 0 and issuing:
        log.damage(
            "device-work-lost",
            issuing,
            "calls that launch or copy were recorded, but no device work: the profiler lost the GPU's records",
            issuing,
        )
    elif total == 0 and len(calls):
        log.note("no-device-work", 1, "calls of the GPU's runtime were recorded, but none of them launches or copies")
    elif total == 0 and draft.metadata.format == "kineto" and _is_empty(draft, tables):
        why = "the profiler was never active; with a schedule, prof.step() has to reach its active steps"
        log.note("no-device-work", 1, f"nothing was recorded: {why}")
    elif total == 0:
        log.note("no-device-work", 1, f"a CPU-only trace, without a call of a GPU's runtime: {_why_cpu_only(draft)}")


def _is_empty(draft: Draft, tables: Mapping[str, Table]) -> bool:
    return draft.selection.everything and not any(map(len, tables.values()))


def _why_cpu_only(draft: Draft) -> str:
    recording = draft.metadata.recording
    if recording is not None and not recording.devices:
        return "it was recorded with --device cpu; leave that out on a machine with a GPU"
    if draft.metadata.format == "nsys":
        return "the program used no GPU, or nsys ran without -t cuda"
    return "the program used no GPU, or torch.profiler ran without ProfilerActivity.CUDA"


def _check_joins(log: HealthLog, work: list[DeviceWork], total: int) -> None:
    unjoined = sum(int(((table.call == NO_ID) & _of_a_program(table)).sum()) for table in work)
    log.warn(
        "device-work-without-call",
        unjoined,
        "kernels, copies or memsets without the call that issued them: their launch delay and range are unknown",
        total,
    )


def _check_calls(log: HealthLog, work: list[DeviceWork], calls: ApiCalls) -> None:
    issuing = np.isin(calls.kind, ISSUING) & (calls.parent == NO_ID)
    if any(map(len, work)):
        log.note(
            "calls-without-device-work",
            int((issuing & ~_owned(work, calls)).sum()),
            "calls that launch or copy without device work in the trace: of no bytes, at its end, captured into "
            "a graph, or lost",
            int(issuing.sum()),
        )


def _check_kinds(log: HealthLog, work: list[DeviceWork], calls: ApiCalls, limits: Limits) -> None:
    """Log a kind of work that was called, but has no row; without any work at all, that has been said."""
    if not any(map(len, work)):
        return
    kernels, copies, _ = work
    without = ~_owned(work, calls) & ~captured(calls) & (calls.parent == NO_ID)
    launched = without & (calls.kind == ApiKind.LAUNCH)
    copied = without & (calls.kind == ApiKind.COPY) & (calls.duration_ns > limits.nothing_ns)
    log.damage(
        "kernels-not-recorded",
        0 if len(kernels) else int(launched.sum()),
        "launch calls were recorded, but not their kernels; the GPU's time in kernels is unknown",
    )
    log.damage(
        "copies-not-recorded",
        0 if len(copies) else int(copied.sum()),
        "copy calls were recorded, but not their copies; device times of copies are unknown",
    )


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
    log.warn(
        "starts-before-launch",
        early,
        f"kernels, copies or memsets start up to {worst / 1000:.1f} us before the call that issued them: "
        "host and device clocks disagree, so launch delays are doubtful",
        total,
    )


def _check_clocks(
    log: HealthLog, work: list[DeviceWork], tables: Mapping[str, Table], limits: Limits, total: int
) -> None:
    host = [tables[name] for name in _HOST_TABLES if len(tables[name])]
    if not host:
        return
    first = min(int(table.start_ns.min()) for table in host)  # type: ignore[attr-defined]
    last = max(int(table.end_ns.max()) for table in host)  # type: ignore[attr-defined]
    far = sum(_outside(table.start_ns, first, last, limits.clock_distance_ns) for table in work)
    log.damage(
        "wrong-device-clock",
        far,
        "kernels, copies or memsets more than an hour from every host event: their clock is wrong, and so are wall and "
        "idle times",
        total,
    )


def _outside(start_ns: Int64, first: int, last: int, distance: int) -> int:
    return int(((start_ns < first - distance) | (start_ns > last + distance)).sum())


def _check_places(log: HealthLog, work: list[DeviceWork], total: int) -> None:
    for column, code, text in (
        ("device", "no-device", "kernels, copies or memsets without a device number"),
        ("stream", "no-stream", "kernels, copies or memsets without a stream"),
        ("process", "no-process", "kernels, copies or memsets without a process"),
    ):
        # Page migrations belong to no stream.
        missing = sum(int(((getattr(table, column) == NO_ID) & _of_a_program(table)).sum()) for table in work)
        log.warn(code, missing, text, total)


def _check_copies(log: HealthLog, copies: Copies) -> None:
    asked = _of_a_program(copies)
    log.warn(
        "unknown-direction",
        int((copies.direction == Direction.UNKNOWN).sum()),
        "copies without a direction",
        len(copies),
    )
    log.warn(
        "no-size",
        int(((copies.size_bytes == NO_ID) & asked).sum()),
        "copies without a size",
        len(copies),
    )
    host_side = np.where(copies.direction == Direction.DTOH, copies.target_kind, copies.source_kind)
    unknown = np.isin(copies.direction, _HOST_SIDED) & (host_side == MemoryKind.UNKNOWN)
    log.note(
        "unknown-memory-kind",
        int(unknown.sum()),
        "copies without a memory kind, so they may be pageable or pinned (ROCm does not record it)",
        len(copies),
    )


def _check_doubles(log: HealthLog, work: list[DeviceWork], total: int) -> None:
    count = 0
    for table in work:
        keys = (
            table.process,
            table.device,
            table.stream,
            table.start_ns,
            table.end_ns,
            table.name_id,
            table.correlation,
        )
        if len(table) > 1:
            order = np.lexsort(keys)
            same = np.ones(len(table) - 1, np.bool_)
            for key in keys:
                same &= np.diff(key[order]) == 0
            count += int((same & (table.duration_ns[order][1:] > 0) & (table.correlation[order][1:] > 0)).sum())
    log.warn(
        "duplicate-device-work",
        count,
        "kernels, copies or memsets recorded twice, identical in everything; both count",
        total,
    )


def _note_no_syncs(log: HealthLog, calls: ApiCalls) -> None:
    waiting = np.isin(calls.kind, (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC, ApiKind.DEVICE_SYNC, ApiKind.WAIT_EVENT))
    rocm = any(calls.names[number].startswith("hip") for number in np.unique(calls.name_id[waiting]).tolist())
    why = "ROCm records none" if rocm else "record with enable_cuda_sync_events=True"
    log.note("syncs-not-recorded", int(waiting.sum()), f"synchronising calls without synchronisation events; {why}")


def _check_waits(log: HealthLog, syncs: Syncs) -> None:
    event_waits = syncs.kind == SyncKind.STREAM_WAIT_EVENT
    log.note(
        "inferred-waits",
        int((event_waits & syncs.inferred).sum()),
        "stream waits without a recorded event; the stream that they wait for is inferred",
        int(event_waits.sum()),
    )
    log.note(
        "unknown-wait-source",
        int((event_waits & (syncs.source_stream == NO_ID)).sum()),
        "stream waits for a stream that is neither recorded nor inferred",
        int(event_waits.sum()),
    )
