"""Pageable memory is pinned ahead of time: copies run at the pinned bandwidth and their calls return at once.

## What it changes
The host side of the copies is page-locked. The call takes as long as a plain enqueue, the copy as long as a pinned one
of its size: by the trace's own pinned copies, else its calibration, else the link of the GPU. What the host does next
is as fast as usual where the calibration knows by how much staging had slowed it. Calls that block by name still wait.

Batches of a DataLoader are pinned by its thread, one by one: they come no faster than that, at 4.8 GB/s, and the batch
that the loop waits for comes as much later.

## What it assumes
Other memory is pinned once, ahead of time: that is not in the prediction. What comes to the host is waited for before
it is read, and what goes to the GPU before an operator overwrites it, where the recording knows who does; elsewhere
the prediction says what the host must not do early. Batches are what is copied between `next()` and the first kernel.

## When it misleads
Memory that is pinned anew in every step costs as much as staging, or more. So does a loader whose workers are slow: its
thread that pins takes memory bandwidth from them. In a trace without the range that torch's profiler makes around
`next()`, such as one of Nsight Systems, no batches of a loader are seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.formatting import counted
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at
from overlapscope.measure.launches import launch_slack_ns
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import blocking_by_name, enqueue_ns
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.changes.non_blocking import NonBlocking
from overlapscope.whatif.copy_speeds import pinned_speed
from overlapscope.whatif.host_memory import keep_waits_of_readers
from overlapscope.whatif.pinning import charge_loader, without_slowdown


@dataclass(frozen=True)
class Pin(Change):
    """Pageable memory is pinned ahead of time."""

    name: ClassVar[str] = "pin"
    condition: ClassVar[str] = "if host memory is pinned once and reused"
    form_of: ClassVar[str] = "pinned memory"
    needs_order: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True

    def may_bring(self, trace: Trace) -> tuple[Change, ...]:
        """The changes that pinning may bring: where one switch pins results, copies often become asynchronous."""
        pageable = self.concerns(trace).copies & (host_kind(trace.copies) == MemoryKind.PAGEABLE)
        down = np.flatnonzero(pageable & (trace.copies.direction == Direction.DTOH))
        return (NonBlocking(copies=tuple(down.tolist())),) if len(down) else ()

    def apply(self, editor: Editor, where: Where) -> None:
        """Make the copies pinned."""
        before = editor.graph
        pageable = where.copies & (host_kind(editor.trace.copies) == MemoryKind.PAGEABLE)
        sent = before.work_of_rows(pageable)
        without_slowdown(editor, sent)
        _shorten(editor, sent)
        charge_loader(editor, sent)
        graph, calls = editor.graph, np.setdiff1d(before.work.call[sent], NO_ID)
        editor.limit_weights(graph.into(graph.call_end(calls), *OWN_DURATION), enqueue_ns(before))
        edges = editor.dependencies
        into = np.isin(edges.target, graph.work_start(sent))
        editor.limit_weights(into & edges.of_kind(DependencyKind.LAUNCH), launch_slack_ns(before.trace))
        gone = np.isin(edges.target, graph.call_end(calls)) & edges.of_kind(DependencyKind.STAGING)
        editor.remove(gone | (into & edges.of_kind(DependencyKind.NOT_RECORDED)))  # it was staging
        kinds = (editor.trace.copies.source_kind, editor.trace.copies.target_kind)
        source, target = (np.where(pageable & (kind == MemoryKind.PAGEABLE), MemoryKind.PINNED, kind) for kind in kinds)
        editor.set_copies(source_kind=source, target_kind=target)
        _still_block(editor, sent)
        down = graph.work.engine[sent] == Direction.DTOH
        keep_waits_of_readers(editor, before, sent[down])


def _still_block(editor: Editor, sent: Int64) -> None:
    """Calls that block by name wait for pinned copies too; one that returned before its copy ended did not block."""
    graph, call = editor.graph, editor.graph.work.call[sent]
    blocked = (graph.work.end_ns[sent] <= at(graph.calls.end_ns, call, 0)) & np.isin(call, blocking_by_name(graph))
    source, target = graph.work_end(sent[blocked]), graph.call_end(call[blocked])
    editor.add(Dependencies.of(source, target, 0, DependencyKind.STAGING))


def _shorten(editor: Editor, sent: Int64) -> None:
    """Let copies take as long as they would pinned, and note what that is known from."""
    graph, row = editor.graph, editor.graph.work.row[sent]
    every = editor.trace.copies.size_bytes[row]
    for direction in (Direction.HTOD, Direction.DTOH):
        of_direction = editor.trace.copies.direction[row] == direction
        if unsized := int((every[of_direction] < 0).sum()):
            copies = counted(unsized, "copy", "copies")
            editor.assume(f"{direction.label}: {copies} without a size: no other duration is known")
        sized = of_direction & (every >= 0)
        if not sized.any():
            continue
        speed = pinned_speed(graph.trace, direction, every[sized])
        if speed is None:
            editor.assume(f"{direction.label}: no pinned bandwidth is known, so copies keep their duration")
        else:
            editor.limit_weights(graph.runs(sent[sized]), speed.copy_time_ns(every[sized]))
            editor.assume(f"{direction.label}: {speed.known_from}")
