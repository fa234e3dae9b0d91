"""What waits take at most, where one of two graphs knows it better.

A dependency that bound nothing has the weight that is usual. In another graph it may be the one that bound the same
work, with the weight that was seen there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlapscope.comparison.matching import Matching
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.model.columns import NO_ID, Int64

_OF_ITS_OWN = (*OWN_DURATION, DependencyKind.EXECUTION, DependencyKind.PROGRAM_ORDER, DependencyKind.THREAD_HANDOFF)


def with_usual(graph: Graph, bound_by: Int64, other: Graph, matching: Matching) -> Graph:
    """The graph with waits that bound nothing in its simulation at most as long as in another graph.

    Simulated again, it takes as long as before.
    """
    node = matching.nodes(graph, other)
    own, theirs = graph.dependencies, other.dependencies
    theirs = theirs.take(~theirs.of_kind(*_OF_ITS_OWN))
    theirs = replace(theirs, source=node[theirs.source], target=node[theirs.target])
    theirs = theirs.take((theirs.source != NO_ID) & (theirs.target != NO_ID))
    free = np.ones(len(own), np.bool_)
    free[bound_by[bound_by != NO_ID]] = False
    row = same_in(own, theirs, len(graph.time_ns))
    known = free & (row != NO_ID)
    weight = np.where(known, np.minimum(own.weight_ns, np.append(theirs.weight_ns, 0)[row]), own.weight_ns)
    return replace(graph, dependencies=replace(own, weight_ns=weight))


def same_in(edges: Dependencies, others: Dependencies, nodes: int) -> Int64:
    """For each of some dependencies the row of the other ones of its kind between the same nodes; else `NO_ID`."""
    if not len(others):
        return np.full(len(edges), NO_ID, np.int64)
    mine, theirs = (_keys(each, nodes) for each in (edges, others))
    order = np.argsort(theirs, kind="stable")
    row = order[np.minimum(np.searchsorted(theirs[order], mine), len(order) - 1)]
    return np.where(theirs[row] == mine, row, NO_ID)


def _keys(edges: Dependencies, nodes: int) -> Int64:
    """A number for each pair of nodes and kind."""
    keys: Int64 = (edges.source * nodes + edges.target) * len(DependencyKind) + edges.kind
    return keys
