"""The content of chunks of Kineto events: columns by table, names, and counts of events that were left out.

The category of an event decides its table; events of unknown categories are counted and left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from overlapscope.model.columns import NO_ID, Int32
from overlapscope.read.draft import HOST_TABLES, Arrays, NamePool, take
from overlapscope.read.events import BUILDERS, FORMS, NAME_COLUMNS, AnyEvent, MetaArgs, arguments, times
from overlapscope.read.selection import Selection
from overlapscope.read.values import NeedsExact, integers, usable_times

_TABLE_OF_CATEGORY = {
    "cpu_op": "cpu_ops",
    "operator": "cpu_ops",
    "user_annotation": "ranges",
    "python_function": "frames",
    "python_sample": "samples",
    "host_event": "host_events",
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
BATCH_EVENTS = 1 << 12
"""Events that become columns together: fewer cost more steps each, more fall out of the processor's cache."""
_BATCH_BYTES = 1 << 23
"""No batch keeps more text in memory than this and a chunk, however long its events are, or the space between them."""


@dataclass
class Decoded:
    """The events of consecutive chunks as columns, in batches by table."""

    selection: Selection = Selection()
    pool: NamePool = field(default_factory=NamePool)
    batches: dict[str, list[Arrays]] = field(default_factory=dict)
    thread_names: dict[tuple[int, int], str] = field(default_factory=dict)
    recorded_ns: set[tuple[int, int]] = field(default_factory=set)
    """Begins and ends of what the profiler recorded."""
    left_out_processes: set[int] = field(default_factory=set)
    """Processes of host events that are not wanted."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Events left out, by their unknown category."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Events left out for other reasons, by the reason."""
    events: int = 0
    exact: bool = False
    """Whether times were too large for floats: from then on they are read as text."""

    _pending: _Routes = field(init=False)
    _texts: list[bytes] = field(default_factory=list)
    """The chunks whose events are pending."""
    _text_bytes: int = 0

    def __post_init__(self) -> None:
        self._pending = _Routes(self.selection)

    def add_chunk(self, chunk: bytes) -> None:
        """Add the events of a chunk; adds nothing when it raises one of `DecodeError`."""
        self._pending.add(FORMS[self.exact].decode(chunk))
        self._texts.append(chunk)
        self._text_bytes += len(chunk)
        if self._pending.events >= BATCH_EVENTS or self._text_bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Make columns of all events that were added."""
        pending, texts = self._pending, self._texts
        self._pending, self._texts, self._text_bytes = _Routes(self.selection), [], 0
        try:
            self._build(pending)
        except NeedsExact:
            self.exact = True
            pending = _Routes(self.selection)
            for text in texts:
                pending.add(FORMS[True].decode(text))
            self._build(pending)

    def add(self, events: list[AnyEvent]) -> None:
        """Add decoded events.

        Raises:
            NeedsExact: their times have to be read as text; nothing was added.
        """
        self.flush()
        routes = _Routes(self.selection)
        routes.add(events)
        self._build(routes)

    def _build(self, routes: _Routes) -> None:
        recorded = _spans(routes.recorded)
        built = {table: BUILDERS[table](rows, self.pool) for table, rows in routes.tables.items()}
        for table, batch in built.items():
            self.batches.setdefault(table, []).append(self._checked(table, batch))
        self.recorded_ns |= recorded
        self._note_threads(routes.metadata)
        for category, rows in routes.unknown.items():
            self.unknown[category] += len(rows)
        self.dropped["no-phase"] += routes.no_phase
        for table, rows in routes.not_wanted.items():
            self.dropped["not-wanted"] += len(rows)
            if table in HOST_TABLES:
                self.left_out_processes.update(integers([row.pid for row in rows]).tolist())
        self.events += routes.events

    def add_all(self, other: Decoded) -> None:
        """Add what another process made of the chunks that follow."""
        self.flush()
        numbers = self.pool.ids(list(other.pool))
        for table, batches in other.batches.items():
            self.batches.setdefault(table, []).extend(_renamed(batch, numbers) for batch in batches)
        self.thread_names |= other.thread_names
        self.recorded_ns |= other.recorded_ns
        self.left_out_processes |= other.left_out_processes
        self.unknown.update(other.unknown)
        self.dropped.update(other.dropped)
        self.events += other.events
        self.exact |= other.exact

    def tables(self) -> dict[str, Arrays]:
        """One array per column; the batches are freed while they are joined, to keep peak memory low."""
        joined = {}
        for table in list(self.batches):
            batches = self.batches.pop(table)
            joined[table] = {name: np.concatenate([batch.pop(name) for batch in batches]) for name in list(batches[0])}
        return joined

    def _checked(self, table: str, batch: Arrays) -> Arrays:
        """Drop rows without a usable time, or out of the window, and turn durations into ends."""
        start, duration = batch["start_ns"], batch.pop("duration_ns")
        usable, no_time, backwards = usable_times(start, duration)
        self.dropped["no-time"] += no_time
        self.dropped["negative-duration"] += backwards
        batch["end_ns"] = np.where(usable, start + np.where(usable, duration, 0), start)
        wanted = usable & self.selection.rows_to_read(table, start, batch["end_ns"])
        left_out = usable & ~wanted
        self.dropped["not-wanted"] += int(left_out.sum())
        if table in HOST_TABLES:
            self.left_out_processes.update(np.unique(batch["process"][left_out]).tolist())
        return batch if wanted.all() else take(batch, wanted)

    def _note_threads(self, metadata: list[AnyEvent]) -> None:
        named = [event for event in metadata if event.name == "thread_name"]
        for event, args in zip(named, arguments(MetaArgs, named), strict=True):
            if isinstance(event.pid, int) and isinstance(event.tid, int) and isinstance(args.name, str):
                self.thread_names[event.pid, event.tid] = args.name


class _Routes(dict[str | None, list[AnyEvent]]):
    """The events of each category's table by category, created as categories appear."""

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self._selection = selection
        self.tables: dict[str, list[AnyEvent]] = {}
        self.unknown: dict[str, list[AnyEvent]] = {}
        self.recorded: list[AnyEvent] = []
        self.metadata: list[AnyEvent] = []
        self.not_wanted: dict[str, list[AnyEvent]] = {}
        self.no_phase = 0
        self.events = 0

    def add(self, events: list[AnyEvent]) -> None:
        for event in events:
            if event.ph == "X":
                self[event.cat].append(event)
            elif event.ph == "M":
                self.metadata.append(event)
            elif event.cat in _TABLE_OF_CATEGORY:
                self.no_phase += 1
        self.events += len(events)

    def __missing__(self, category: str | None) -> list[AnyEvent]:
        known = (category or "").lower()
        table = _TABLE_OF_CATEGORY.get(known)
        if table is not None and self._selection.reads(table):
            rows = self.tables.setdefault(table, [])
        elif table is not None:
            rows = self.not_wanted.setdefault(table, [])
        elif known == _RECORDED:
            rows = self.recorded
        elif known in _LEFT_OUT:
            rows = []
        else:
            rows = self.unknown.setdefault(category or "(none)", [])
        self[category] = rows
        return rows


def _spans(rows: list[AnyEvent]) -> set[tuple[int, int]]:
    """Begin and end of some events, those without a usable time left out."""
    if not rows:
        return set()
    start, duration = times(rows).values()
    usable, *_ = usable_times(start, duration)
    return set(zip(start[usable].tolist(), (start + np.where(usable, duration, 0))[usable].tolist(), strict=True))


def renumbered(tables: dict[str, Arrays], pool: NamePool) -> NamePool:
    """Number the names of ``tables`` in the order of their first rows, however chunks were cut; drop unused ones."""
    columns = [(table, name) for table in tables for name in NAME_COLUMNS if name in tables[table]]
    order: list[int] = []
    seen = np.zeros(len(pool) + 1, np.bool_)
    seen[NO_ID] = True
    for table, name in columns:
        values = tables[table][name]
        first = np.full(len(seen), len(values), np.int64)
        first[values[::-1]] = np.arange(len(values))[::-1]  # the last one that is written counts
        fresh = np.flatnonzero(~seen & (first < len(values)))
        order += fresh[np.argsort(first[fresh])].tolist()
        seen[fresh] = True
    numbers = np.full(len(pool), NO_ID, np.int32)
    numbers[order] = np.arange(len(order))
    for table, name in columns:
        tables[table] |= _renamed({name: tables[table][name]}, numbers)
    names = list(pool)
    return NamePool({names[old]: new for new, old in enumerate(order)})


def _renamed(batch: Arrays, numbers: Int32) -> Arrays:
    """A batch whose names are numbered by another pool."""
    known = np.append(numbers, np.int32(NO_ID))  # a name that is not recorded stays so
    return {name: known[values] if name in NAME_COLUMNS else values for name, values in batch.items()}
