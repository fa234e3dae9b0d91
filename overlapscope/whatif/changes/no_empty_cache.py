"""`torch.cuda.empty_cache()` is not called in the loop.

## What it changes
The frees that it makes are gone, with what they waited for, and so are as many allocations: the caching allocator would
still have that memory. Its frees are those inside the call, where a recording or Python stacks show it. Elsewhere they
are the frees outside of all operators, in a program whose operators allocate: the caching allocator frees its
memory by itself only where there is too little, inside the operator that allocates (PyTorch documentation, "Memory
management").

## What it assumes
The memory that stays in the cache fits beside everything else that needs the GPU's memory, such as other processes.

## When it misleads
A program that calls it because memory is fragmented may run out of memory without it; expandable segments
(`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`) help there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.measure.first_use import FirstUse
from overlapscope.measure.host_work import spans_on
from overlapscope.measure.places import innermost, named
from overlapscope.measure.spans import Spans, merge
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, HostEventKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.changes.no_host_work import without_host_work

_NAMES = re.compile(r"^<built-in (function|method) _cuda_emptyCache>|[/\\]cuda[/\\]memory\.py\(\d+\): empty_cache$")


@dataclass(frozen=True)
class NoEmptyCache(Change):
    """No call of ``empty_cache()`` in the loop."""

    name: ClassVar[str] = "no-empty-cache"
    of_findings_only: ClassVar[bool] = True
    condition: ClassVar[str] = "if the cached memory fits beside all else"
    only_removes: ClassVar[bool] = True
    changes_calls: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Take out what the calls take, and the allocations after them."""
        calls = editor.graph.calls
        gone = emptying(editor.trace) & where.calls
        editor.without_waits(np.flatnonzero(gone[calls.row]))
        without_host_work(editor, lambda *thread: _spans(editor.trace, *thread))
        if not gone.any():
            editor.assume("the trace shows no frees by empty_cache()")


def emptying(trace: Trace) -> Bool:
    """Which calls free what is cached, or allocate it again: of each process the last allocations, as many as frees."""
    calls = trace.api_calls
    result = np.zeros(len(calls), np.bool_)
    memory = np.isin(calls.kind, (ApiKind.DEVICE_ALLOC, ApiKind.DEVICE_FREE)) & (calls.parent == NO_ID)
    rows = np.flatnonzero(memory & ~FirstUse(trace).calls)
    inside = innermost(trace.cpu_ops, calls.process[rows], calls.thread[rows], calls.start_ns[rows]) != NO_ID
    free, within = calls.kind[rows] == ApiKind.DEVICE_FREE, _within(trace, rows)
    for process in np.unique(calls.process[rows]).tolist():
        here = calls.process[rows] == process
        allocations = rows[here & ~free & inside]
        frees = rows[here & free & (within if within[here].any() else ~inside)]
        if len(allocations):
            result[frees] = True
            result[allocations[-len(frees) :] if len(frees) else frees] = True
    return result


def _within(trace: Trace, rows: Int64) -> Bool:
    """Which calls are inside a recorded call of ``empty_cache()``."""
    calls, result = trace.api_calls, np.zeros(len(rows), np.bool_)
    for table, mask in ((trace.host_events, _events(trace)), (trace.frames, named(trace.frames, _NAMES))):
        place = calls.process[rows], calls.thread[rows], calls.start_ns[rows]
        result |= innermost(table.take(np.flatnonzero(mask)), *place) != NO_ID
    return result


def _events(trace: Trace) -> Bool:
    result: Bool = trace.host_events.kind == HostEventKind.EMPTY_CACHE
    return result


def _spans(trace: Trace, process: int, thread: int) -> Spans:
    return merge(
        spans_on(trace.host_events, process, thread, _events(trace)),
        spans_on(trace.frames, process, thread, named(trace.frames, _NAMES)),
    )
