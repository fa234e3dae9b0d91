"""Match device work with the call that issued it, by process and correlation id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.enums import ApiKind

Keys = Int64
_SMALL = 2**31  # two numbers below it make one key of 64 bits


@dataclass(frozen=True)
class Calls:
    """The columns of API calls that the matching needs, sorted by start; ``outer`` comes from `outermost`."""

    start_ns: Int64
    process: Int64
    correlation: Int64
    kind: Int8
    outer: Int32


@dataclass(frozen=True)
class Joined:
    """Row of the call for each op (`NO_ID` where there is none), and the number of doubtful matches."""

    call: Int32
    ambiguous: int
    shared: int


def join(calls: Calls, process: Int64, correlation: Int64, start_ns: Int64) -> Joined:
    """Find the call of each op; where a runtime call makes a driver call, the runtime call.

    One call may have many ops, as a graph launch does. Where several calls share the key of an op, as in damaged traces
    and merged ranks, ops and calls are matched in time order if there are equally many; else an op gets the last call
    before it. Both count as ambiguous. A plain kernel launch issues one kernel: of several with that call, the first
    keeps it.
    """
    call = np.full(len(process), NO_ID, np.int32)
    known = (correlation > 0) & (process != NO_ID)
    callers = np.flatnonzero((calls.correlation > 0) & (calls.process != NO_ID))
    if not known.any() or not len(callers):
        return Joined(call, 0, 0)
    # Of nested calls with one key, only the outer one counts.
    inner = calls.outer[callers] != NO_ID
    inner &= calls.correlation[calls.outer[callers]] == calls.correlation[callers]
    callers = callers[~inner]
    op_keys, call_keys = _keys(process, correlation, calls.process[callers], calls.correlation[callers])
    order = np.argsort(call_keys, kind="stable")
    sorted_keys = call_keys[order]
    first = np.searchsorted(sorted_keys, op_keys, "left")
    count = np.searchsorted(sorted_keys, op_keys, "right") - first
    single = known & (count == 1)
    call[single] = callers[order[first[single]]]
    several = np.flatnonzero(known & (count > 1))
    for group in _groups(op_keys, several):
        candidates = callers[order[first[group[0]] : first[group[0]] + count[group[0]]]]
        call[group] = _pair(calls, np.sort(candidates), start_ns[group])
    released = _release_shared(calls, call, start_ns)
    nested = np.flatnonzero(call != NO_ID)
    nested = nested[calls.outer[call[nested]] != NO_ID]
    call[nested] = calls.outer[call[nested]]
    return Joined(call, len(several), released)


def _keys(process: Int64, correlation: Int64, call_process: Int64, call_correlation: Int64) -> tuple[Keys, Keys]:
    """Integer keys for (process, correlation), the same on both sides."""
    processes = _small(np.concatenate([process, call_process]))
    keys = processes * _SMALL + _small(np.concatenate([correlation, call_correlation]))
    return keys[: len(process)], keys[len(process) :]


def _small(values: Int64) -> Int64:
    """Numbers from 0 to below `_SMALL` in place of the values, in the same order."""
    least = int(values.min())
    if int(values.max()) - least < _SMALL:
        from_0: Int64 = values - least
        return from_0
    numbers: Int64 = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _groups(keys: Keys, rows: Int64) -> list[Int64]:
    """The rows, split by equal key."""
    if not len(rows):
        return []
    order = rows[np.argsort(keys[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def _pair(calls: Calls, candidates: Int64, start_ns: Int64) -> Int64:
    order = np.argsort(start_ns, kind="stable")
    result = np.empty(len(start_ns), np.int64)
    if len(candidates) == len(start_ns):
        result[order] = candidates
        return result
    position = np.searchsorted(calls.start_ns[candidates], start_ns, "right") - 1
    return candidates[np.maximum(position, 0)]


def _release_shared(calls: Calls, call: Int32, start_ns: Int64) -> int:
    """Keep only the first op of a plain launch; returns how many others lost their call."""
    joined = np.flatnonzero(call != NO_ID)
    plain = joined[calls.kind[call[joined]] == ApiKind.LAUNCH]
    order = plain[np.lexsort((start_ns[plain], call[plain]))]
    repeated = order[1:][call[order[1:]] == call[order[:-1]]]
    call[repeated] = NO_ID
    return len(repeated)


def outermost(process: Int64, thread: Int64, start_ns: Int64, end_ns: Int64) -> Int32:
    """For each call, the row of the outermost call around it on its thread; `NO_ID` where there is none."""
    outer = np.full(len(start_ns), NO_ID, np.int32)
    order = np.lexsort((-end_ns, start_ns, thread, process))
    if not len(order):
        return outer
    changed = (np.diff(process[order]) != 0) | (np.diff(thread[order]) != 0)
    for rows in np.split(order, np.flatnonzero(changed) + 1):
        ends = end_ns[rows]
        reached = np.maximum.accumulate(ends)
        inside = np.zeros(len(rows), np.bool_)
        inside[1:] = ends[1:] <= reached[:-1]
        around = np.maximum.accumulate(np.where(inside, 0, np.arange(len(rows))))
        outer[rows[inside]] = rows[around[inside]]
    return outer


def doubled(calls: Calls, name_id: Int32) -> Bool:
    """Which calls are recorded twice: they lie inside a call with the same name and correlation id."""
    outer = calls.outer
    inner = np.flatnonzero(outer != NO_ID)
    around = outer[inner]
    same = (name_id[inner] == name_id[around]) & (calls.correlation[inner] == calls.correlation[around])
    result = np.zeros(len(outer), np.bool_)
    result[inner[same & (calls.correlation[inner] > 0)]] = True
    return result
