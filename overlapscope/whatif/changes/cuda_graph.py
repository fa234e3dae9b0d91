"""Launches in a row become one CUDA graph launch.

## What it changes
Kernels, memsets and copies within the GPU that a thread launches in a row cost the host as much as one launch, with the
Python between them; so does a backward pass, whose launches the autograd thread makes. A row ends at a read, a copy
over the link, a synchronisation and an allocation. The few launches between two reads of a loop stay as they are while
these reads do. Between two nodes of a graph passes less time than between two launched kernels.

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
from overlapscope.formatting import counted
from overlapscope.measure.grouping import at, rows_by_thread
from overlapscope.measure.waits import first_copy_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind, Direction
from overlapscope.whatif.calls import HOST_GAP_NS, leaders
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.read_loops import ReadLoops

_NODE_GAP_NS = 150
"""Time between two nodes of a CUDA graph beyond the duration that a kernel has outside of it, in ns.

Between 0.02 and 0.28 us in five chains of kernels on an H200 (`benchmarks/graph_nodes.py`).
"""


@dataclass(frozen=True)
class CudaGraph(Change):
    """Launches in a row as one CUDA graph launch."""

    name: ClassVar[str] = "cuda-graph"
    condition: ClassVar[str] = "if shapes are static and no host code runs between"
    only_removes: ClassVar[bool] = True
    old_name: ClassVar[str | None] = "graph"
    changes_calls: ClassVar[bool] = True
    one_by_one: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Let all but the first launch of each run take no host time."""
        graph, calls, edges = editor.graph, editor.graph.calls, editor.dependencies
        leader = captured(graph, where.calls)
        inside = np.flatnonzero((leader != NO_ID) & (leader != np.arange(len(calls))))
        into = np.isin(edges.target, np.concatenate([graph.call_start(inside), graph.call_end(inside)]))
        host = edges.of_kind(DependencyKind.PROGRAM_ORDER, *OWN_DURATION, DependencyKind.DRIVER_LOCK)
        editor.limit_weights(into & host & (edges.weight_ns <= HOST_GAP_NS), 0)
        editor.limit_weights(_backward(graph, leader != NO_ID), 0)
        nodes = np.isin(edges.target, graph.work_start(np.flatnonzero(np.isin(graph.work.call, inside))))
        nodes &= edges.of_kind(DependencyKind.STREAM_ORDER)
        nodes &= edges.source % 2 == 1  # those that follow a start overlap it as they are
        editor.limit_weights(nodes, _NODE_GAP_NS)
        rows, launches = np.unique(leader[leader != NO_ID], return_counts=True)
        if not len(rows):
            editor.assume("no launches are in a row between reads, copies, synchronisations and allocations")
            return
        longest = f"up to {counted(int(launches.max()), 'call')} each"
        editor.assume(f"{counted(len(rows), 'row')} of launches, {longest}, as one graph launch each")
        editor.grant("the launches can be captured: static shapes, no host synchronisation, no dynamic control flow")


def captured(graph: Graph, wanted: Bool) -> Int64:
    """For each call of a graph the first launch of its CUDA graph; `NO_ID` for calls of none.

    ``wanted`` is a mask of api_calls.
    """
    calls = graph.calls
    on_gpu = at(graph.trace.copies.direction == Direction.DTOD, first_copy_of(graph.trace)[calls.row], False)
    within = on_gpu & (calls.kind == ApiKind.COPY)
    launches = (np.isin(calls.kind, (ApiKind.LAUNCH, ApiKind.MEMSET)) | within) & wanted[calls.row]
    launches &= _read_loops(graph).around(calls.process, calls.thread, calls.start_ns) == NO_ID
    device = np.full(len(calls) + 1, NO_ID, np.int64)
    device[graph.work.call] = graph.work.device  # work without a call is at the end
    return leaders(graph, launches, (ApiKind.OTHER, ApiKind.QUERY), device[:-1])


def _read_loops(graph: Graph) -> ReadLoops:
    """The loops of reads but for stretches after reads that another change has taken out of the graph."""
    loops = ReadLoops.of(graph.trace)
    duration = graph.into(graph.call_end(graph.call_of[loops.call]), *OWN_DURATION)
    return loops.take(np.append(graph.dependencies.weight_ns, 1)[duration] > 0)


def _backward(graph: Graph, launching: Bool) -> Int64:
    """Hand-offs of a backward pass to the autograd thread and back, between launches."""
    calls, edges = graph.calls, graph.dependencies
    handed = np.flatnonzero(edges.of_kind(DependencyKind.THREAD_HANDOFF))
    one, other = edges.source[handed] // 2, edges.target[handed] // 2
    autograd, threads = np.zeros(len(calls), np.bool_), autograd_threads(graph)
    for thread, rows in rows_by_thread(calls.process, calls.thread).items():
        autograd[rows] = thread in threads
    return np.compress(launching[one] & launching[other] & (autograd[one] | autograd[other]), handed)
