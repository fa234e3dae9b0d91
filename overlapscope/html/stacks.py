"""The stack of a call: the ranges, modules, operators and Python functions that were open on its thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.grouping import distinct_columns
from overlapscope.measure.places import enclosing, in_one_table, innermost, is_step
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.trace import Trace

KINDS = ("range", "module", "operator", "Python")
"""The kinds of entries of a stack."""
_MOST_ENTRIES = 100_000  # of all stacks together, so that a page stays small; deeper ones are cut


@dataclass(frozen=True, eq=False)
class Stacks:
    """Stacks as a tree: each entry has a name, a kind and the entry around it, `NO_ID` for none.

    ``of_call`` has the innermost entry for each row of api_calls, `NO_ID` for calls outside of everything recorded.
    ``complete`` says whether all entries were kept.
    """

    name_id: Int64
    kind: Int64
    outer: Int64
    of_call: Int64
    complete: bool


def stacks(trace: Trace, calls: Int64, most: int = _MOST_ENTRIES) -> Stacks:
    """The stacks of some calls, by their rows. Profiler steps are left out: they would make each stack another one."""
    table, kind = in_one_table(trace.ranges.take(~is_step(trace)), trace.modules, trace.cpu_ops, trace.frames)
    where = trace.api_calls.take(calls)
    at = innermost(table, where.process, where.thread, where.start_ns).astype(np.int64)
    outer = np.append(enclosing(table), NO_ID).astype(np.int64)
    rows, depth = _with_those_around(at, outer)
    node = np.full(len(table) + 1, NO_ID, np.int64)
    levels, count = [np.empty((3, 0), np.int64)], 0
    for level in np.split(rows, np.flatnonzero(np.diff(depth)) + 1):
        entries = np.stack([node[outer[level]], kind[level], table.name_id[level].astype(np.int64)])
        distinct, which = distinct_columns(entries)
        if count + distinct.shape[1] > most:
            break
        node[level] = which + count
        levels.append(distinct)
        count += distinct.shape[1]
    complete = bool((node[rows] != NO_ID).all())
    of_call = np.full(len(trace.api_calls) + 1, NO_ID, np.int64)
    of_call[calls] = _kept(node, outer, at)
    outer_entry, kinds, names = np.concatenate(levels, axis=1)
    return Stacks(names, kinds, outer_entry, of_call[:-1], complete)


def _with_those_around(at: Int64, outer: Int64) -> tuple[Int64, Int64]:
    """Some rows and all rows around them, outermost first, and how many are around each."""
    wanted: Bool = np.zeros(len(outer), np.bool_)
    step = np.unique(at[at != NO_ID])
    while len(step):
        wanted[step] = True
        step = np.unique(outer[step])
        step = step[(step != NO_ID) & ~wanted[step]]
    rows = np.flatnonzero(wanted)
    depth, above = np.zeros(len(rows), np.int64), outer[rows]
    while (above != NO_ID).any():
        depth += above != NO_ID
        above = outer[above]
    order = np.argsort(depth, kind="stable")
    return rows[order], depth[order]


def _kept(node: Int64, outer: Int64, at: Int64) -> Int64:
    """The entry of each row, or of the next one around it that was kept."""
    at = at.copy()
    while (lost := (at != NO_ID) & (node[at] == NO_ID)).any():
        at[lost] = outer[at[lost]]
    return node[at]
