"""Launches in a row become one CUDA graph launch.

## What it changes
Kernels, memsets and copies within the GPU that a thread launches in a row cost the host as much as one launch, with the
Python between them; so does a backward pass, whose launches the autograd thread makes. Between two nodes of a graph
passes less time than between two launched kernels.

## What it assumes
The launches can be captured: no synchronisation, no pageable copy and no allocation between them, the same shapes in
every step (`torch.compile(mode="reduce-overhead")`, `torch.cuda.graph`).

## When it misleads
Host work between two launches that takes longer than Python usually does is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.threads import autograd_threads
from overlapscope.measure.issue import first_copy_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction
from overlapscope.whatif.change import Change
from overlapscope.whatif.editor import Editor, Where
from overlapscope.whatif.runs import leaders


@dataclass(frozen=True)
class CudaGraph(Change):
    """Launches in a row as one CUDA graph launch."""

    name: ClassVar[str] = "cuda-graph"
    only_removes: ClassVar[bool] = True
    old_name: ClassVar[str | None] = "graph"
    about_calls: ClassVar[bool] = True
    keeps_apart: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Let all but the first launch of each run take no host time."""
        graph, calls, edges = editor.graph, editor.graph.calls, editor.dependencies
        copy = first_copy_of(graph.trace)[calls.row]
        within = np.append(graph.trace.copies.direction == Direction.DTOD, False)[copy] & (calls.kind == ApiKind.COPY)
        mine = (np.isin(calls.kind, (ApiKind.LAUNCH, ApiKind.MEMSET)) | within) & where.calls[calls.row]
        place = np.full(len(calls), NO_ID, np.int64)
        joined = graph.work.call != NO_ID
        place[graph.work.call[joined]] = graph.work.device[joined]
        leader = leaders(graph, mine, (ApiKind.OTHER, ApiKind.QUERY), place)
        inside = np.flatnonzero((leader != NO_ID) & (leader != np.arange(len(calls))))
        into = np.isin(edges.target, np.concatenate([graph.call_start(inside), graph.call_end(inside)]))
        host = edges.of_kind(DependencyKind.PROGRAM_ORDER, *OWN_DURATION, DependencyKind.DRIVER_LOCK)
        editor.limit_weights(into & host & (edges.weight_ns <= editor.config.host_gap_ns), 0)
        editor.limit_weights(_backward(graph, leader != NO_ID), 0)
        nodes = np.isin(edges.target, graph.work_start(np.flatnonzero(np.isin(graph.work.call, inside))))
        nodes &= edges.of_kind(DependencyKind.STREAM_ORDER)
        nodes &= edges.source % 2 == 1  # those that follow a start overlap it as they are
        editor.limit_weights(nodes, editor.config.node_gap_ns)
        editor.assume("launches in a row as one graph launch")
        editor.grant("the launches can be captured: static shapes, no host synchronisation, no dynamic control flow")


def _backward(graph: Graph, launching: Bool) -> Int64:
    """Hand-offs of a backward pass to the autograd thread and back, between launches."""
    calls, edges = graph.calls, graph.dependencies
    handed = np.flatnonzero(edges.of_kind(DependencyKind.THREAD_HANDOFF))
    one, other = edges.source[handed] // 2, edges.target[handed] // 2
    places = list(zip(calls.process[calls.first].tolist(), calls.thread[calls.first].tolist(), strict=True))
    theirs = autograd_threads(graph)
    autograd = np.array([place in theirs for place in places], np.bool_)[calls.owner] if len(calls) else launching
    passed: Int64 = handed[launching[one] & launching[other] & (autograd[one] | autograd[other])]
    return passed
