"""Calls that allocate or free are gone."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.threads import ALLOCATIONS
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.common import Edited, Where, without_wait
from overlapscope.dependencies.graph import Graph


def preallocate(graph: Graph, where: Where, config: SimulationConfig) -> Edited:
    """Those within the range asked for."""
    del config
    calls = np.flatnonzero(np.isin(graph.calls.kind, ALLOCATIONS) & where.calls[graph.calls.row])
    return Edited(without_wait(graph, calls))
