"""Match device work with its process and with the call that issued it, by correlation id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.model.trace import DEVICE_WORK
from overlapscope.read.draft import HOST_TABLES, Arrays, Draft

_FAR = np.iinfo(np.int64).max
_SMALL = 2**31  # two numbers below it make one key of 64 bits


def assign_processes(draft: Draft) -> None:
    """Fill the process of device rows.

    With one process in the file, all rows belong to it. With several (merged ranks), a row belongs to the process with
    a call of the same correlation id that starts before it. Where several processes have one, because the ids of ranks
    collide, the row goes to the process that explains the most work of that device; where the device is shared, to the
    process with the latest such call. These rows are counted as guessed.
    """
    if draft.process_known:
        return
    processes = _calling_processes(draft)
    for table in (*DEVICE_WORK, "syncs", "event_records"):
        rows = draft.rows(table)
        if not rows:
            continue
        if len(processes) == 1:
            draft.tables[table]["process"] = np.full(rows, processes[0], np.int64)
        else:
            draft.tables[table]["process"] = np.full(rows, NO_ID, np.int64)
    if len(processes) > 1:
        _assign_rows(draft, np.array(processes, np.int64))


def _calling_processes(draft: Draft) -> list[int]:
    """The processes with CUDA calls; where there are none, the processes with any host event."""
    calling = _values(draft.column("api_calls", "process")) - {NO_ID}
    host = draft.host_processes.union(*(_values(draft.column(table, "process")) for table in HOST_TABLES))
    return sorted(calling or host - {NO_ID})


def _values(column: Int64) -> set[int]:
    """The different values of a column in which one mostly follows another that is the same."""
    return {*column[:1].tolist(), *column[1:][np.diff(column) != 0].tolist()}


def _assign_rows(draft: Draft, processes: Int64) -> None:
    tables = [table for table in (*DEVICE_WORK, "syncs", "event_records") if draft.rows(table)]
    delays = {table: np.stack([_delays(draft, table, process) for process in processes.tolist()]) for table in tables}
    owners = _device_owners(draft, delays)
    guessed = 0
    for table in tables:
        delay, device = delays[table], draft.column(table, "device")
        best = np.argmin(delay, axis=0)
        for number, owner in owners.items():
            best[device == number] = owner
        assigned = delay[best, np.arange(len(best))] != _FAR
        draft.tables[table]["process"][assigned] = processes[best[assigned]]
        guessed += int(((delay != _FAR).sum(axis=0) > 1).sum()) if table in DEVICE_WORK else 0
    draft.log.add("guessed-process", guessed, of=sum(draft.rows(table) for table in DEVICE_WORK))


def _device_owners(draft: Draft, delays: dict[str, Int64]) -> dict[int, int]:
    """For each device, the index of the process that explains all its work, with the shortest delays."""
    work = [table for table in DEVICE_WORK if table in delays]
    device = np.concatenate([draft.column(table, "device") for table in work] or [np.empty(0, np.int64)])
    delay = np.concatenate([delays[table] for table in work], axis=1) if work else np.empty((0, 0), np.int64)
    owners = {}
    for number in np.unique(device).tolist():
        here = delay[:, device == number]
        here = here[:, (here != _FAR).any(axis=0)]
        whole = np.flatnonzero((here != _FAR).all(axis=1))
        if here.shape[1] and len(whole):
            owners[number] = int(whole[np.argmin(np.median(here[whole], axis=1))])
    return owners


def _delays(draft: Draft, table: str, process: int) -> Int64:
    """Time from the last call of ``process`` with the row's correlation id to the row; `_FAR` where there is none."""
    calling = draft.column("api_calls", "process") == process
    correlation = np.concatenate(
        [draft.column("api_calls", "correlation")[calling], draft.column(table, "correlation")]
    )
    moment = np.concatenate([draft.column("api_calls", "start_ns")[calling], draft.column(table, time_column(table))])
    calls = int(calling.sum())
    is_row = np.arange(len(correlation)) >= calls
    order = np.lexsort((is_row, moment, correlation))
    # In that order, the last call up to each place; it counts where it has the same correlation.
    last = np.maximum.accumulate(np.where(is_row[order], -1, np.arange(len(order))))
    call = order[np.maximum(last, 0)]
    fits = (last >= 0) & is_row[order] & (correlation[call] == correlation[order]) & (correlation[order] > 0)
    result = np.full(len(correlation), _FAR, np.int64)
    result[order[fits]] = moment[order[fits]] - moment[call[fits]]
    return result[calls:]


def time_column(table: str) -> str:
    """The name of the column with the begin of a table's rows."""
    return "time_ns" if table == "event_records" else "start_ns"


@dataclass(frozen=True)
class Joined:
    """Row of the call for each op (`NO_ID` where there is none), and the number of doubtful matches."""

    call: Int32
    ambiguous: int
    shared: int


def join(calls: Arrays, process: Int64, correlation: Int64, start_ns: Int64) -> Joined:
    """Find the call of each op among ``calls``, sorted by start; of a driver call in a runtime call, the runtime call.

    One call may have many ops, as a graph launch does. Where several calls share the key of an op, as in damaged traces
    and merged ranks, ops and calls are matched in time order if there are equally many; else an op gets the last call
    before it. Both count as ambiguous. A plain kernel launch issues one kernel: of several with that call, the first
    keeps it.
    """
    call = np.full(len(process), NO_ID, np.int32)
    known = (correlation > 0) & (process != NO_ID)
    callers = np.flatnonzero((calls["correlation"] > 0) & (calls["process"] != NO_ID))
    if not known.any() or not len(callers):
        return Joined(call, 0, 0)
    # Of nested calls with one key, only the outer one counts.
    inner = calls["parent"][callers] != NO_ID
    inner &= calls["correlation"][calls["parent"][callers]] == calls["correlation"][callers]
    callers = callers[~inner]
    op_keys, call_keys = _keys(process, correlation, calls["process"][callers], calls["correlation"][callers])
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
    nested = nested[calls["parent"][call[nested]] != NO_ID]
    call[nested] = calls["parent"][call[nested]]
    return Joined(call, len(several), released)


def _keys(process: Int64, correlation: Int64, call_process: Int64, call_correlation: Int64) -> tuple[Int64, Int64]:
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


def _groups(keys: Int64, rows: Int64) -> list[Int64]:
    """The rows, split by equal key."""
    if not len(rows):
        return []
    order = rows[np.argsort(keys[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def _pair(calls: Arrays, candidates: Int64, start_ns: Int64) -> Int64:
    order = np.argsort(start_ns, kind="stable")
    result = np.empty(len(start_ns), np.int64)
    if len(candidates) == len(start_ns):
        result[order] = candidates
        return result
    position = np.searchsorted(calls["start_ns"][candidates], start_ns, "right") - 1
    return candidates[np.maximum(position, 0)]


def _release_shared(calls: Arrays, call: Int32, start_ns: Int64) -> int:
    """Keep only the first op of a plain launch; returns how many others lost their call."""
    joined = np.flatnonzero(call != NO_ID)
    plain = joined[calls["kind"][call[joined]] == ApiKind.LAUNCH]
    order = plain[np.lexsort((start_ns[plain], call[plain]))]
    repeated = order[1:][call[order[1:]] == call[order[:-1]]]
    call[repeated] = NO_ID
    return len(repeated)


def outermost(calls: Arrays) -> Int32:
    """For each call, the row of the outermost call around it on its thread; `NO_ID` where there is none."""
    process, thread, start_ns, end_ns = (calls[name] for name in ("process", "thread", "start_ns", "end_ns"))
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


def doubled(calls: Arrays) -> Bool:
    """Which calls are recorded twice: they lie inside a call with the same name and correlation id."""
    outer, name_id = calls["parent"], calls["name_id"]
    inner = np.flatnonzero(outer != NO_ID)
    around = outer[inner]
    same = (name_id[inner] == name_id[around]) & (calls["correlation"][inner] == calls["correlation"][around])
    result = np.zeros(len(outer), np.bool_)
    result[inner[same & (calls["correlation"][inner] > 0)]] = True
    return result
