"""The kinds of work that keep a host thread from launching, and when each thread did which.

What recorded it: events and samples of a recording, calls of the operating system in Nsight Systems, Python frames and
ranges of torch.profiler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from overlapscope.measure.grouping import rows_by_thread
from overlapscope.measure.places import named
from overlapscope.measure.spans import EMPTY, Spans, meeting, merge, union
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import HostEventKind
from overlapscope.model.tables import HostWork, Samples
from overlapscope.model.trace import Trace


class HostWorkKind(StrEnum):
    """Kind of work of a host thread outside of CUDA calls; of several at once the first one counts."""

    GC = "gc"
    LOADING = "loading"
    LOGGING = "logging"
    SLEEP = "sleep"
    FILE = "file"
    LOCK = "lock"
    OTHER = "other"
    UNRECORDED = "unrecorded"


_EVENTS = {
    HostWorkKind.GC: (HostEventKind.GC,),
    HostWorkKind.LOADING: (HostEventKind.ITEM, HostEventKind.COLLATE, HostEventKind.TRANSFER, HostEventKind.PIN),
    HostWorkKind.LOGGING: (HostEventKind.LOG,),
    HostWorkKind.SLEEP: (HostEventKind.SLEEP,),
    HostWorkKind.FILE: (HostEventKind.FILE, HostEventKind.SAVE, HostEventKind.LOAD),
}
_BUILT_IN = r"^<built-in (?:function|method) "
_NAMES = {
    HostWorkKind.GC: re.compile(_BUILT_IN + "collect>"),
    HostWorkKind.LOADING: re.compile(
        r"^enumerate\(DataLoader\)"  # PyTorch's own range around the next batch
        r"|(^|[/\\])torch[/\\]utils[/\\]data[/\\].*: (__next__|__iter__|_next_data)$"
    ),
    HostWorkKind.LOGGING: re.compile(
        rf"{_BUILT_IN}print>"
        r"|(^|[/\\])logging[/\\]__init__\.py\(\d+\): (debug|info|warning|error|critical|exception|log)$"
    ),
    HostWorkKind.SLEEP: re.compile(_BUILT_IN + "sleep>"),
    HostWorkKind.FILE: re.compile(
        rf"{_BUILT_IN}(open|fsync)>|{_BUILT_IN}(read\w*|write\w*|flush|close) of _io\."
        r"|(^|[/\\])torch[/\\]serialization\.py\(\d+\): (save|load)$"
    ),
}
"""Names of Python frames, as torch.profiler writes them, and of ranges and operators, by their kind."""
_STACKS = {
    HostWorkKind.LOADING: re.compile(r"\b(__next__|__iter__|_next_data) \(torch/utils/data/"),
    HostWorkKind.LOGGING: re.compile(r"\b(debug|info|warning|error|critical|exception|log) \(logging/__init__\.py:"),
    HostWorkKind.FILE: re.compile(r"\b(save|load) \(torch/serialization\.py:"),
}
"""Functions that, anywhere in the stack of a sample, tell its kind."""
_WAITING = re.compile(
    r" \((threading|queue|selectors|subprocess|socket|ssl)\.py:\d+\)$"
    r"| \((asyncio|concurrent/futures|multiprocessing)/.*:\d+\)$"
    r"|\b_engine_run_backward \(torch/autograd/"
)
"""Innermost functions of samples in which a thread waits for another one's work, whoever holds the interpreter."""
_RUNNING_SHARE = 0.5
"""A thread runs during its samples where it had the processor for this share of them, and does not run below: only one
thread of a process runs Python at a time (Python documentation, "global interpreter lock"), so that of two threads with
Python to run one at most has more than half."""


@dataclass(frozen=True, eq=False)
class HostWorkTimes:
    """When each thread of a trace did which kind of work."""

    trace: Trace

    def of(self, kind: HostWorkKind, process: int, thread: int) -> Spans:
        """The time in which a thread did work of a kind that is known by its name, its event or its samples."""
        return merge(*(spans_on(table, process, thread, rows) for table, rows in self.rows[kind]))

    def recorded(self, process: int, thread: int) -> Spans:
        """The time in which anything is recorded of a thread beside its CUDA calls."""
        trace = self.trace
        tables = (trace.cpu_ops, trace.frames, trace.ranges, trace.modules, trace.samples, trace.host_events)
        return merge(*(spans_on(table, process, thread) for table in tables))

    @cached_property
    def rows(self) -> dict[HostWorkKind, list[tuple[HostWork, Bool]]]:
        """The rows of tables that tell each kind."""
        trace = self.trace
        rows: dict[HostWorkKind, list[tuple[HostWork, Bool]]] = {kind: [] for kind in HostWorkKind}
        for kind, pattern in _NAMES.items():
            tables = (trace.cpu_ops, trace.ranges, trace.frames)
            rows[kind] += [(table, named(table, pattern)) for table in tables]
        for kind, kinds in _EVENTS.items():
            rows[kind].append((trace.host_events, np.isin(trace.host_events.kind, kinds)))
        for kind, pattern in _STACKS.items():
            if any(mask.any() for _, mask in rows[kind]):
                continue  # these have their ends, samples some moments of them
            rows[kind].append((trace.samples, found(trace, trace.samples.stack_id, pattern)))
        rows[HostWorkKind.LOCK].append((trace.samples, self.holders != NO_ID))
        return rows

    @cached_property
    def holders(self) -> Int64:
        """For each row of samples that waited for the interpreter lock, the row of the thread that ran; else `NO_ID`.

        The thread had no processor, and others of its process ran Python meanwhile; of several the one that ran most.
        """
        samples = self.trace.samples
        length = np.maximum(samples.duration_ns, 1)
        ran = np.where(samples.cpu_ns == NO_ID, -1.0, samples.cpu_ns / length)
        waits = (ran >= 0) & (ran < _RUNNING_SHARE) & ~found(self.trace, samples.name_id, _WAITING)
        held, most, longest = np.zeros(len(samples)), np.zeros(len(samples)), np.full(len(samples), NO_ID, np.int64)
        threads = rows_by_thread(samples.process, samples.thread)
        for place, rows in threads.items():
            waiting = rows[waits[rows]]
            for beside, others in threads.items():
                if beside[0] != place[0] or beside == place:
                    continue
                one, other = _meeting(samples, waiting, others)
                both = np.minimum(samples.end_ns[one], samples.end_ns[other])
                both -= np.maximum(samples.start_ns[one], samples.start_ns[other])
                busy = np.maximum(ran[other], 0) * both
                held += np.bincount(one, busy, len(samples))
                order = np.argsort(busy, kind="stable")
                one, other, busy = one[order], other[order], busy[order]
                more = busy > most[one]
                most[one[more]], longest[one[more]] = busy[more], other[more]
        return np.where(held >= _RUNNING_SHARE * length, longest, NO_ID)


def _meeting(samples: Samples, one: Int64, other: Int64) -> tuple[Int64, Int64]:
    """Every pair of some samples and some others that share time."""
    times = (column[rows] for rows in (one, other) for column in (samples.start_ns, samples.end_ns))
    which, place = meeting(*times)
    return one[which], other[place]


def spans_on(table: HostWork, process: int, thread: int, mask: Bool | None = None) -> Spans:
    """The time that some rows of a table cover on a thread."""
    here = (table.process == process) & (table.thread == thread)
    here = here if mask is None else here & mask
    return union(table.start_ns[here], table.end_ns[here]) if here.any() else EMPTY


def found(trace: Trace, numbers: Int32, pattern: re.Pattern[str]) -> Bool:
    """Which numbers of names are of a text in which a pattern is found."""
    return np.isin(numbers, [number for number in np.unique(numbers).tolist() if pattern.search(trace.names[number])])
