"""Waits of a stream for an event that no trace tells which: Kineto of CUDA 12.9 and later leaves many open.

Each may be for any other stream of its GPU, so that the upper bound of a prediction has all that agree with the trace.
"""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.device import by_issue
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SyncKind
from overlapscope.model.trace import Trace


def possible_waits(graph: Graph, follow_ns: int) -> Dependencies:
    """From the last work issued to each other stream before an open wait, to the first work after it on its own."""
    syncs, work, issued = graph.trace.syncs, graph.work, graph.work.issued_ns(graph.calls)
    rows = np.flatnonzero(open_waits(graph.trace))
    if not len(rows):
        return Dependencies.none()
    asked_ns, parts = graph.trace.api_calls.start_ns[syncs.call[rows]], [Dependencies.none()]
    of_stream = {place: by_issue(work, issued, *place) for place in graph.streams}
    for (process, device, stream), following in of_stream.items():
        mine = (syncs.process[rows] == process) & (syncs.stream[rows] == stream)
        mine &= np.isin(syncs.device[rows], (device, NO_ID))
        target = np.append(following, NO_ID)[np.searchsorted(issued[following], asked_ns[mine])]
        for (*place, other), before in of_stream.items():
            if place == [process, device] and other != stream:
                source = np.append(NO_ID, before)[np.searchsorted(issued[before], asked_ns[mine])]
                parts.append(_in_time(graph, source, target, follow_ns))
    return Dependencies.together(*parts)


def open_waits(trace: Trace) -> Bool:
    """Which synchronisations are waits of a stream for one that is neither recorded nor inferred."""
    syncs = trace.syncs
    found: Bool = (syncs.kind == SyncKind.STREAM_WAIT_EVENT) & (syncs.source_stream == NO_ID) & (syncs.call != NO_ID)
    return found


def _in_time(graph: Graph, source: Int64, target: Int64, follow_ns: int) -> Dependencies:
    """Of some pairs of work those of which the one ended before the other began."""
    ended = np.append(graph.work.end_ns, 0)[source] <= np.append(graph.work.start_ns, 0)[target]
    source, target = graph.work_end(np.where(ended, source, NO_ID)), graph.work_start(target)
    return Dependencies.of(source, target, follow_ns, DependencyKind.EVENT, inferred=True)
