"""Pinned copies over a link run at another bandwidth."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.model.enums import MemoryKind
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.common import Edited, Where
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind


def faster_link(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """``where.value`` GB/s, for those that are slower; staging does not get faster by it."""
    del config
    copies = graph.trace.copies
    mine = where.copies & (host_kind(copies) == MemoryKind.PINNED) & (copies.size_bytes > 0)
    some = Where(mine, where.calls).work(graph)
    run = graph.into(graph.work_end(some), DependencyKind.EXECUTION)
    weight = graph.dependencies.weight_ns.copy()
    wanted = np.rint(copies.size_bytes[graph.work.row[some]] / (where.value or np.inf)).astype(np.int64)
    faster = weight[run] > wanted
    if not faster.any():
        return Edited(graph, (f"no pinned copy is slower than {where.value:g} GB/s",))
    weight[run[faster]] = wanted[faster]
    return Edited(graph.with_weights(weight), (f"a link of {where.value:g} GB/s, as asked for",))
