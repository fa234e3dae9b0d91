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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import counted
from overlapscope.measure.copies import host_kind
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LAUNCHES, ApiKind, Direction, MemoryKind
from overlapscope.whatif.changes.non_blocking import NonBlocking
from overlapscope.whatif.changes.side_stream import SideStream
from overlapscope.whatif.editor import Editor, Where
from overlapscope.whatif.host_buffers import downloaded

_EVENTS = (DependencyKind.EVENT, DependencyKind.OTHER_DEVICE)


@dataclass(frozen=True)
class Prefetch(SideStream):
    """Copies to the GPU are issued ``steps`` steps ahead."""

    name: ClassVar[str] = "prefetch"
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
        up = where.but(wanted & ~pageable & ~came_back)
        NonBlocking().apply(editor, up)
        super().apply(editor, up)
        graph = editor.graph
        some = up.work(graph)
        some = some[graph.work.call[some] != NO_ID]
        earlier = _same_copy_earlier(graph, some, round(self.steps))
        issue = graph.into(graph.work_start(some), DependencyKind.LAUNCH)
        launched = issue != NO_ID
        editor.set_sources(issue[launched], graph.call_start(graph.work.call[earlier[launched]]))
        other = earlier != some
        if other.any():
            sent, steps = counted(int(other.sum()), "copy", "copies"), counted(round(self.steps), "step")
            editor.grant(f"the data of {sent} to the GPU is ready {steps} earlier, and there are buffers for it")
        _wait_earlier(editor, some[other], earlier[other])
        _synchronised_too(editor, some[other], earlier[other])
        call = editor.trace.copies.call.copy()
        call[graph.work.row[some[other]]] = graph.calls.row[graph.work.call[earlier[other]]]
        editor.set_copies(call=call)


def _wait_earlier(editor: Editor, some: Int64, earlier: Int64) -> None:
    """The events that ``earlier`` copies wait for are what ``some`` wait for, instead of their own."""
    graph = editor.graph
    events = editor.dependencies.take(editor.dependencies.of_kind(*_EVENTS))
    events = events.take(np.argsort(events.target, kind="stable"))
    first, last = (np.searchsorted(events.target, graph.work_start(earlier), side) for side in ("left", "right"))
    member, edge = each_of(first, last)
    waits = Dependencies.of(
        events.source[edge], graph.work_start(some[member]), events.weight_ns[edge], DependencyKind.EVENT
    )
    editor.remove(editor.dependencies.of_kind(*_EVENTS) & np.isin(editor.dependencies.target, graph.work_start(some)))
    editor.add(waits)


def _synchronised_too(editor: Editor, some: Int64, earlier: Int64) -> None:
    """The next call of their thread that waits for the GPU waits for copies that were issued early too."""
    graph, calls = editor.graph, editor.graph.calls
    call = graph.work.call[earlier]
    syncs = np.flatnonzero(calls.kind == ApiKind.DEVICE_SYNC)
    found = np.append(syncs, NO_ID)[np.searchsorted(syncs, call, "right")]
    found = np.where((found != NO_ID) & (np.append(calls.owner, NO_ID)[found] == calls.owner[call]), found, NO_ID)
    waits = Dependencies.of(graph.work_end(some), graph.call_end(found), 0, DependencyKind.SYNCHRONISATION)
    # In a trace out of order, a copy may wait for what follows the synchronisation.
    if len(waits) and not has_cycle(graph.with_dependencies(editor.dependencies, waits)):
        editor.add(waits)


def _same_copy_earlier(graph: Graph, some: Int64, steps: int) -> Int64:
    """For each copy the first one of the group that lies this many steps before its own, at least the first group's."""
    call = graph.work.call[some]
    group = np.cumsum(np.isin(graph.calls.kind, LAUNCHES))[call]
    owner, result = graph.calls.owner[call], some.copy()
    for thread in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == thread)
        order = mine[np.argsort(call[mine], kind="stable")]
        _, first, number = np.unique(group[order], return_index=True, return_inverse=True)
        leader = some[order[first]]
        result[order] = leader[np.maximum(number - steps, 0)]
    return result
