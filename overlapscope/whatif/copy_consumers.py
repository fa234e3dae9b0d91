"""What may consume the tensors that copies bring: where a recording shows it, the operators that were given them."""

from __future__ import annotations

import numpy as np

from overlapscope.calibration.schema import CopyConsumers
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.operators import issuing_operators
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.whatif.streams import Streams


def first_consumers(graph: Graph, streams: Streams, copies: Int64, consumers: Bool) -> Int64:
    """For each of some copies the first of the ``consumers`` after it on its stream that may read what it brought.

    Work that torch's own operators issued reads only what these were given, where the trace knows that; all other
    work may read everything. `NO_ID` where nothing on the stream may.
    """
    work = graph.work
    order, place, stream = streams.order, streams.place, streams.stream
    known, owner, tensor = _given(graph)
    suspects = np.where(
        np.isin(copies, owner), _next(place[consumers & ~known], place[copies]), _next(place[consumers], place[copies])
    )
    mine, theirs = np.isin(owner, copies), consumers[owner]
    sharing = _next(tensor[theirs] * len(work) + place[owner[theirs]], tensor[mine] * len(work) + place[owner[mine]])
    sharing = np.where(sharing // len(work) == tensor[mine], sharing % len(work), _NEVER)
    first = np.full(len(work), _NEVER)
    np.minimum.at(first, owner[mine], sharing)
    found = np.append(order, NO_ID)[np.minimum(np.minimum(suspects, first[copies]), len(order))]
    return np.where((found != NO_ID) & (stream[found] == stream[copies]), found, NO_ID)


def consumers_known(graph: Graph) -> Bool:
    """Of which work it is known which copied tensors it was given."""
    known = np.zeros(len(graph.work), np.bool_)
    known[_given(graph)[1]] = True
    return known


_NEVER = np.iinfo(np.int64).max


def _next(values: Int64, after: Int64) -> Int64:
    """The smallest of the values beyond each."""
    values = np.append(np.sort(values), _NEVER)
    following: Int64 = values[np.searchsorted(values, after, "right")]
    return following


def _given(graph: Graph) -> tuple[Bool, Int64, Int64]:
    """Of which work the arguments are known, and which work was given which copied tensors, pair by pair."""
    work, recording = graph.work, graph.trace.metadata.recording
    known = np.zeros(len(work), np.bool_)
    nothing = np.empty(0, np.int64)
    if recording is None or recording.copy_consumers is None:
        return known, nothing, nothing
    operator = issuing_operators(graph, np.arange(len(work)))
    known = operator != NO_ID
    rows = np.flatnonzero(known)
    owner, tensor = _pairs(recording.copy_consumers, graph.trace.cpu_ops.start_ns[operator[rows]])
    return known, rows[owner], tensor


def _pairs(consumers: CopyConsumers, start_ns: Int64) -> tuple[Int64, Int64]:
    """Which of some operators were given which tensors, pair by pair."""
    first, last = (np.searchsorted(consumers.op_start_ns, start_ns, side) for side in ("left", "right"))
    owner, row = each_of(first, last)
    return owner, consumers.tensor[row]
