"""What goes to the host and comes back, told from the sizes of copies and the order in which they are issued.

For traces that do not say which memory copies use. Inputs that go up and results that come down may look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import Direction
from overlapscope.ordering.config import OrderingConfig


@dataclass(frozen=True, eq=False)
class PutAway:
    """The copies of one size that go down and come up again, as work in the order of issue.

    ``sure`` says that they need no other sizes to be believed.
    """

    down: Int64
    up: Int64
    sure: bool

    def early(self, graph: Graph, clear_ns: int) -> Int64:
        """Copies up that start before as many copies down have ended: at least one came before its own."""
        work = graph.work
        up = self.up[np.argsort(work.start_ns[self.up], kind="stable")]
        arrived = np.searchsorted(np.sort(work.end_ns[self.down]), work.start_ns[up] + clear_ns, "right")
        result: Int64 = up[arrived < np.arange(1, len(up) + 1)]
        return result


def put_away(graph: Graph, down: Int64, up: Int64, config: OrderingConfig) -> list[PutAway]:
    """What of some copies down comes up again: sizes that are sure, and the others where there are enough sizes."""
    found = list(_by_size(graph, down, up, config))
    return found if len(found) >= config.least_sizes else [each for each in found if each.sure]


def _by_size(graph: Graph, down: Int64, up: Int64, config: OrderingConfig) -> Iterator[PutAway]:
    """Sizes of which the first copy goes down, no more go up than down, and the order of issue fits a round trip."""
    issued, size = graph.work.issued_ns(graph.calls), np.append(graph.trace.copies.size_bytes, NO_ID)[graph.work.copy]
    follows = _behind(graph)
    for each in np.intersect1d(size[down], size[up]).tolist():
        ours, theirs = (rows[np.argsort(issued[rows], kind="stable")] for rows in (down, up))
        ours, theirs = ours[size[ours] == each], theirs[size[theirs] == each]
        before = int(np.searchsorted(issued[ours], issued[theirs[0]]))
        at_once = bool(np.isin(follows[theirs], ours).all())
        if not before or len(theirs) > len(ours) or not (at_once or before >= min(config.least_put_away, len(ours))):
            continue
        sure = before >= config.least_put_away or (at_once and len(theirs) >= config.least_at_once)
        yield PutAway(ours, theirs, sure)


def _behind(graph: Graph) -> Int64:
    """For all work the last work that its thread issued before and that is no upload; `NO_ID` for none."""
    work = graph.work
    owner = np.append(graph.calls.owner, NO_ID)[work.call]
    order = np.lexsort((work.issued_ns(graph.calls), owner))
    stays: Bool = work.engine[order] != Direction.HTOD
    last = np.append(NO_ID, np.maximum.accumulate(np.where(stays, np.arange(len(order)), NO_ID))[:-1])
    found = np.append(order, NO_ID)[last]
    same = np.append(owner, NO_ID)[found] == owner[order]
    result = np.full(len(work), NO_ID, np.int64)
    result[order] = np.where(same, found, NO_ID)
    return result
