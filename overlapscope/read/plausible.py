"""Leave out of a draft what cannot be, before anything is computed with it.

After this, times of all rows are within a week of each other and can be subtracted and added, no row ends before it
starts, and sizes and device numbers are 0 or more, or not known. Whatever is changed is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.errors import UnusableTrace
from overlapscope.model.columns import NO_ID, NO_TIME
from overlapscope.read.draft import Draft
from overlapscope.read.values import LATEST_NS


@dataclass(frozen=True)
class Possible:
    """Limits of what can be in a trace.

    ``longest_ns``: recordings last seconds to minutes, and clocks of host and device were seen a day apart; a week is
    beyond both, and still short enough for the times of thousands of rows to be added. ``largest_bytes``: the address
    space of a GPU; no copy is larger.
    """

    longest_ns: int = 7 * 86_400 * 10**9
    largest_bytes: int = 2**49


DEFAULT = Possible()
_TIMES = {"start_ns", "end_ns", "time_ns"}
_FROM_0 = {"device", "source_device", "target_device", "blocks", "threads_per_block"}


def keep_possible(draft: Draft, limits: Possible = DEFAULT) -> None:
    """Drop rows with impossible times, and forget impossible sizes and device numbers.

    Raises:
        UnusableTrace: no row is left of all, and some were lost.
    """
    _drop(draft, "no-time", "events without a readable time; left out", -LATEST_NS, LATEST_NS)
    first = _densest(draft, limits.longest_ns)
    far = "events more than a week from most others, so their time is wrong; left out"
    _drop(draft, "far-off-time", far, first, first + limits.longest_ns)
    if draft.selection.everything and draft.log.health().damaged and not any(map(draft.rows, draft.tables)):
        raise UnusableTrace(f"{draft.metadata.path}: a trace without a readable event; record it again")
    _forget(draft, limits)


def _drop(draft: Draft, code: str, text: str, first: int, last: int) -> None:
    """Drop the rows of all tables that are not within a time; one that may lack its time may do so."""
    lost = 0
    for name, columns in draft.tables.items():
        kept = np.ones(draft.rows(name), np.bool_)
        for column in _TIMES & columns.keys():
            values = columns[column]
            kept &= ((values >= first) & (values <= last)) | ((values == NO_TIME) & (column == "time_ns"))
        if not kept.all():
            lost += int((~kept).sum())
            draft.tables[name] = {column: values[kept] for column, values in columns.items()}
    draft.log.damage(code, lost, text, draft.log.events_read)
    draft.log.events_kept -= lost


def _densest(draft: Draft, length: int) -> int:
    """The begin of the time of this length in which most rows start; of several such times, the earliest."""
    columns = [draft.column(name, column) for name in draft.tables for column in ("start_ns", "time_ns")]
    starts = np.concatenate(columns)
    starts = starts[starts != NO_TIME]
    if not len(starts):
        return 0
    if starts.max() - starts.min() <= length:  # as in all good traces
        return int(starts.min())
    starts = np.sort(starts)
    rows = np.searchsorted(starts, starts + length, "right") - np.arange(len(starts))
    return int(starts[np.argmax(rows)])


def _forget(draft: Draft, limits: Possible) -> None:
    """Make sizes and numbers that cannot be unknown."""
    sizes = 0
    for columns in draft.tables.values():
        for column in _FROM_0 & columns.keys():
            columns[column] = np.where(columns[column] < 0, NO_ID, columns[column])
        if "size_bytes" in columns:
            wrong = (columns["size_bytes"] < NO_ID) | (columns["size_bytes"] > limits.largest_bytes)
            columns["size_bytes"] = np.where(wrong, NO_ID, columns["size_bytes"])
            sizes += int(wrong.sum())
    draft.log.warn("impossible-size", sizes, "copies or memsets with an impossible size; it is taken for unknown")
