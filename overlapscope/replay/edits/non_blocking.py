"""The host does not wait for copies."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import Direction
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.edits.common import Edited, Where, enqueue_ns, index_of_calls, without_wait
from overlapscope.replay.graph import Graph


def non_blocking(graph: Graph, where: Where, config: ReplayConfig) -> Edited:
    """The synchronisation that directly follows a copy is gone."""
    del config
    synchronised = synchronised_copy(graph.trace)[graph.calls.row]
    some = np.append(where.copies, False)[synchronised] & (synchronised != NO_ID)
    return Edited(without_wait(graph, np.flatnonzero(some)))


def no_host_read(graph: Graph, where: Where, config: ReplayConfig) -> Edited:
    """Copies to the host are not waited for, neither in their own calls nor right after."""
    down = where.copies & (graph.trace.copies.direction == Direction.DTOH)
    graph = non_blocking(graph, Where(down, where.calls), config).graph
    calls = index_of_calls(graph)[graph.trace.copies.call[down]]
    return Edited(without_wait(graph, calls[calls != NO_ID], enqueue_ns(graph, config)))
