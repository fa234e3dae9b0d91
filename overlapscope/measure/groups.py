"""Copies summed up by what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.measure.copies import CopyFacts
from overlapscope.measure.spans import Spans, contains, intersect, union
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Copies
from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class CopyGroup:
    """Copies of one group.

    ``total_ns``, ``hidden_ns`` and ``exposed_ns`` are sums over copies; ``union_ns`` is the time in
    which at least one of them ran. ``held_ns`` is host time, each call counted once. ``size_bytes``
    counts copies whose size is known.
    """

    key: dict[str, Any]
    count: int
    size_bytes: int
    total_ns: int
    union_ns: int
    hidden_ns: int
    exposed_ns: int
    held_ns: int


def _range_name(trace: Trace, facts: CopyFacts, row: int) -> str | None:
    place = int(facts.range_row[row])
    return trace.names[int(trace.ranges.name_id[place])] if place != NO_ID else None


def _step_name(trace: Trace, facts: CopyFacts, row: int) -> str | None:
    place = int(facts.step_row[row])
    return trace.names[int(trace.ranges.name_id[place])] if place != NO_ID else None


def _number(name: str) -> Callable[[Trace, CopyFacts, int], int | None]:
    def read(trace: Trace, _: CopyFacts, row: int) -> int | None:
        value = int(getattr(trace.copies, name)[row])
        return None if value == NO_ID else value

    return read


KEYS: dict[str, Callable[[Trace, CopyFacts, int], Any]] = {
    "process": _number("process"),
    "device": _number("device"),
    "stream": _number("stream"),
    "direction": lambda trace, _, row: Direction(int(trace.copies.direction[row])).label,
    "memory": lambda _, facts, row: MemoryKind(int(facts.host_kind[row])).label,
    "range": _range_name,
    "step": _step_name,
}
"""What copies can be grouped by."""


def group_copies(trace: Trace, facts: CopyFacts, within: Spans, by: tuple[str, ...]) -> tuple[CopyGroup, ...]:
    """Sum up the copies that touch ``within``, by any of `KEYS`; the longest group first.

    Raises:
        KeyError: an entry of ``by`` is none of `KEYS`.
    """
    copies = trace.copies
    rows_of: dict[tuple[Any, ...], list[int]] = {}
    for row in np.flatnonzero(contains(within, copies.start_ns, copies.end_ns)).tolist():
        rows_of.setdefault(tuple(KEYS[name](trace, facts, row) for name in by), []).append(row)
    groups = [
        _group(dict(zip(by, key, strict=True)), copies, facts, within, np.array(rows)) for key, rows in rows_of.items()
    ]
    return tuple(sorted(groups, key=lambda group: -group.total_ns))


def _group(key: dict[str, Any], copies: Copies, facts: CopyFacts, within: Spans, rows: Any) -> CopyGroup:
    sizes = copies.size_bytes[rows]
    _, first = np.unique(np.where(copies.call[rows] == NO_ID, -2 - rows, copies.call[rows]), return_index=True)
    held = facts.held_ns[rows][first]
    return CopyGroup(
        key=key,
        count=len(rows),
        size_bytes=int(sizes[sizes != NO_ID].sum()),
        total_ns=int(facts.total_ns[rows].sum()),
        union_ns=intersect(union(copies.start_ns[rows], copies.end_ns[rows]), within).total_ns,
        hidden_ns=int(facts.hidden_ns[rows].sum()),
        exposed_ns=int(facts.exposed_ns[rows].sum()),
        held_ns=int(held[held != NO_ID].sum()),
    )
