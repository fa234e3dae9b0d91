"""Races that a recording knows: a prediction is of the program with their accesses in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID
from overlapscope.ordering.accesses import Races, early_reads, early_refills, early_reuses, early_uploads
from overlapscope.ordering.order import Order

_RULES: dict[str, Callable[[Order], Races]] = {
    "OVL101": early_uploads,
    "OVL102": early_refills,
    "OVL103": early_reads,
    "OVL104": early_reuses,
}


@dataclass(frozen=True, eq=False)
class InOrder:
    """The races of a graph put in order: each access after the one before it, the rules, and in words what is assumed.

    What races with the host gets no dependency: a trace does not say where the program would have to wait.
    """

    edges: Dependencies
    codes: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph, follow_ns: int) -> InOrder:
        """Those that its recording knows."""
        order = Order(graph)
        found = {code: races for code, of in _RULES.items() if len(races := of(order))}
        edges = (_order(graph, races, follow_ns) for races in found.values())
        texts = tuple(_said(*each) for each in found.items())
        return cls(Dependencies.together(Dependencies.none(), *edges), tuple(found), texts)


def _said(code: str, races: Races) -> str:
    text = f"{code} is fixed first, so that the accesses of {counted(len(races), 'pair')} are in order"
    with_host = (races.then == NO_ID).any()
    return f"{text}; the host's wait for that is not simulated" if with_host else text


def _order(graph: Graph, races: Races, follow_ns: int) -> Dependencies:
    on_gpu = races.then != NO_ID
    ends, starts = graph.work_end(races.first[on_gpu]), graph.work_start(races.then[on_gpu])
    return Dependencies.of(ends, starts, np.full(len(ends), follow_ns), DependencyKind.EVENT)
