"""Pinned copies over a link run at another bandwidth."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.model.enums import MemoryKind
from overlapscope.replay.config import ReplayConfig
from overlapscope.replay.edits.common import Edited, Where
from overlapscope.replay.graph import Because, Graph


def faster_link(graph: Graph, where: Where, config: ReplayConfig) -> Edited:
    """``where.value`` GB/s, for those that are slower; staging does not get faster by it."""
    del config
    copies = graph.trace.copies
    mine = where.copies & (host_kind(copies) == MemoryKind.PINNED) & (copies.size_bytes > 0)
    some = Where(mine, where.calls).work(graph)
    run = graph.into(graph.work_end(some), Because.RUN)
    lag = graph.edges.lag_ns.copy()
    wanted = np.rint(copies.size_bytes[graph.work.row[some]] / (where.value or np.inf)).astype(np.int64)
    faster = lag[run] > wanted
    if not faster.any():
        return Edited(graph, (f"no pinned copy is slower than {where.value:g} GB/s",))
    lag[run[faster]] = wanted[faster]
    return Edited(graph.with_lags(lag), (f"a link of {where.value:g} GB/s, as asked for",))
