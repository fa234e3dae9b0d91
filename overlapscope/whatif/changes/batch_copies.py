"""Small copies to the GPU in a row are packed into one pinned buffer and sent as one.

## What it changes
The first copy of each run takes the time of all bytes, its call that of packing them on the host; the others take none.
Copies whose size is not recorded stay as they are; the lower bound packs them too.

## What it assumes
Packing takes what the calibration measured for pieces of these sizes, else as long as staging them does, else what it
took on hosts of H200s. Pieces that are in no cache, and views of what arrives where each was a tensor of its own, are
in the upper bound. The pinned buffer is made once: it is filled again when its copy is complete, by an event or in turn
with a second one (OVL102). What the run sends is there when its first copy is made. The prediction says both.

## When it misleads
Few and large pieces are sent faster as they are. `torch.stack(tensors).to(device)` makes a pageable tensor each time:
its bytes are copied twice on the host. For 40 tensors of 64 KiB that takes 0.43 ms against 0.23 into a pinned buffer,
and 0.53 to 0.65 one by one; for 40 of 1 MiB 11 ms against 0.8, and 3 one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.formatting import counted
from overlapscope.measure.grouping import at
from overlapscope.measure.host import MOST_ENQUEUE_NS
from overlapscope.measure.places import innermost
from overlapscope.measure.waits import first_copy_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import HOST_GAP_NS, enqueue_ns, leaders
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.copy_speeds import Packing, packing, pinned_speed
from overlapscope.whatif.pinning import without_pinning

_MORE = "that pieces may be in no cache, and need views: only the upper bound counts that"
_KEPT = "the pinned buffer is made once; torch.stack() without it makes a pageable tensor, which is staged again"
_READY = (
    "what copies in a row send is there with the first, and their one buffer has been sent before it is filled again"
)
_DEVICES = 1 << 16  # more than one machine has
_BESIDE = (ApiKind.OTHER, ApiKind.QUERY, ApiKind.EVENT_RECORD, ApiKind.STREAM_SYNC)
"""Calls that may stand between those of a run."""


@dataclass(frozen=True)
class BatchCopies(Change):
    """Small copies in a row are sent as one."""

    name: ClassVar[str] = "batch-copies"
    condition: ClassVar[str] = "if data of the copies is ready together"
    needs_order: ClassVar[bool] = True
    old_name: ClassVar[str | None] = "coalesce"
    one_by_one: ClassVar[bool] = True

    as_tiny: bool = False
    """Whether copies whose size is not recorded are packed too, as if they were tiny: the lower bound has that."""

    def may_bring(self, trace: Trace) -> tuple[Change, ...]:
        """Copies whose size is not recorded may be tiny."""
        unsized = self.concerns(trace).copies & (trace.copies.size_bytes < 0)
        return (replace(self, as_tiny=True),) if unsized.any() and not self.as_tiny else ()

    def apply(self, editor: Editor, where: Where) -> None:
        """Let the first copy of each run carry all of it."""
        graph, calls, copies = editor.graph, editor.graph.calls, editor.trace.copies
        copy = first_copy_of(graph.trace)[calls.row]
        wanted = where.copies & (copies.direction == Direction.HTOD) & (copies.duration_ns <= MOST_ENQUEUE_NS)
        unsized = wanted & (copies.size_bytes < 0)
        if unsized.any() and not self.as_tiny:
            editor.assume(
                f"{counted(int(unsized.sum()), 'copy', 'copies')} without a size: what packing takes is not known"
            )
            wanted &= ~unsized
        small = (calls.kind == ApiKind.COPY) & at(wanted, copy, False)
        leader = leaders(graph, small, _BESIDE, at(copies.stream * _DEVICES + copies.device, copy))
        members = np.flatnonzero(small & (leader != NO_ID))
        editor.without_waits(np.flatnonzero(leader != NO_ID), enqueue_ns(graph))
        if not len(members):
            editor.assume("no small copies to the device are in a row")
            return
        without_pinning(editor, members)  # each piece by itself: packing writes into pinned memory
        run = _Run.of(graph, members, leader, copy)
        pack = packing(graph.trace)
        _send_as_one(editor, run, pack)
        _skip(editor, np.flatnonzero((leader != NO_ID) & (leader != np.arange(len(calls)))))
        _may_take_more(editor, run, pack)


@dataclass(frozen=True, eq=False)
class _Run:
    """Copy calls of runs: their rows of copies, their work, and a number for each one's run, with its first call."""

    member: Int64
    copy: Int64
    work: Int64
    group: Int64
    leader: Int64

    @classmethod
    def of(cls, graph: Graph, members: Int64, leader: Int64, copy: Int64) -> _Run:
        first, group = np.unique(leader[members], return_inverse=True)
        return cls(members, copy[members], graph.work_of_copy[copy[members]], group, first)

    def sums(self, values: Int64) -> Int64:
        """The sum of a column of copies over each run."""
        return np.bincount(self.group, values[self.copy], len(self.leader)).astype(np.int64)


def _send_as_one(editor: Editor, run: _Run, pack: Packing) -> None:
    """The first copy of each run takes the time of all bytes, its call that of packing them; the others take none."""
    graph, copies = editor.graph, editor.trace.copies
    sizes = np.maximum(copies.size_bytes, 0)
    total = run.sums(sizes)
    speed = pinned_speed(graph.trace, Direction.HTOD, total)
    first = graph.work_of_copy[first_copy_of(graph.trace)[graph.calls.row[run.leader]]]
    weight, edges = editor.dependencies.weight_ns.copy(), editor.dependencies
    weight[graph.runs(run.work)] = 0
    others = graph.work_start(np.setdiff1d(run.work, first))
    order = edges.of_kind(DependencyKind.STREAM_ORDER, DependencyKind.COPY_ENGINE)
    weight[np.isin(edges.target, others) & order] = 0
    took = run.sums(copies.duration_ns) if speed is None else speed.copy_time_ns(total)
    weight[graph.runs(first)] = took
    weight[graph.into(graph.call_end(run.leader), *OWN_DURATION)] += pack.host_ns(sizes[run.copy], run.group)
    editor.set_weights(weight)
    editor.issue(first, graph.call_end(run.leader), 0)
    editor.assume(*[f"one copy of all bytes: {each.known_from}" for each in [speed] if each], pack.known_from, _KEPT)
    editor.grant(_READY)


def _skip(editor: Editor, inside: Int64) -> None:
    """Calls of runs after their first take no host time, nor does Python between them; longer work stays."""
    graph, edges = editor.graph, editor.dependencies
    into = np.isin(edges.target, np.concatenate([graph.call_start(inside), graph.call_end(inside)]))
    short = edges.of_kind(DependencyKind.PROGRAM_ORDER) & (edges.weight_ns <= HOST_GAP_NS)
    editor.limit_weights(into & (edges.of_kind(*OWN_DURATION) | short), 0)


def _may_take_more(editor: Editor, run: _Run, pack: Packing) -> None:
    """Note the most that packing may take beyond its estimate, as far as that is known."""
    graph = editor.graph
    made = _made_for(graph.trace, graph.calls.row[run.member])
    more_ns = pack.more_ns(graph.trace.copies.size_bytes[run.copy], made, run.group)
    calls = run.leader[more_ns > 0]
    taken = editor.dependencies.weight_ns[graph.into(graph.call_end(calls), *OWN_DURATION)] + more_ns[more_ns > 0]
    more = Dependencies.of(graph.call_start(calls), graph.call_end(calls), taken, DependencyKind.API_CALL)
    if len(more):
        editor.possible = Dependencies.concat(editor.possible, more)
        editor.assume(_MORE)


def _made_for(trace: Trace, rows: Int64) -> Bool:
    """Which copy calls are of an operator that makes a tensor for what it copies, as ``.to(device)`` does."""
    ops, calls = trace.cpu_ops, trace.api_calls
    makers = ops.take(np.isin(ops.name_id, trace.names.find("aten::_to_copy")))
    return np.not_equal(innermost(makers, calls.process[rows], calls.thread[rows], calls.start_ns[rows]), NO_ID)
