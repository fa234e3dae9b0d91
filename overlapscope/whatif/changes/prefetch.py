"""Copies to the GPU are issued some steps earlier, on a stream of their own, and not waited for.

## What it changes
A step is what lies between two groups of copy calls on a thread with a launch between them. Each copy is issued by the
call of the group that lies that many steps before. What a copy waited for by an event, it waits for as many steps
earlier: the buffers go round. A thread that synchronises with the GPU after they were issued waits for them too.

## What it assumes
The data is there that much earlier, and there is memory for the buffers. Pageable copies stay: pin them first. So do
copies of host tensors into which the GPU copies before, where the recording knows that: issued earlier, they would send
what was there before (OVL101).

## When it misleads
A loader that is slower than the GPU cannot be ahead of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import counted
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import at, each_value, first_from
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LAUNCHES, ApiKind, Direction, MemoryKind
from overlapscope.whatif.change import Editor, Where
from overlapscope.whatif.changes.non_blocking import NonBlocking
from overlapscope.whatif.changes.side_stream import SideStream
from overlapscope.whatif.host_memory import downloaded

_EVENTS = (DependencyKind.EVENT, DependencyKind.OTHER_DEVICE)


@dataclass(frozen=True)
class Prefetch(SideStream):
    """Copies to the GPU are issued ``steps`` steps ahead."""

    name: ClassVar[str] = "prefetch"
    condition: ClassVar[str] = "if the data of copies is ready that much earlier"
    of_findings_only: ClassVar[bool] = True
    option: ClassVar[str | None] = "steps"
    says_where_to: ClassVar[bool] = False
    steps: float = 1.0

    def __post_init__(self) -> None:
        """Raise `ChangeNotUnderstood` for a number of steps that makes no sense."""
        super().__post_init__()
        if not np.isfinite(self.steps) or self.steps < 1 or self.steps != int(self.steps):
            raise ChangeNotUnderstood("prefetch needs a number, such as prefetch=1")

    def apply(self, editor: Editor, where: Where) -> None:
        """Let copies be issued by the calls of earlier ones."""
        wanted = where.copies & (editor.trace.copies.direction == Direction.HTOD)
        pageable = wanted & (host_kind(editor.trace.copies) == MemoryKind.PAGEABLE)
        if pageable.any():
            editor.assume(f"{int(pageable.sum())} pageable copies stay where they are: pin them first")
        came_back = downloaded(editor.graph)
        if (wanted & came_back).any():
            editor.assume(f"{int((wanted & came_back).sum())} copies of what comes from the GPU first are not earlier")
        up = replace(where, copies=wanted & ~pageable & ~came_back)
        NonBlocking().apply(editor, up)
        super().apply(editor, up)
        graph = editor.graph
        copies = up.work(graph)
        copies = copies[graph.work.call[copies] != NO_ID]
        earlier = _copy_steps_earlier(graph, copies, round(self.steps))
        editor.issue(copies, graph.call_start(graph.work.call[earlier]))
        copies, earlier = copies[earlier != copies], earlier[earlier != copies]
        if len(copies):
            sent, steps = counted(len(copies), "copy", "copies"), counted(round(self.steps), "step")
            editor.grant(f"the data of {sent} to the GPU is ready {steps} earlier, and there are buffers for it")
        _wait_earlier(editor, copies, earlier)
        _synchronised_too(editor, copies, earlier)
        call = editor.trace.copies.call.copy()
        call[graph.work.row[copies]] = graph.calls.row[graph.work.call[earlier]]
        editor.set_copies(call=call)


def _wait_earlier(editor: Editor, copies: Int64, earlier: Int64) -> None:
    """The events that ``earlier`` copies wait for are what ``copies`` wait for, instead of their own."""
    graph, edges = editor.graph, editor.dependencies
    events = edges.take(edges.of_kind(*_EVENTS))
    events = events.take(np.argsort(events.target, kind="stable"))
    first, last = (np.searchsorted(events.target, graph.work_start(earlier), side) for side in ("left", "right"))
    member, edge = each_of(first, last)
    start, weight = graph.work_start(copies[member]), events.weight_ns[edge]
    editor.remove(edges.of_kind(*_EVENTS) & np.isin(edges.target, graph.work_start(copies)))
    editor.add(Dependencies.of(events.source[edge], start, weight, DependencyKind.EVENT))


def _synchronised_too(editor: Editor, copies: Int64, earlier: Int64) -> None:
    """The next call of their thread that waits for the GPU waits for copies that were issued early too."""
    graph, calls = editor.graph, editor.graph.calls
    call = graph.work.call[earlier]
    syncs = np.flatnonzero(calls.kind == ApiKind.DEVICE_SYNC)
    sync = first_from(syncs, syncs, call, "right")
    sync = np.where(at(calls.owner, sync) == calls.owner[call], sync, NO_ID)
    waits = Dependencies.of(graph.work_end(copies), graph.call_end(sync), 0, DependencyKind.SYNCHRONISATION)
    # In a trace out of order, a copy may wait for what follows the synchronisation.
    if len(waits) and not has_cycle(graph.with_dependencies(editor.dependencies, waits)):
        editor.add(waits)


def _copy_steps_earlier(graph: Graph, copies: Int64, steps: int) -> Int64:
    """For each copy the first one of the group that lies this many steps before its own, at least the first group's."""
    call = graph.work.call[copies]
    group = np.cumsum(np.isin(graph.calls.kind, LAUNCHES))[call]
    result = copies.copy()
    for _, rows in each_value(graph.calls.owner[call]):
        order = rows[np.argsort(call[rows], kind="stable")]
        _, first, number = np.unique(group[order], return_index=True, return_inverse=True)
        leader = copies[order[first]]
        result[order] = leader[np.maximum(number - steps, 0)]
    return result
