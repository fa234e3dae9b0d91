"""Small copies are issued before the longer copies that they are queued behind.

## What it changes
A copy goes before the first of the copies in its direction that its thread issued since it last synchronised and that
take ten times as long: it may start when that one is issued, and that one waits for it.

## What it assumes
The data of the small copy is ready when the longer ones are issued, since its thread waited for nothing between. Where
the recording knows that an operator or a copy to the host fills it later, the copy stays.

## When it misleads
Host work between the two may have made that data. Work that reads the longer copies too waits for them anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.formatting import counted
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import SYNC_CALLS
from overlapscope.ordering.accesses import filled_ns
from overlapscope.whatif.change import Change
from overlapscope.whatif.editor import Editor, Where

_MOVED = "the other changes put these copies in another order, which stays"
_NONE = "no copy is queued behind longer ones that its thread issued since it last synchronised"
_LATE = "of host tensors that are filled only after that stay where they are"
_READY = "what the copies send is ready when the longer copies before them are issued"


@dataclass(frozen=True)
class CopyFirst(Change):
    """Small copies first."""

    name: ClassVar[str] = "copy-first"
    needs_order: ClassVar[bool] = True
    of_findings_calls: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Let each start when the first of those in front is issued, and these after it."""
        graph = editor.graph
        small = where.work(graph)
        small = small[(graph.work.engine[small] > 0) & (graph.work.call[small] != NO_ID)]
        front = _first_in_front(graph, small, editor.config.dependencies.stuck_share)
        small, front = small[front != NO_ID], front[front != NO_ID]
        late = filled_ns(graph)[small] > graph.calls.start_ns[graph.work.call[front]]
        editor.assume(*[f"{counted(int(late.sum()), 'copy', 'copies')} {_LATE}"] * bool(late.any()))
        small, front = small[~late], front[~late]
        if not len(small):
            editor.assume(*[_NONE] * (not late.any()))
            return
        launch = graph.into(graph.work_start(small), DependencyKind.LAUNCH)
        known = launch != NO_ID
        editor.set_sources(launch[known], graph.call_start(graph.work.call[front[known]]))
        copies, every = np.flatnonzero(graph.work.engine > 0), np.arange(len(graph.work))
        _requeue(editor, _Move(graph, graph.work.engine, copies, small, front), DependencyKind.COPY_ENGINE)
        _requeue(editor, _Move(graph, graph.work.stream, every, small, front), DependencyKind.STREAM_ORDER)
        if has_cycle(editor.graph):
            editor.graph = graph
            editor.assume(_MOVED)
        else:
            editor.grant(_READY)


def _first_in_front(graph: Graph, small: Int64, share: float) -> Int64:
    """Of the longer copies in front of each that its thread issued since it last synchronised the first, or `NO_ID`.

    Each takes less than a share of these.
    """
    calls, work = graph.calls, graph.work
    starts = np.isin(calls.kind, SYNC_CALLS)
    starts[calls.first] = True
    since = np.maximum.accumulate(np.where(starts, np.arange(len(calls)), 0))
    others = np.flatnonzero((work.engine > 0) & (work.call != NO_ID))
    others = others[np.argsort(work.call[others], kind="stable")]
    first, past = (np.searchsorted(work.call[others], each) for each in (since[work.call[small]], work.call[small]))
    complete = np.maximum.accumulate(work.end_ns[others])
    first = np.maximum(first, np.searchsorted(complete, calls.start_ns[work.call[small]], "right"))
    which, place = each_of(first, past)
    one, other = small[which], others[place]
    ahead = (work.engine[other] == work.engine[one]) & (work.device[other] == work.device[one])
    ahead &= (work.start_ns[other] < work.start_ns[one]) & (work.end_ns[other] > calls.start_ns[work.call[one]])
    ahead &= work.end_ns[one] - work.start_ns[one] < share * (work.end_ns[other] - work.start_ns[other])
    result = np.full(len(small), NO_ID, np.int64)
    result[which[ahead][::-1]] = other[ahead][::-1]  # the first one is written last
    return result


@dataclass(frozen=True, eq=False)
class _Move:
    """Queues of work with the same key on a device, in which some ops move before others."""

    graph: Graph
    key: Int64
    queued: Int64
    small: Int64
    front: Int64

    def before(self, *, moved: bool) -> Int64:
        """For each op the one before it in its queue; `NO_ID` for the first ones."""
        work, position = self.graph.work, 2 * np.arange(len(self.graph.work)) + 1
        if moved:
            here = self.key[self.small] == self.key[self.front]
            position[self.small[here]] = 2 * self.front[here]
        places = tuple(values[self.queued] for values in (position, self.key, work.device, work.process))
        order = self.queued[np.lexsort(places)]
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for values in (self.key, work.device, work.process):
            same &= values[order[1:]] == values[order[:-1]]
        result = np.full(len(work), NO_ID, np.int64)
        result[order[1:][same]] = order[:-1][same]
        return result


def _requeue(editor: Editor, move: _Move, kind: DependencyKind) -> None:
    """Let the ops that have another one before them in their queue wait for that one."""
    graph, edges, follow_ns = editor.graph, editor.dependencies, editor.config.dependencies.follow_ns
    front = np.full(len(graph.work) + 1, len(graph.work))
    front[move.small] = move.front
    source, target = np.maximum(graph.work_of(edges.source), NO_ID), np.maximum(graph.work_of(edges.target), NO_ID)
    passed = (source >= front[target]) & (target != source) & (np.append(graph.work.engine, 0)[source] > 0)
    editor.remove(passed & edges.of_kind(kind))
    after = move.before(moved=True)
    other = np.flatnonzero(after != move.before(moved=False))
    editor.add(Dependencies.of(graph.work_end(after[other]), graph.work_start(other), follow_ns, kind))
