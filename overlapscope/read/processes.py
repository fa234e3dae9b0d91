"""Find the process of device work: Kineto names it for host events only."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import DEVICE_WORK
from overlapscope.read.draft import HOST_TABLES, Draft

_FAR = np.iinfo(np.int64).max


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
        found = delay[best, np.arange(len(best))] != _FAR
        draft.tables[table]["process"][found] = processes[best[found]]
        guessed += int(((delay != _FAR).sum(axis=0) > 1).sum()) if table in DEVICE_WORK else 0
    draft.log.note(
        "guessed-process",
        guessed,
        "kernels, copies or memsets whose correlation id several processes use; assigned to the most likely one",
        sum(draft.rows(table) for table in DEVICE_WORK),
    )


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
    mine = draft.column("api_calls", "process") == process
    correlation = np.concatenate([draft.column("api_calls", "correlation")[mine], draft.column(table, "correlation")])
    moment = np.concatenate([draft.column("api_calls", "start_ns")[mine], draft.column(table, _time_column(table))])
    calls = int(mine.sum())
    is_row = np.arange(len(correlation)) >= calls
    order = np.lexsort((is_row, moment, correlation))
    # In that order, the last call up to each place; it counts where it has the same correlation.
    last = np.maximum.accumulate(np.where(is_row[order], -1, np.arange(len(order))))
    call = order[np.maximum(last, 0)]
    fits = (last >= 0) & is_row[order] & (correlation[call] == correlation[order]) & (correlation[order] > 0)
    result = np.full(len(correlation), _FAR, np.int64)
    result[order[fits]] = moment[order[fits]] - moment[call[fits]]
    return result[calls:]


def _time_column(table: str) -> str:
    return "time_ns" if table == "event_records" else "start_ns"
