"""The program does not synchronise with the GPU where it reads nothing from it afterwards.

## What it changes
Calls of `cudaDeviceSynchronize`, `cudaStreamSynchronize` and `cudaEventSynchronize` wait for nothing and take no time.
The last one of a process stays, and so does one after a copy between host and GPU that was not complete when its call
returned: the host may read what came, or write where it was.

## What it assumes
The host neither reads nor writes what kernels use, as it can with mapped memory, and measures no time with these calls.
Where a process has several streams, or managed memory, a synchronisation may keep its work in order: there all stay.

## When it misleads
A library or another process, such as one that receives by MPI, may use the results of kernels right after the call.
A trace does not show that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.grouping import each_value
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import LINK, SYNC_CALLS, Direction, MemoryKind
from overlapscope.whatif.change import Change, Editor, Where

_GRANTED = "the host does not use what kernels read and write right after the synchronisations that are removed"


@dataclass(frozen=True)
class NoDeviceSync(Change):
    """No synchronisation where the host reads nothing afterwards."""

    name: ClassVar[str] = "no-device-sync"
    condition: ClassVar[str] = "if nothing outside the trace needs the synchronisations"
    needs_order: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True
    changes_calls: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Take the calls out that nothing in the trace needs."""
        calls = editor.graph.calls
        wanted = np.isin(calls.kind, SYNC_CALLS) & where.calls[calls.row]
        gone = wanted & ~may_be_needed(editor.graph)
        editor.without_waits(np.flatnonzero(gone))
        if gone.any():
            editor.grant(_GRANTED)
        if (wanted & ~gone).any():
            editor.assume(f"{int((wanted & ~gone).sum())} of {int(wanted.sum())} synchronisations stay")


def may_be_needed(graph: Graph) -> Bool:
    """Which calls are synchronisations that have to stay, as far as the trace shows."""
    calls = graph.calls
    needed = np.zeros(len(calls), np.bool_)
    pending = _pending(graph)
    every = np.flatnonzero(np.isin(calls.kind, SYNC_CALLS))
    for process, rows in each_value(calls.process[every]):
        syncs = every[rows]
        if not _in_order_by_itself(graph, process):
            needed[syncs] = True
            continue
        syncs = syncs[np.argsort(calls.start_ns[syncs], kind="stable")]
        issued_ns = np.sort(calls.start_ns[pending[calls.process[pending] == process]])
        needed[syncs] = np.diff(np.searchsorted(issued_ns, calls.start_ns[syncs]), prepend=0) > 0
        needed[syncs[-1]] = True
    return needed


def _in_order_by_itself(graph: Graph, process: int) -> bool:
    """Whether all work of a process is on one stream of one GPU, and none moves managed memory."""
    copies = graph.trace.copies
    streams = [stream for stream in graph.streams if stream[0] == process]
    managed = (copies.process == process) & ~np.isin(copies.direction, (*LINK, Direction.DTOD, Direction.PTOP))
    return len(streams) == 1 and not managed.any()


def _pending(graph: Graph) -> Int64:
    """Calls that returned before their copy between host and GPU was complete, and not just staged."""
    work, copies = graph.work, graph.trace.copies
    rows = np.flatnonzero((work.engine > 0) & (work.call != NO_ID))
    copy, call = work.row[rows], work.call[rows]
    staged = (copies.direction[copy] == Direction.HTOD) & (copies.source_kind[copy] == MemoryKind.PAGEABLE)
    late = ~staged & (work.end_ns[rows] > graph.calls.end_ns[call])
    return np.unique(call[late])
