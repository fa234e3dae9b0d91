"""Count the copies that are queued for a GPU when one more is issued."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.devices import device_keys
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace


def copies_before(trace: Trace) -> Int64:
    """For each copy, how many others of its GPU were issued before and not complete when its call began.

    `NO_ID` where its call is not in the trace.
    """
    copies = trace.copies
    issued = np.append(trace.api_calls.start_ns, 0)[copies.call]
    result = np.full(len(copies), NO_ID, np.int64)
    for key in device_keys(trace):
        rows = np.flatnonzero(key.rows(copies) & (copies.call != NO_ID))
        order, ends = np.sort(issued[rows]), np.sort(copies.end_ns[rows])
        complete = np.searchsorted(ends, issued[rows], "right")
        result[rows] = np.searchsorted(order, issued[rows]) - complete
    return np.maximum(result, NO_ID)
