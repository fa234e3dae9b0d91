"""Streams and copy engines on which common work comes in another order: that order is the one of issue."""

from __future__ import annotations

import numpy as np

from overlapscope.comparison.matching import Matching
from overlapscope.dependencies.graph import Graph, Work
from overlapscope.measure.distinct import distinct_columns
from overlapscope.model.columns import NO_ID, Bool, Int64


def reordered(graph: Graph, other: Graph, matching: Matching, queue: str) -> Bool:
    """Which work of a graph is in a queue where work that shares one in both graphs comes in another order.

    ``queue`` is the column that says in which one it is: ``stream`` or ``engine``.
    """
    own, theirs = numbers(graph.work, queue), numbers(other.work, queue)
    mine, their = matching.work.before, matching.work.after
    order = np.lexsort((mine, theirs[their], own[mine]))
    queues = np.stack([own[mine], theirs[their]])[:, order]
    back = (np.diff(queues, axis=1) == 0).all(axis=0) & (np.diff(their[order]) < 0)
    found: Bool = (own != NO_ID) & np.isin(own, queues[0, 1:][back])
    return found


def numbers(work: Work, queue: str) -> Int64:
    """A number for each piece of work, the same for those in one queue; `NO_ID` for those in none."""
    kind = getattr(work, queue)
    number = distinct_columns(np.stack([work.process, work.device, kind]))[1]
    return np.where((queue == "engine") & (kind == 0), NO_ID, number)
