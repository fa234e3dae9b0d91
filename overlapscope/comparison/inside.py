"""The work of one side within its window: what the other side has too, and what not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.comparison.matching import Matching, occurrences
from overlapscope.dependencies.graph import Graph
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import LINK

KERNEL, COPY = 0, 1
"""Numbers of the tables in the work of a graph."""


@dataclass(frozen=True, eq=False)
class Inside:
    """The work of a graph: which of it is in the window, and which the other graph has too."""

    graph: Graph
    there: Bool
    matched: Bool

    @property
    def common(self) -> Bool:
        """What of the window both graphs have."""
        return self.there & self.matched

    @property
    def alone(self) -> Bool:
        """What of the window only this graph has."""
        return self.there & ~self.matched

    @property
    def over_link(self) -> Bool:
        """Which work copies over a link."""
        link: Bool = np.isin(self.graph.work.engine, LINK) & (self.graph.work.table == COPY)
        return link

    @property
    def copied_bytes(self) -> int:
        """What is copied over links in the window."""
        sizes = self.graph.trace.copies.size_bytes[self.graph.work.row[self.there & self.over_link]]
        return int(np.maximum(sizes, 0).sum())

    @property
    def kernel_ns(self) -> Int64:
        """The time of each kernel; 0 for other work."""
        work = self.graph.work
        return np.where(work.table == KERNEL, work.end_ns - work.start_ns, 0)


def inside(graphs: tuple[Graph, Graph], matching: Matching, windows: tuple[Window, Window]) -> tuple[Inside, Inside]:
    """Both sides."""
    one, two = (
        Inside(
            graph,
            _there(graph, window),
            np.isin(np.arange(len(graph.work)), rows),
        )
        for graph, window, rows in zip(graphs, windows, (matching.work.before, matching.work.after), strict=True)
    )
    return one, two


def _there(graph: Graph, window: Window) -> Bool:
    """Which work is in the window: of a range what is issued in it, though it may run when others are, too."""
    work = graph.work
    if window.name is None:
        return window.touches(work.process, work.start_ns, work.end_ns)
    issued: Bool = occurrences(graph, window) != NO_ID
    return issued
