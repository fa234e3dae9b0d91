"""A graph that is being changed: its dependencies and its trace are kept in step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, WAITS
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import SimulationConfig


@dataclass(frozen=True, eq=False)
class Where:
    """What a change is about: masks over rows of copies and rows of api_calls."""

    copies: Bool
    calls: Bool

    def work(self, graph: Graph) -> Int64:
        """The copies as work of a graph."""
        mine: Bool = (graph.work.table == 1) & np.append(self.copies, False)[graph.work.copy]
        return np.flatnonzero(mine)

    def but(self, copies: Bool) -> Where:
        """The same with other copies."""
        return replace(self, copies=copies)


@dataclass(eq=False)
class Editor:
    """Changes are made one after the other; row numbers of dependencies hold until some are removed or added.

    Attributes:
        graph: as changed so far.
        config: thresholds.
        assumptions: what the result rests on, in words.
        granted: those that make wrong results where they do not hold.
        in_order: the rules whose races are in order.
        possible: dependencies that may have to stay; the upper bound has them.
        avoidable: dependencies that stay and may not have to; the lower bound has them not.
    """

    graph: Graph
    config: SimulationConfig
    assumptions: list[str] = field(default_factory=list)
    granted: list[str] = field(default_factory=list)
    in_order: tuple[str, ...] = ()
    possible: Dependencies = field(default_factory=Dependencies.none)
    avoidable: Dependencies = field(default_factory=Dependencies.none)

    def copy(self) -> Editor:
        """Another one that goes on from here."""
        return replace(self, assumptions=list(self.assumptions), granted=list(self.granted))

    @property
    def dependencies(self) -> Dependencies:
        """Those of the graph as it is now."""
        return self.graph.dependencies

    @property
    def trace(self) -> Trace:
        """The trace as it is now."""
        return self.graph.trace

    def set_weights(self, weight_ns: Int64) -> None:
        """Give all dependencies these weights, in ns."""
        self.graph = replace(self.graph, dependencies=replace(self.dependencies, weight_ns=weight_ns))

    def limit_weights(self, rows: Int64 | Bool, most_ns: Int64 | int) -> None:
        """Let some dependencies weigh at most this, in ns."""
        weight = self.dependencies.weight_ns.copy()
        weight[rows] = np.minimum(weight[rows], most_ns)
        self.set_weights(weight)

    def set_sources(self, rows: Int64, source: Int64, weight_ns: Int64 | int | None = None) -> None:
        """Let some dependencies come from other nodes."""
        sources, weight = self.dependencies.source.copy(), self.dependencies.weight_ns.copy()
        sources[rows] = source
        if weight_ns is not None:
            weight[rows] = weight_ns
        edges = replace(self.dependencies, source=sources, weight_ns=weight)
        self.graph = replace(self.graph, dependencies=edges)

    def remove(self, rows: Bool) -> None:
        """Drop some dependencies."""
        self.graph = self.graph.with_dependencies(self.dependencies.take(~rows))

    def add(self, *parts: Dependencies) -> None:
        """Add dependencies."""
        self.graph = self.graph.with_dependencies(self.dependencies, *parts)

    def set_copies(self, **columns: Int64 | Int32 | Int8) -> None:
        """Give the trace's copies other columns."""
        typed: dict[str, Any] = {
            name: values.astype(getattr(self.trace.copies, name).dtype) for name, values in columns.items()
        }
        copies = replace(self.trace.copies, **typed)
        self.graph = replace(self.graph, trace=replace(self.trace, copies=copies))

    def assume(self, *texts: str) -> None:
        """Note what the result rests on, each text once."""
        self.assumptions += [text for text in dict.fromkeys(texts) if text not in self.assumptions]

    def grant(self, text: str) -> None:
        """Note what makes wrong results where it does not hold, each text once."""
        self.granted += [said for said in (f"assumes that {text}",) if said not in self.granted]

    def without_waits(self, calls: Int64, most_ns: int = 0) -> None:
        """Let some calls wait for nothing and take at most this, in ns."""
        into = np.isin(self.dependencies.target, self.graph.call_end(calls))
        self.limit_weights(into & self.dependencies.of_kind(*OWN_DURATION), most_ns)
        self.remove(into & self.dependencies.of_kind(*WAITS))

    def calls_of(self, copies: Bool) -> Int64:
        """The graph's calls that issued some rows of copies."""
        calls: Int64 = np.unique(self.graph.call_of[self.trace.copies.call[copies]])
        found: Int64 = calls[calls != NO_ID]
        return found
