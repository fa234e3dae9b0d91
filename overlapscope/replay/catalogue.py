"""Which edit stands for which change."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np

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

_OF_RUNS = ("coalesce", "graph")


def changed(graph: Graph, changes: Iterable[Change], config: ReplayConfig = DEFAULT) -> Edited:
    """The graph with some changes, in an order that does not depend on theirs.

    Those of one name and value are made as one, of all that they are about; not so those that make one of what comes
    together, which keep what each is about apart.
    """
    basis: list[str] = []
    doubtful, kept = [Edges.none()], [Edges.none()]
    order = list(EDITS)
    ordered = sorted(changes, key=lambda change: (order.index(change.name), change.value or 0, str(change)))
    for (name, value, _), alike in groupby(ordered, key=_made_as_one):
        where, missing = _meant(graph, list(alike), value)
        basis += [f"{change}: nothing in the trace is meant by that" for change in missing]
        if where is None:
            continue
        edited = EDITS[name](graph, where, config)
        graph = edited.graph
        doubtful.append(edited.doubtful)
        kept.append(edited.kept)
        basis += [f"{name}: {text}" for text in edited.basis]
    return Edited(graph, tuple(basis), Edges.together(*doubtful), Edges.together(*kept))


def _made_as_one(change: Change) -> tuple[str, float | None, str]:
    """Equal for changes that are made as one."""
    return change.name, change.value, str(change) if change.name in _OF_RUNS else ""


def _meant(graph: Graph, changes: list[Change], value: float | None) -> tuple[Where | None, list[Change]]:
    """What any of some changes is about, and which of them are about nothing in the trace."""
    places, missing = [], []
    for change in changes:
        copies, calls = change.concerns(graph.trace)
        meant = copies.any() if change.stream is not None else copies.any() or calls.any()
        if meant:
            places.append((copies, calls))
        else:
            missing.append(change)
    if not places:
        return None, missing
    copies, calls = (np.logical_or.reduce(masks) for masks in zip(*places, strict=True))
    return Where(copies, calls, value), missing
