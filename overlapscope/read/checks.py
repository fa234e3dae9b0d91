"""Is the assembled trace plausible? Everything doubtful is counted and said; nothing is changed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from overlapscope.model.columns import NO_ID, Int64, Table
from overlapscope.model.enums import ApiKind, Direction, MemoryKind, SyncKind
from overlapscope.model.tables import ApiCalls, Copies, DeviceWork, Syncs
from overlapscope.model.trace import DEVICE_WORK
from overlapscope.read.draft import Draft
from overlapscope.read.log import UNKNOWN_CATEGORY, HealthLog

_ISSUING = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.MEMSET)
_ASKED_FOR = (Direction.HTOD, Direction.DTOH, Direction.HTOH)


@dataclass(frozen=True)
class Limits:
    """Beyond what a trace cannot be right.

    ``clock_distance_ns``: device work this far from every host event has another clock; profiles are
    seconds to minutes long, so an hour is far beyond any of them.
    """

    clock_distance_ns: int = 3_600_000_000_000


def check(draft: Draft, tables: Mapping[str, Table], limits: Limits | None = None) -> None:
    """Log what is doubtful about the finished tables."""
    limits = limits or Limits()
    log = draft.log
    work = [cast(DeviceWork, tables[name]) for name in DEVICE_WORK]
    calls = cast(ApiCalls, tables["api_calls"])
    copies = cast(Copies, tables["copies"])
    total = sum(len(table) for table in work)
    _check_presence(log, calls, total)
    _check_joins(log, work, calls, total)
    _check_clocks(log, work, calls, tables, limits, total)
    _check_places(log, work, total)
    _check_copies(log, copies)
    _check_doubles(log, work, total)
    _check_syncs(draft, cast(Syncs, tables["syncs"]), calls)


def _asked_for(table: DeviceWork) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Work that a program asked for; page migrations have no call."""
    if isinstance(table, Copies):
        return cast("np.ndarray[tuple[int], np.dtype[np.bool_]]", table.direction < Direction.UVM_HTOD)
    return np.ones(len(table), np.bool_)


def _check_presence(log: HealthLog, calls: ApiCalls, total: int) -> None:
    issuing = int(np.isin(calls.kind, _ISSUING).sum())
    if total == 0 and issuing and log.has_prefix(UNKNOWN_CATEGORY):
        log.damage(
            "device-work-not-understood",
            issuing,
            "calls that launch or copy are there, but their device work is of a kind that is not understood "
            "(see the unknown categories): this accelerator is not supported",
            issuing,
        )
    elif total == 0 and issuing:
        log.damage(
            "device-work-lost",
            issuing,
            "calls that launch or copy are there, but no device work at all: the profiler lost the GPU's records",
            issuing,
        )
    elif total == 0:
        log.note("no-device-work", 1, "no GPU work was recorded; profile with the CUDA activity on")


def _check_joins(log: HealthLog, work: list[DeviceWork], calls: ApiCalls, total: int) -> None:
    unjoined = sum(int(((table.call == NO_ID) & _asked_for(table)).sum()) for table in work)
    log.warn(
        "unjoined-device-ops",
        unjoined,
        "device ops without the call that issued them: no launch delay, host span or range is known for them",
        total,
    )
    owned = np.zeros(len(calls), np.bool_)
    for table in work:
        owned[table.call[table.call != NO_ID]] = True
    issuing = np.isin(calls.kind, _ISSUING) & (calls.parent == NO_ID)
    if total:
        log.note(
            "calls-without-work",
            int((issuing & ~owned).sum()),
            "calls that launch or copy, with no device work in the trace: at its end, captured into a graph, or lost",
            int(issuing.sum()),
        )


def _check_clocks(
    log: HealthLog, work: list[DeviceWork], calls: ApiCalls, tables: Mapping[str, Table], limits: Limits, total: int
) -> None:
    early, worst = 0, 0
    for table in work:
        joined = table.call != NO_ID
        lead = calls.start_ns[table.call[joined]] - table.start_ns[joined]
        early += int((lead > 0).sum())
        worst = max(worst, int(lead.max(initial=0)))
    log.warn(
        "starts-before-launch",
        early,
        f"device ops start before the call that issued them, by up to {worst / 1000:.1f} us: "
        "host and device clocks disagree, so launch delays are doubtful",
        total,
    )
    host = [tables[name] for name in ("api_calls", "cpu_ops", "ranges") if len(tables[name])]
    if not host:
        return
    first = min(int(table.start_ns.min()) for table in host)  # type: ignore[attr-defined]
    last = max(int(table.end_ns.max()) for table in host)  # type: ignore[attr-defined]
    far = sum(_outside(table.start_ns, first, last, limits.clock_distance_ns) for table in work)
    log.damage(
        "far-from-host",
        far,
        "device ops lie over an hour from every host event: their clock is wrong, so wall and idle times are too",
        total,
    )


def _outside(start_ns: Int64, first: int, last: int, distance: int) -> int:
    return int(((start_ns < first - distance) | (start_ns > last + distance)).sum())


def _check_places(log: HealthLog, work: list[DeviceWork], total: int) -> None:
    for column, code, text in (
        ("device", "no-device", "device ops that do not say which device they ran on"),
        ("stream", "no-stream", "device ops that do not say which stream they ran on"),
        ("process", "no-process", "device ops whose process is not known"),
    ):
        # Page migrations belong to no stream.
        missing = sum(int(((getattr(table, column) == NO_ID) & _asked_for(table)).sum()) for table in work)
        log.warn(code, missing, text, total)


def _check_copies(log: HealthLog, copies: Copies) -> None:
    asked = _asked_for(copies)
    log.warn(
        "unknown-direction",
        int((copies.direction == Direction.UNKNOWN).sum()),
        "copies that do not say where they go",
        len(copies),
    )
    log.warn(
        "no-size",
        int(((copies.size_bytes == NO_ID) & asked).sum()),
        "copies that do not say how many bytes",
        len(copies),
    )
    host_side = np.where(copies.direction == Direction.DTOH, copies.target_kind, copies.source_kind)
    unknown = np.isin(copies.direction, _ASKED_FOR) & (host_side == MemoryKind.UNKNOWN)
    log.note(
        "unknown-memory-kind",
        int(unknown.sum()),
        "copies that do not say whether host memory was pageable or pinned (ROCm does not record it)",
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
        "doubled-device-ops", count, "device ops that occur twice, alike in everything; counted as they stand", total
    )


def _check_syncs(draft: Draft, syncs: Syncs, calls: ApiCalls) -> None:
    waiting = np.isin(calls.kind, (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC, ApiKind.DEVICE_SYNC, ApiKind.WAIT_EVENT))
    if not draft.syncs_recorded:
        draft.log.note(
            "syncs-not-recorded",
            int(waiting.sum()),
            "synchronising calls are there, but not what they waited for; record with enable_cuda_sync_events=True",
        )
    event_waits = syncs.kind == SyncKind.STREAM_WAIT_EVENT
    draft.log.note(
        "inferred-waits",
        int((event_waits & syncs.inferred).sum()),
        "stream waits whose event the trace leaves open; the stream waited for is inferred",
        int(event_waits.sum()),
    )
    draft.log.note(
        "unknown-wait-source",
        int((event_waits & (syncs.source_stream == NO_ID)).sum()),
        "stream waits whose source can be neither read nor inferred",
        int(event_waits.sum()),
    )
