"""Which edit stands for which change."""

from __future__ import annotations

from collections.abc import Iterable

from overlapscope.replay.changes import Change
from overlapscope.replay.config import DEFAULT, ReplayConfig
from overlapscope.replay.edits.common import Edit, Edited, Where
from overlapscope.replay.edits.faster_link import faster_link
from overlapscope.replay.edits.non_blocking import no_host_read, non_blocking
from overlapscope.replay.edits.pin import pin
from overlapscope.replay.edits.preallocate import preallocate
from overlapscope.replay.edits.prefetch import prefetch
from overlapscope.replay.edits.runs import coalesce, graph_launch
from overlapscope.replay.edits.side_stream import side_stream
from overlapscope.replay.graph import Edges, Graph

EDITS: dict[str, Edit] = {
    "pin": pin,
    "coalesce": coalesce,
    "no-host-read": no_host_read,
    "non-blocking": non_blocking,
    "preallocate": preallocate,
    "faster-link": faster_link,
    "side-stream": side_stream,
    "prefetch": prefetch,
    "graph": graph_launch,
}
"""In the order in which they are made: what copies are comes before where they go."""


def changed(graph: Graph, changes: Iterable[Change], config: ReplayConfig = DEFAULT) -> Edited:
    """The graph with some changes, in an order that does not depend on theirs."""
    basis: list[str] = []
    doubtful, kept = [Edges.none()], [Edges.none()]
    order = list(EDITS)
    for change in sorted(changes, key=lambda change: order.index(change.name)):
        copies, calls = change.concerns(graph.trace)
        meant = copies.any() if change.stream is not None else copies.any() or calls.any()
        if not meant:
            basis.append(f"{change}: nothing in the trace is meant by that")
            continue
        edited = EDITS[change.name](graph, Where(copies, calls, change.value), config)
        graph = edited.graph
        doubtful.append(edited.doubtful)
        kept.append(edited.kept)
        basis += [f"{change.name}: {text}" for text in edited.basis]
    return Edited(graph, tuple(basis), Edges.together(*doubtful), Edges.together(*kept))
