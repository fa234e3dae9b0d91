"""Loops of reads: a thread reads one value after another, and launches so little between that the GPU runs dry.

After a read nothing is queued: the thread waited for all of it. Whatever it launches then comes late, until it is ahead
of the GPU again; the next read comes before. So all launches between two reads of a loop are late because of the reads.
Neither `torch.compile` nor a CUDA graph takes in more than one stretch between two reads: a value that the host needs
breaks the graph (PyTorch documentation, torch.compile, "Common Graph Breaks", "Data-dependent operations"; CUDA
semantics, "CUDA Graphs", "Constraints").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import (
    NEVER,
    any_between,
    at,
    each_value,
    last_before,
    neighbours,
    once_for_each,
    rows_by_thread,
)
from overlapscope.measure.places import is_step
from overlapscope.measure.ranges import filling_range
from overlapscope.measure.spans import covered, spans_of
from overlapscope.measure.waits import copies_synchronised, first_copy_of
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64
from overlapscope.model.enums import LAUNCHES, LINK, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import scalar_reads

_LEAST_READS = 8
"""Reads in a row from which they are a loop. A step reads a few values by itself: its loss, a norm, a scale."""
_MOST_LAUNCHES = 128
"""Launches between two reads of a loop, at most.

A choice between the launches of a block of a model and of a step: a read in each block is in a loop, and a read in
each step is not.
"""
_LARGE_BYTES = 2**20
"""Copies over the link from this size on are no part of a loop of reads: they reach the bandwidth of the link."""
_LEAST_IDLE_SHARE = 0.5
"""No kernel runs for at least this share of a loop's time. A choice: else kernels take most of the time, not reads."""


@dataclass(frozen=True, eq=False)
class ReadLoops(Columnar):
    """The stretches of all loops of reads, by thread and time: each from the end of one read to the end of the next.

    ``copy`` is the row in copies of the read that begins the stretch, ``call`` the row in api_calls of the call that
    waited for it, ``following`` the copy of the read that ends it, ``loop`` the number of the loop.
    """

    process: Int64
    thread: Int64
    begin_ns: Int64
    until_ns: Int64
    copy: Int64
    following: Int64
    call: Int64
    loop: Int64

    @classmethod
    def of(cls, trace: Trace) -> ReadLoops:
        """The loops of reads of a trace."""
        return _loops_of(trace)

    def with_last(self, copies: Int64) -> Int64:
        """Some copies, with the reads that follow them in their loops: the last read of a loop begins no stretch."""
        return np.union1d(copies, self.following[np.isin(self.copy, copies)])

    def around(self, process: Int64, thread: Int64, moment_ns: Int64) -> Int64:
        """The stretch in which each of some moments of threads lies; `NO_ID` where it lies in none."""
        result, of_thread = np.full(len(moment_ns), NO_ID, np.int64), rows_by_thread(self.process, self.thread)
        for place, asked in rows_by_thread(process, thread).items():
            rows = of_thread.get(place, asked[:0])
            stretch = last_before(rows, self.begin_ns[rows], moment_ns[asked], "right")
            result[asked] = np.where(moment_ns[asked] < np.append(self.until_ns, 0)[stretch], stretch, NO_ID)
        return result


@once_for_each
def _loops_of(trace: Trace) -> ReadLoops:
    reads, waited = _awaited_reads(trace)
    calls = trace.api_calls
    process, thread, begin = calls.process[waited], calls.thread[waited], calls.end_ns[waited]
    one, other = neighbours(np.arange(len(reads)), process, thread)
    if len(one) < _LEAST_READS - 1:
        return ReadLoops.none()
    begin, until, process, thread = begin[one], begin[other], process[one], thread[one]
    goes_on = _few_launches(trace, process, begin, until) & ~_begins_step(trace, process, begin, until)
    goes_on &= ~_copies_much(trace, process, begin, until)
    follows = np.append(False, goes_on[1:] & goes_on[:-1] & (one[1:] == other[:-1]))
    loop = np.cumsum(~follows) - 1
    busy, length = np.bincount(loop, _busy_ns(trace, process, begin, until)), np.bincount(loop, until - begin)
    dry = (np.bincount(loop) >= _LEAST_READS - 1) & (busy <= (1 - _LEAST_IDLE_SHARE) * length)
    stretches = ReadLoops(process, thread, begin, until, reads[one], reads[other], waited[one], loop)
    return stretches.take(goes_on & dry[loop])


def _awaited_reads(trace: Trace) -> tuple[Int64, Int64]:
    """The copies of single values that their thread waited for, by thread and time, and the call in which it did."""
    calls, copies = trace.api_calls, trace.copies
    wait = np.full(len(copies) + 1, NO_ID, np.int64)
    staged = host_kind(copies) == MemoryKind.PAGEABLE
    wait[:-1][staged] = copies.call[staged]
    before, after = copies_synchronised(trace)
    wait[first_copy_of(trace)[before]] = after
    reads = np.flatnonzero(scalar_reads(trace) & (wait[:-1] != NO_ID))
    waited = wait[reads]
    order = np.lexsort((calls.end_ns[waited], calls.thread[waited], calls.process[waited]))
    return reads[order], waited[order]


def _few_launches(trace: Trace, process: Int64, begin: Int64, until: Int64) -> Bool:
    """In which stretches a process launches little."""
    calls, result = trace.api_calls, np.zeros(len(begin), np.bool_)
    launching = np.isin(calls.kind, LAUNCHES)
    for number, here in each_value(process):
        launches = np.sort(calls.start_ns[launching & (calls.process == number)])
        first, last = (np.searchsorted(launches, edge[here]) for edge in (begin, until))
        result[here] = last - first <= _MOST_LAUNCHES
    return result


def _busy_ns(trace: Trace, process: Int64, begin: Int64, until: Int64) -> Int64:
    """For how long kernels of its process run in each stretch, in ns."""
    kernels, result = trace.kernels, np.zeros(len(begin), np.int64)
    for number, here in each_value(process):
        result[here] = covered(begin[here], until[here], spans_of(kernels, kernels.process == number))
    return result


def _copies_much(trace: Trace, process: Int64, begin: Int64, until: Int64) -> Bool:
    """In which stretches a process issues a large copy over the link."""
    copies, issued = trace.copies, at(trace.api_calls.start_ns, trace.copies.call, NEVER)
    large = (copies.size_bytes >= _LARGE_BYTES) & np.isin(copies.direction, LINK)
    return any_between(issued[large], copies.process[large], process, begin, until)


def _begins_step(trace: Trace, process: Int64, begin: Int64, until: Int64) -> Bool:
    """In which stretches a step of the program begins, as far as the trace names steps."""
    ranges, wanted = trace.ranges, is_step(trace)
    if wanted.sum() < 2:  # noqa: PLR2004 - one step is the whole recording
        name, _ = filling_range(trace)
        wanted = np.isin(ranges.name_id, trace.names.find(name)) if name else wanted
    rows = np.flatnonzero(wanted)
    return any_between(ranges.start_ns[rows], ranges.process[rows], process, begin, until)
