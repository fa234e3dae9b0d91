"""Find the calls that were captured into a CUDA graph: they issue nothing until the graph is launched."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import Bool
from overlapscope.model.tables import ApiCalls

_BEGIN, _END = "StreamBeginCapture", "StreamEndCapture"


def captured(calls: ApiCalls) -> Bool:
    """Which calls lie between the begin and the end of a capture on their thread."""
    begins, ends = (np.isin(calls.name_id, _named(calls, part)) for part in (_BEGIN, _END))
    result = np.zeros(len(calls), np.bool_)
    for process, thread in {*zip(calls.process[begins].tolist(), calls.thread[begins].tolist(), strict=True)}:
        rows = np.flatnonzero((calls.process == process) & (calls.thread == thread))
        depth = np.cumsum(begins[rows].astype(np.int64) - ends[rows])
        result[rows] = depth > np.minimum(np.minimum.accumulate(depth), 0)
    return result


def _named(calls: ApiCalls, part: str) -> list[int]:
    return [number for number in np.unique(calls.name_id).tolist() if part in calls.names[number]]
