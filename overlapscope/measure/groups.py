"""Sum up copies by direction, memory kind, stream, range and other keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.measure.copies import CopyFacts, blocked_by_calls
from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.spans import intersect, merge, union
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64, known
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace


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


def _range_name(trace: Trace, place: int) -> str | None:
    return trace.names[int(trace.ranges.name_id[place])] if place != NO_ID else None


def _number(_: Trace, value: int) -> int | None:
    return known(value)


Codes = Callable[[Trace, CopyFacts], Int64]
Decode = Callable[[Trace, int], Any]


def _range_codes(rows: Int32, trace: Trace) -> Int64:
    """One code per range name: the row of one range of that name."""
    result = np.full(len(rows), NO_ID, np.int64)
    known = rows != NO_ID
    if known.any():
        _, first, member = np.unique(trace.ranges.name_id[rows[known]], return_index=True, return_inverse=True)
        result[known] = rows[known][first][member]
    return result


KEYS: dict[str, tuple[Codes, Decode]] = {
    "process": (lambda trace, _: trace.copies.process, _number),
    "device": (lambda trace, _: trace.copies.device.astype(np.int64), _number),
    "stream": (lambda trace, _: trace.copies.stream, _number),
    "direction": (
        lambda trace, _: trace.copies.direction.astype(np.int64),
        lambda _, value: Direction(value).label,
    ),
    "memory": (lambda _, facts: facts.host_kind.astype(np.int64), lambda _, value: MemoryKind(value).label),
    "range": (lambda trace, facts: _range_codes(facts.range_row, trace), _range_name),
    "step": (lambda trace, facts: _range_codes(facts.step_row, trace), _range_name),
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
    codes = np.stack([np.zeros(len(rows), np.int64), *(KEYS[name][0](trace, facts)[rows] for name in by)])
    keys, member = distinct_columns(codes)
    groups = [
        _group(
            {name: KEYS[name][1](trace, int(code)) for name, code in zip(by, key[1:], strict=True)},
            trace,
            facts,
            window,
            rows[member == number],
        )
        for number, key in enumerate(keys.T.tolist())
    ]
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
        busy_ns=intersect(union(copies.start_ns[rows], copies.end_ns[rows]), within).total_ns,
        hidden_ns=int(facts.hidden_ns[rows].sum()),
        exposed_ns=int(facts.exposed_ns[rows].sum()),
        blocked_ns=blocked_by_calls(trace, facts, rows),
    )
