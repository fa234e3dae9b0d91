"""What host threads do by themselves between two calls that both graphs have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.comparison.common import next_common_call, previous_common_call
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ALLOCATIONS, SYNC_CALLS


@dataclass(frozen=True, eq=False)
class Stretches:
    """The stretches of host threads in front of some calls, since the one of these before on their thread.

    ``row`` are the dependencies that their time is in, each of a ``stretch``: gaps, and calls between that issue
    nothing and wait for nothing. ``last`` is the gap right before each call. ``previous`` is which of the calls comes
    before, ``issues`` whether one in between issues work, and ``handed`` whether it waits for another thread.
    """

    row: Int64
    stretch: Int64
    weight_ns: Int64
    last: Int64
    previous: Int64
    issues: Bool
    handed: Bool
    dependencies: int

    @classmethod
    def of(cls, graph: Graph, common: Int64) -> Stretches:
        """Those in front of some calls of a graph."""
        calls, index = graph.calls, np.arange(len(graph.calls))
        number = np.full(len(calls) + 1, NO_ID, np.int64)
        number[common] = np.arange(len(common))
        following = np.where(number[:-1] != NO_ID, index, next_common_call(graph, common))
        stretch, between = number[following], number[:-1] == NO_ID
        issuing = np.isin(index, graph.work.call)
        plain = between & ~issuing & ~np.isin(calls.kind, (*SYNC_CALLS, *ALLOCATIONS))
        gap = graph.into(graph.call_start(index), DependencyKind.PROGRAM_ORDER)
        own = np.where(plain, graph.into(graph.call_end(index), *OWN_DURATION), NO_ID)
        row, of = np.append(gap, own), np.append(stretch, stretch)
        known = (row != NO_ID) & (of != NO_ID)
        issues = np.zeros(len(common), np.bool_)
        issues[stretch[between & issuing & (stretch != NO_ID)]] = True
        handed = np.zeros(len(common) + 1, np.bool_)
        handed[stretch[graph.into(graph.call_start(index), DependencyKind.THREAD_HANDOFF) != NO_ID]] = True
        return cls(
            row=row[known],
            stretch=of[known],
            weight_ns=graph.dependencies.weight_ns[row[known]],
            last=gap[common],
            previous=number[previous_common_call(graph, common)[common]],
            issues=issues,
            handed=handed[:-1],
            dependencies=len(graph.dependencies),
        )

    @property
    def total_ns(self) -> Int64:
        """How long each takes."""
        total = np.zeros(len(self.last), np.int64)
        np.add.at(total, self.stretch, self.weight_ns)
        return total

    def made(self, total_ns: Int64, some: Bool) -> Int64:
        """What to add to each dependency so that some stretches take this long."""
        delta, own = np.zeros(self.dependencies, np.int64), self.total_ns
        mine = some[self.stretch] & (own[self.stretch] > 0)
        factor = total_ns / np.maximum(own, 1)
        delta[self.row[mine]] = np.rint(self.weight_ns[mine] * (factor[self.stretch[mine]] - 1)).astype(np.int64)
        nothing = some & (own == 0) & (self.last != NO_ID)
        delta[self.last[nothing]] = total_ns[nothing]
        return delta
