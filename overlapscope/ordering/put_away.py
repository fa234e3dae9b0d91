"""What goes to the host and comes back, told from the sizes of copies and the order in which they are issued.

For traces that do not say which memory copies use. Inputs that go up and results that come down may look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.measure.distinct import distinct_columns
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
    behind, begins, made = _last_other_work(graph), _begins(graph), _right_behind_kernels(graph)
    down, up = (rows[np.argsort(issued[rows], kind="stable")] for rows in (down, up))
    for each in np.intersect1d(size[down], size[up]).tolist():
        ours, theirs = down[size[down] == each], up[size[up] == each]
        first = ours[: np.searchsorted(issued[ours], issued[theirs[0]])]
        if not len(first) or len(theirs) > len(ours):
            continue
        at_once = bool(np.isin(behind[theirs], ours).all())
        turns = np.unique(behind[theirs]) if at_once else np.empty(0, np.int64)
        kept = len(first) >= config.least_put_away and begins[first].sum() > 1
        sure = kept or (len(turns) >= config.least_turns and bool(made[turns].all()))
        if sure or at_once or len(first) == len(ours):
            yield PutAway(ours, theirs, sure)


def _last_other_work(graph: Graph) -> Int64:
    """For all work the last work that its thread issued before and that is no upload; `NO_ID` for none."""
    work = graph.work
    return _last_before(graph, np.append(graph.calls.owner, NO_ID)[work.call], work.engine != Direction.HTOD)


def _begins(graph: Graph) -> Bool:
    """Which work its thread issued right after other work than copies to the host."""
    work = graph.work
    before = _last_before(graph, np.append(graph.calls.owner, NO_ID)[work.call], np.ones(len(work), np.bool_))
    begins: Bool = np.append(work.engine, NO_ID)[before] != Direction.DTOH
    return begins


def _right_behind_kernels(graph: Graph) -> Bool:
    """Which work has a kernel before it on its stream, with nothing but copies to the host between."""
    work = graph.work
    stream = distinct_columns(np.stack([work.process, work.device, work.stream]))[1]
    kernel: Bool = np.append(work.table, NO_ID)[_last_before(graph, stream, work.engine != Direction.DTOH)] == 0
    return kernel


def _last_before(graph: Graph, lane: Int64, wanted: Bool) -> Int64:
    """For all work the last wanted one of its lane that was issued before it; `NO_ID` for none."""
    order = np.lexsort((graph.work.issued_ns(graph.calls), lane))
    last = np.append(NO_ID, np.maximum.accumulate(np.where(wanted[order], np.arange(len(order)), NO_ID))[:-1])
    found = np.append(order, NO_ID)[last]
    same = np.append(lane, NO_ID)[found] == lane[order]
    result = np.full(len(lane), NO_ID, np.int64)
    result[order] = np.where(same & (found != NO_ID), found, NO_ID)
    return result
