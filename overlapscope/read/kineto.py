"""Read a Kineto (torch.profiler) trace as a stream of chunks into a draft of tables.

Only one chunk of the file is in memory at a time: events become columns at once. The category of an event decides its
table; events of unknown categories are counted and left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from overlapscope.errors import UnknownTraceFormat, UnusableTrace
from overlapscope.read.chunks import LONGEST_EVENT, Opening, cut, find_events
from overlapscope.read.draft import Arrays, Draft, NamePool
from overlapscope.read.dropped import messages_of, note_dropped
from overlapscope.read.events import FORMS, AnyEvent, DecodeError, MetaArgs, arguments
from overlapscope.read.kineto_columns import BUILDERS
from overlapscope.read.kineto_header import LOST_KEY, metadata_of
from overlapscope.read.log import UNKNOWN_CATEGORY, HealthLog
from overlapscope.read.salvage import Rescue, rescue
from overlapscope.read.values import NeedsExact, nanoseconds, usable_times

_TABLE_OF_CATEGORY = {
    "cpu_op": "cpu_ops",
    "operator": "cpu_ops",
    "user_annotation": "ranges",
    "python_function": "frames",
    "cuda_runtime": "api_calls",
    "cuda_driver": "api_calls",
    "runtime": "api_calls",
    "xpu_runtime": "api_calls",
    "mtia_runtime": "api_calls",
    "kernel": "kernels",
    "gpu_memcpy": "copies",
    "memcpy": "copies",
    "gpu_memset": "memsets",
    "memset": "memsets",
    "cuda_sync": "syncs",
    "cuda_event": "event_records",
    "overhead": "overheads",
}
_RECORDED = "trace"
"""The category of the spans for which the profiler recorded: one, unless the file has several profiling cycles."""
_LEFT_OUT = {"gpu_user_annotation"}
"""Read and left out by design: the device's projections of host annotations."""
TRAILER_LIMIT = 1 << 24
"""Bytes of the part after the events that are read."""
_CUT_TRAILER = "the part after the events is truncated or malformed; versions and devices given there are not known"


@dataclass
class _Dropped:
    """Events left out, by reason."""

    no_time: int = 0
    backwards: int = 0
    no_phase: int = 0


@dataclass
class _Reader:
    """The state of one pass over a file."""

    log: HealthLog
    pool: NamePool = field(default_factory=NamePool)
    batches: dict[str, list[Arrays]] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    thread_names: dict[tuple[int, int], str] = field(default_factory=dict)
    recorded_ns: set[tuple[int, int]] = field(default_factory=set)
    exact: bool = False
    carried: bytes = b""
    trailer: bytes | None = None
    dropped: _Dropped = field(default_factory=_Dropped)

    def read(self, chunk: bytes) -> None:
        """Read one chunk of the event list, as `cut` returns it."""
        if self.trailer is not None:
            if len(self.trailer) < TRAILER_LIMIT:
                self.trailer += b"," + chunk[1:-1]
            return
        if self.carried:
            chunk, self.carried = b"[" + self.carried + b"," + chunk[1:], b""
        self._take(chunk, final=False)

    def finish(self) -> None:
        """Read the remainder of the last chunk."""
        if self.carried:
            chunk, self.carried = b"[" + self.carried + b"]", b""
            self._take(chunk, final=True)

    def _take(self, chunk: bytes, *, final: bool) -> None:
        events, rescued = self._events(chunk, final=final)
        counted = replace(self.dropped)
        try:
            batches = self._columns(events)
        except NeedsExact:
            self.exact, self.dropped = True, counted
            events, rescued = self._events(chunk, final=final)
            batches = self._columns(events)
        for table, batch in batches:
            self.batches.setdefault(table, []).append(batch)
        self.log.events_read += len(events)
        if rescued is not None:
            self._note(rescued)

    def _events(self, chunk: bytes, *, final: bool) -> tuple[list[AnyEvent], Rescue | None]:
        form = FORMS[self.exact]
        try:
            return form.decode(chunk), None
        except DecodeError:
            rescued = rescue(chunk[1:-1], form, final=final or len(chunk) > LONGEST_EVENT)
            return rescued.events, rescued

    def _note(self, rescued: Rescue) -> None:
        self.trailer = rescued.trailer
        self.carried = rescued.cut_off
        self.log.damage("lost-events", rescued.lost, "events that could not be read or repaired; left out")
        self.log.warn("repaired-events", rescued.repaired, "malformed events were repaired and read")
        self.log.events_read += rescued.lost

    def _columns(self, events: list[AnyEvent]) -> list[tuple[str, Arrays]]:
        buckets: dict[str, list[AnyEvent]] = {}
        routes = _Routes(buckets)
        for event in events:
            if event.ph == "X":
                routes[event.cat].append(event)
            elif event.ph == "M":
                self._note_thread(event)
            elif event.cat in _TABLE_OF_CATEGORY:
                self.dropped.no_phase += 1
        result = []
        for table, rows in buckets.items():
            result.append((table, self._checked(BUILDERS[table](rows, self.pool))))
        self.recorded_ns |= _times(routes.recorded)
        for category, rows in routes.unknown.items():
            self.unknown[category] = self.unknown.get(category, 0) + len(rows)
        return result

    def _checked(self, batch: Arrays) -> Arrays:
        """Drop rows without a usable time and turn durations into ends."""
        start, duration = batch["start_ns"], batch.pop("duration_ns")
        usable, no_time, backwards = usable_times(start, duration)
        self.dropped.no_time += no_time
        self.dropped.backwards += backwards
        batch["end_ns"] = np.where(usable, start + np.where(usable, duration, 0), start)
        return batch if usable.all() else {name: values[usable] for name, values in batch.items()}

    def _note_thread(self, event: AnyEvent) -> None:
        if event.name != "thread_name":
            return
        (args,) = arguments(MetaArgs, [event])
        if isinstance(event.pid, int) and isinstance(event.tid, int) and isinstance(args.name, str):
            self.thread_names[event.pid, event.tid] = args.name


class _Routes(dict[str | None, list[AnyEvent]]):
    """The events of each category's table by category, created as categories appear."""

    def __init__(self, buckets: dict[str, list[AnyEvent]]) -> None:
        super().__init__()
        self._buckets = buckets
        self.unknown: dict[str, list[AnyEvent]] = {}
        self.recorded: list[AnyEvent] = []

    def __missing__(self, category: str | None) -> list[AnyEvent]:
        known = (category or "").lower()
        table = _TABLE_OF_CATEGORY.get(known)
        if table is not None:
            rows = self._buckets.setdefault(table, [])
        elif known == _RECORDED:
            rows = self.recorded
        elif known in _LEFT_OUT:
            rows = []
        else:
            rows = self.unknown.setdefault(category or "(none)", [])
        self[category] = rows
        return rows


def _times(rows: list[AnyEvent]) -> set[tuple[int, int]]:
    """Begin and end of some events, those without a usable time left out."""
    start, duration = nanoseconds([row.ts for row in rows]), nanoseconds([row.dur for row in rows])
    usable, *_ = usable_times(start, duration)
    return set(zip(start[usable].tolist(), (start + np.where(usable, duration, 0))[usable].tolist(), strict=True))


def read_kineto(path: Path, open_blocks: Callable[[], Iterator[bytes]], log: HealthLog) -> Draft:
    """Read the trace into a draft.

    Raises:
        UnknownTraceFormat: the text has no list of trace events.
        UnusableTrace: the list is there, but no event in it can be read.
    """
    blocks = open_blocks()
    opening = find_events(blocks)
    if opening is None:
        raise UnknownTraceFormat(
            f"{path}: JSON without trace events; expected a torch.profiler trace, not an execution trace or another "
            "tool's file"
        )
    reader = _Reader(log)
    for chunk in cut(opening.rest, blocks):
        reader.read(chunk)
    _finish(reader, opening)
    if log.events_read == 0:
        raise UnusableTrace(f"{path}: a Kineto trace without a readable event; record it again")
    header = opening.header | _trailer_keys(reader.trailer, opening, log)
    note_dropped(log, messages_of(header))
    lost = header.get(LOST_KEY)
    if isinstance(lost, int):
        log.damage("lost-before-scrubbing", lost, "parts of the trace could not be read when it was scrubbed")
    tables = {table: _joined(batches) for table, batches in reader.batches.items()}
    log.events_kept += sum(len(columns["start_ns"]) for columns in tables.values())
    metadata = replace(
        metadata_of(header, path, reader.thread_names, is_list=opening.is_list),
        recorded_ns=tuple(sorted(reader.recorded_ns)),
    )
    return Draft(metadata, log, reader.pool, tables, syncs_recorded="syncs" in tables)


def _finish(reader: _Reader, opening: Opening) -> None:
    log = reader.log
    reader.finish()
    if reader.trailer is None:
        log.damage("truncated", 1, "the file is truncated within its list of events; all events before were read")
    if not opening.header_ok:
        log.warn("bad-header", 1, "the part before the events is not valid JSON; versions and devices are not known")
    for code, count, text in (
        ("no-phase", reader.dropped.no_phase, "events of a known category without a duration phase; left out"),
        ("no-time", reader.dropped.no_time, "events without a readable time; left out"),
        ("negative-duration", reader.dropped.backwards, "events that end before they start; left out"),
    ):
        log.damage(code, count, text, log.events_read)
    for category, count in sorted(reader.unknown.items()):
        code = UNKNOWN_CATEGORY + category
        log.note(code, count, f"events of an unknown category ({category}); left out", log.events_read)


def _trailer_keys(trailer: bytes | None, opening: Opening, log: HealthLog) -> dict[str, Any]:
    """The top-level keys after the event list."""
    text = (trailer or b"").strip()
    if b'"traceEvents"' in text:
        log.damage("second-trace", 1, "the file has a second list of events, which was not read")
    if not text or trailer is None:
        log.damage("truncated", int(trailer is not None and not opening.is_list), _CUT_TRAILER)
        return {}
    try:
        keys = json.loads(b"{" + text.removeprefix(b",").strip(), strict=False)
    except (ValueError, RecursionError):
        log.damage("bad-trailer", 1, _CUT_TRAILER)
        return {}
    return keys if isinstance(keys, dict) else {}


def _joined(batches: list[Arrays]) -> Arrays:
    """One array per column; batches are freed while their columns are joined, to keep peak memory low."""
    return {name: np.concatenate([batch.pop(name) for batch in batches]) for name in list(batches[0])}
