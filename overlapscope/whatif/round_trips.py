"""D2H-H2D round trips: what goes to the GPU may be what came from it before, where as many bytes did."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction
from overlapscope.whatif.streams import codes


def round_trips(graph: Graph, up: Int64, follow_ns: int, *, inputs: bool) -> Dependencies:
    """Each of some copies to the GPU after the last one of as many bytes that its stream brought to the host before.

    Where the first of as many bytes goes up, what goes up comes from elsewhere, and what comes down are results, most
    likely; with ``inputs`` it waits all the same, and for copies without a size, which may have as many.
    """
    work, issued = graph.work, graph.work.issued_ns(graph.calls)
    size = np.append(graph.trace.copies.size_bytes, NO_ID)[work.copy]
    down = np.flatnonzero((work.engine == Direction.DTOH) & (inputs & (size < 0) | (size > 0)))
    source = np.full(len(up), NO_ID, np.int64)
    kind = codes(np.stack([size, work.process, work.device, work.stream]))
    for one in np.unique(kind[up]).tolist():
        theirs, mine = down[kind[down] == one], kind[up] == one
        theirs = theirs[np.argsort(issued[theirs], kind="stable")]
        if not len(theirs) or (not inputs and issued[theirs[0]] > issued[up[mine]].min()):
            continue
        source[mine] = np.append(NO_ID, theirs)[np.searchsorted(issued[theirs], issued[up[mine]])]
    apart = work.end_ns[source] <= work.start_ns[up]  # else the trace shows that they do not wait
    source = np.where(apart, source, NO_ID)
    return Dependencies.of(graph.work_end(source), graph.work_start(up), follow_ns, DependencyKind.EVENT)
