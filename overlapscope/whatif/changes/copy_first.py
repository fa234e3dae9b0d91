"""Small copies are issued before the longer copies that they are queued behind.

## What it changes
A copy goes before the first of the copies in its direction that its thread issued since it last synchronised, that its
stream has not waited for, and that take ten times as long: it may start when that one is issued, and that one waits for
it. In its stream it goes before all that was issued since.

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

from overlapscope.dependencies.device import before
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.formatting import counted
from overlapscope.measure.grouping import at
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS
from overlapscope.ordering.accesses import filled_ns
from overlapscope.whatif.calls import codes
from overlapscope.whatif.change import Change, Editor, Where

STUCK_SHARE = 0.1
"""A copy is stuck behind others when its transfer takes less than this share of theirs.

First in the queue, it would hold them up for no longer.
"""

_MOVED = "the other changes put these copies in another order, which stays"
_NONE = "no copy is queued behind longer ones that its thread issued since it last synchronised"
_LATE = "of host tensors that are filled only after that stay where they are"
_READY = "what the copies send is ready, and what they overwrite is read, when the longer copies before them are issued"


@dataclass(frozen=True)
class CopyFirst(Change):
    """Small copies first."""

    name: ClassVar[str] = "copy-first"
    condition: ClassVar[str] = "if the small data is ready before the long copies"
    needs_order: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Let each start when the first of those in front is issued, and these after it."""
        graph = editor.graph
        small = where.work(graph)
        small = small[(graph.work.engine[small] > 0) & (graph.work.call[small] != NO_ID)]
        front = _first_in_front(graph, small, STUCK_SHARE)
        small, front = small[front != NO_ID], front[front != NO_ID]
        late = filled_ns(graph)[small] > graph.calls.start_ns[graph.work.call[front]]
        editor.assume(*[f"{counted(int(late.sum()), 'copy', 'copies')} {_LATE}"] * bool(late.any()))
        small, front = small[~late], front[~late]
        if not len(small):
            editor.assume(*[_NONE] * (not late.any()))
            return
        editor.issue(small, graph.call_start(graph.work.call[front]))
        place = 2 * np.arange(len(graph.work)) + 1
        place[small] = 2 * front
        _requeue(editor, DependencyKind.COPY_ENGINE, graph.work.engine, place)
        place[small] = 2 * _issued_before(graph, small, front) + 2
        _requeue(editor, DependencyKind.STREAM_ORDER, graph.work.stream, place)
        if has_cycle(editor.graph):
            editor.graph = graph
            editor.assume(_MOVED)
        else:
            editor.grant(_READY)


def _first_in_front(graph: Graph, small: Int64, share: float) -> Int64:
    """The first longer copy in front of each that its thread issued since it last synchronised, or `NO_ID`.

    No stream passes copies that it has waited for. Each takes less than a share of these.
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
    ahead &= ~_waited(graph, one, other)
    ahead &= work.end_ns[one] - work.start_ns[one] < share * (work.end_ns[other] - work.start_ns[other])
    result = np.full(len(small), NO_ID, np.int64)
    result[which[ahead][::-1]] = other[ahead][::-1]  # the first one is written last
    return result


def _waited(graph: Graph, one: Int64, other: Int64) -> Bool:
    """Which of some copies are in streams that waited for the stream of another copy since that was issued."""
    work, waits, several = graph.work, graph.trace.event_waits, len(graph.calls) + 1
    of_copies = np.stack([work.process[one], work.device[one], work.stream[one], work.stream[other]])
    of_waits = np.stack([waits.process, waits.device, waits.stream, waits.source_stream])
    numbers = several * codes(np.concatenate([of_copies, of_waits], axis=1))
    pair, wait = np.split(numbers, [len(one)])
    wait = np.sort(wait + graph.call_of[waits.call] + 1)
    last = at(wait, np.searchsorted(wait, pair + work.call[one] + 1) - 1)
    waited: Bool = last > pair + work.call[other] + 1
    return waited


def _issued_before(graph: Graph, small: Int64, front: Int64) -> Int64:
    """For each small copy the last op in its stream that was issued before another op, or `NO_ID`."""
    work, several = graph.work, len(graph.calls) + 1
    stream = codes(np.stack([work.process, work.device, work.stream]))
    issued = several * stream + work.call + 1
    order = np.argsort(issued, kind="stable")
    place = np.searchsorted(issued[order], several * stream[small] + work.call[front] + 1) - 1
    last = at(order, place)
    return np.where(at(stream, last) == stream[small], last, NO_ID)


def _requeue(editor: Editor, kind: DependencyKind, key: Int64, place: Int64) -> None:
    """Queue work by place among work with the same key; a copy waits no longer for work that it has passed."""
    graph, work, edges = editor.graph, editor.graph.work, editor.dependencies
    source, target = np.maximum(graph.work_of(edges.source), NO_ID), np.maximum(graph.work_of(edges.target), NO_ID)
    passed = (target != source) & (np.append(place, NO_ID)[source] > np.append(place, 2 * len(work))[target])
    editor.remove(passed & edges.of_kind(kind))
    queued = np.flatnonzero(work.engine > 0) if kind == DependencyKind.COPY_ENGINE else np.arange(len(work))
    ahead = before(work, key, queued, place)
    other = np.flatnonzero(ahead != before(work, key, queued))
    editor.add(graph.after_work(ahead[other], other, kind))
