"""The chains of a graph: nodes that wait for nothing but the node before them.

Most nodes do: the calls of a thread follow each other, and work ends some time after its start. Such a node comes a
fixed time after the first one of its chain, so that only first nodes have to be looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import Int64

_NOT_YET = np.iinfo(np.int64).min // 2  # before all times, and no overflow with a weight


@dataclass(frozen=True, eq=False)
class Chains:
    """The chains of a graph by number, and its dependencies: those inside of chains, and those into their first nodes.

    ``first`` is the first node of each chain, ``chain`` the chain of each node. ``inside`` and ``between`` are rows of
    dependencies; those between chains are in an order in which each comes after all into the chain that it leaves.
    ``leaves`` and ``enters`` are these chains.
    """

    first: Int64
    chain: Int64
    inside: Int64
    between: Int64
    leaves: list[int]
    enters: list[int]

    @classmethod
    def of(cls, graph: Graph) -> Chains:
        """Find them.

        Raises:
            ValueError: the graph has a cycle.
        """
        edges, count = graph.dependencies, len(graph.time_ns)
        alone = np.bincount(edges.target, minlength=count)[edges.target] == 1
        inside = alone & (edges.source == edges.target - 1)
        begins = np.ones(count, np.bool_)
        begins[edges.target[inside]] = False
        first, chain, between = np.flatnonzero(begins), np.cumsum(begins) - 1, np.flatnonzero(~inside)
        leaves, enters = chain[edges.source[between]], chain[edges.target[between]]
        order = np.argsort(_places(graph.time_ns[first], first, leaves, enters)[enters], kind="stable")
        ways = leaves[order].tolist(), enters[order].tolist()
        return cls(first, chain, np.flatnonzero(inside), between[order], *ways)

    def times(self, graph: Graph) -> Int64:
        """When each node comes: as soon as its dependencies allow; those without any stay where they were.

        The graph may have other weights and times than that of which these are the chains.
        """
        edges, along = graph.dependencies, np.zeros(len(graph.time_ns), np.int64)
        along[edges.target[self.inside]] = edges.weight_ns[self.inside]
        along = np.cumsum(along)
        along -= along[self.first][self.chain]
        begins = graph.time_ns[self.first]
        begins[self.chain[edges.target[self.between]]] = _NOT_YET
        weight = edges.weight_ns[self.between] + along[edges.source[self.between]]
        return self._begins(begins.tolist(), weight.tolist())[self.chain] + along

    def _begins(self, times: list[int], weights: list[int]) -> Int64:
        """When each chain begins: as soon as what it waits for allows, each of which is known before."""
        for one, other, weight in zip(self.leaves, self.enters, weights, strict=True):
            reached = times[one] + weight
            if reached > times[other]:  # noqa: PLR1730 - a call of max() takes longer than the rest of the loop
                times[other] = reached
        return np.array(times, np.int64)


def _places(time_ns: Int64, node: Int64, source: Int64, target: Int64) -> Int64:
    """A place for each chain, such that dependencies lead forward: by time, or sorted out where that does not do."""
    order = np.lexsort((node % 2, time_ns))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    if (place[source] < place[target]).all():
        return place
    sorted_out = one_after_the_other(source, target, len(order))
    if len(sorted_out) < len(order):
        raise ValueError("the graph has a cycle")
    place[sorted_out] = np.arange(len(order))
    return place


def one_after_the_other(source: Int64, target_of: Int64, count: int) -> Int64:
    """Kahn's algorithm: nodes such that every dependency leads forward, without those that cycles keep waiting."""
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(count + 1)).tolist()
    target = target_of[by_source].tolist()
    missing = np.bincount(target_of, minlength=count).tolist()
    order = [node for node in range(count) if not missing[node]]
    for node in order:  # grows
        for edge in range(first[node], first[node + 1]):
            following = target[edge]
            missing[following] -= 1
            if not missing[following]:
                order.append(following)
    return np.array(order, np.int64)
