"""A graph in which a part is as in another one: which parts there are, and what a swap changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.simulate import has_cycle, in_cycles
from overlapscope.model.columns import Bool, Int64


class Part(StrEnum):
    """What of a program can be as before or as after, each by itself; the rest is in ``ORDER``."""

    MEMORY = "memory"
    COPY_TIMES = "copy-times"
    WAITS = "synchronisations"
    STREAMS = "streams"
    ALLOCATIONS = "allocations"
    KERNEL_TIMES = "kernel-times"
    HOST = "host-time"
    ORDER = "order"
    PROFILER = "profiler"


@dataclass(frozen=True, eq=False)
class Swap:
    """A change of a graph: what is added to the weights of its dependencies, which of them go, and which come."""

    delta_ns: Int64
    gone: Bool
    added: Dependencies

    @classmethod
    def of(
        cls,
        graph: Graph,
        delta_ns: Int64 | None = None,
        gone: Bool | None = None,
        added: Dependencies | None = None,
    ) -> Swap:
        """A change of a graph; nothing where nothing is given."""
        count = len(graph.dependencies)
        return cls(
            np.zeros(count, np.int64) if delta_ns is None else delta_ns,
            np.zeros(count, np.bool_) if gone is None else gone,
            Dependencies.none() if added is None else added,
        )

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.delta_ns.any() or self.gone.any() or len(self.added))

    def contradicts(self, graph: Graph) -> bool:
        """Whether its new dependencies would make a graph wait for itself."""
        kept = graph.dependencies.take(~self.gone)
        return bool(len(self.added)) and has_cycle(graph.with_dependencies(kept, self.added))


@dataclass(frozen=True, eq=False)
class Swaps:
    """The swap of each part of a graph by itself, and that of waits where what the host does is swapped too.

    What the host does after a wait is part of the one that goes with the host's own.
    """

    alone: Mapping[Part, Swap]
    waits_beside_host: Swap

    def of(self, parts: Collection[Part]) -> list[Swap]:
        """The swaps of some parts together."""
        waits = self.waits_beside_host if Part.HOST in parts else self.alone[Part.WAITS]
        return [waits if part is Part.WAITS else self.alone[part] for part in parts]


def swapped(graph: Graph, swaps: Iterable[Swap]) -> Graph:
    """The graph with some changes, but for the new dependencies that contradict it."""
    edges = graph.dependencies
    weight, gone, added = edges.weight_ns.copy(), np.zeros(len(edges), np.bool_), [Dependencies.none()]
    for swap in swaps:
        weight += swap.delta_ns
        gone |= swap.gone
        added.append(swap.added)
    kept = graph.with_dependencies(replace(edges, weight_ns=np.maximum(weight, 0)).take(~gone))
    return _with(kept, Dependencies.together(*added))


def _with(graph: Graph, added: Dependencies) -> Graph:
    """The graph with further dependencies; those that would make it wait for itself are left out."""
    both = graph.with_dependencies(graph.dependencies, added)
    if not len(added) or not has_cycle(both):
        return both
    waiting = in_cycles(both)
    fitting = graph.with_dependencies(graph.dependencies, added.take(~(waiting[added.source] & waiting[added.target])))
    return graph if has_cycle(fitting) else fitting
