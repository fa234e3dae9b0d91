"""What goes to the device may be what came from it before: copies of as many bytes."""

from __future__ import annotations

import numpy as np

from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import Direction
from overlapscope.whatif.config import SimulationConfig
from overlapscope.replay.edits.common import codes
from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind


def sent_back(graph: Graph, up: Bool, config: SimulationConfig, *, inputs: bool) -> Dependencies:
    """Each copy to the device after the last one of as many bytes that its stream brought to the host before.

    Where the first of as many bytes goes up, what goes up comes from elsewhere, and what comes down are results, most
    likely; with ``inputs`` it waits all the same.
    """
    work = graph.work
    size = np.append(graph.trace.copies.size_bytes, NO_ID)[work.copy]
    down = np.flatnonzero((work.engine == Direction.DTOH) & (size > 0))
    rows = np.flatnonzero(up)
    issued = work.issued_ns(graph.calls)
    source = np.full(len(rows), NO_ID, np.int64)
    kind = codes(np.stack([size, work.process, work.device, work.stream]))
    for one in np.unique(kind[rows]).tolist():
        theirs, mine = down[kind[down] == one], kind[rows] == one
        theirs = theirs[np.argsort(issued[theirs], kind="stable")]
        if not len(theirs) or (not inputs and issued[theirs[0]] > issued[rows[mine]].min()):
            continue
        source[mine] = np.append(NO_ID, theirs)[np.searchsorted(issued[theirs], issued[rows[mine]])]
    apart = work.end_ns[source] <= work.start_ns[rows]  # else the trace shows that they do not wait
    source = np.where(apart, source, NO_ID)
    return Dependencies.of(graph.work_end(source), graph.work_start(rows), config.follow_ns, DependencyKind.EVENT)
