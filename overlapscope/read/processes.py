"""Whose device work is it? Kineto names the process of host events only."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.read.draft import Draft

_HOST_TABLES = ("api_calls", "cpu_ops", "ranges", "frames")
_DEVICE_TABLES = ("kernels", "copies", "memsets", "syncs", "event_records")


def assign_processes(draft: Draft) -> None:
    """Fill the process of device rows.

    With one process in the file it is all theirs. With several (merged ranks), the work of each device goes to
    the process whose calls it matches best: most correlations whose call starts before the work does, and
    on a tie the shortest median delay.
    """
    if draft.process_known:
        return
    processes = _calling_processes(draft)
    for table in _DEVICE_TABLES:
        if draft.rows(table):
            fallback = processes[0] if len(processes) == 1 else NO_ID
            draft.tables[table]["process"] = np.full(draft.rows(table), fallback, np.int64)
    if len(processes) > 1:
        _assign_by_votes(draft, processes)


def _calling_processes(draft: Draft) -> list[int]:
    """Processes that make calls; where none does, processes with any host event."""
    for tables in (_HOST_TABLES[:1], _HOST_TABLES[1:]):
        found = np.unique(np.concatenate([draft.column(table, "process") for table in tables]))
        found = found[found != NO_ID]
        if len(found):
            return [int(value) for value in found]
    return []


def _assign_by_votes(draft: Draft, processes: list[int]) -> None:
    places: dict[str, Int64] = {table: draft.column(table, "device") for table in _DEVICE_TABLES if draft.rows(table)}
    work = [table for table in ("kernels", "copies", "memsets") if table in places]
    for place in sorted({key for keys in places.values() for key in np.unique(keys).tolist()}):
        rows: dict[str, Bool] = {table: places[table] == place for table in work}
        scores = [(_score(draft, rows, process), -order) for order, process in enumerate(processes)]
        best = max(range(len(processes)), key=lambda index: scores[index])
        if scores[best][0][0] == 0:
            continue  # nothing matches: stays unknown
        for table, keys in places.items():
            draft.tables[table]["process"][keys == place] = processes[best]


def _score(draft: Draft, rows: dict[str, Bool], process: int) -> tuple[int, float]:
    """How many of the rows' correlations are of calls of ``process`` made before them, and how promptly."""
    mine = draft.column("api_calls", "process") == process
    correlation = draft.column("api_calls", "correlation")[mine]
    start = draft.column("api_calls", "start_ns")[mine]
    order = np.argsort(correlation, kind="stable")
    correlation, start = correlation[order], start[order]
    delays = [np.empty(0, np.int64)]
    for table, mask in rows.items():
        wanted = draft.column(table, "correlation")[mask]
        position = np.searchsorted(correlation, wanted)
        found = (position < len(correlation)) & (wanted > 0)
        found[found] = correlation[position[found]] == wanted[found]
        delays.append(draft.column(table, "start_ns")[mask][found] - start[position[found]])
    delay = np.concatenate(delays)
    plausible = delay[delay >= 0]
    return len(plausible), -float(np.median(plausible)) if len(plausible) else 0.0
