"""Find the places that a change edits: its copies where these become others, else the calls that it makes shorter."""

from __future__ import annotations

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import OWN_DURATION, WAITS
from overlapscope.diagnosis.finding import Share
from overlapscope.diagnosis.places import Moments, shares
from overlapscope.measure.windows import Window, inside
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.whatif.catalogue import Edits
from overlapscope.whatif.change import Change

_COLUMNS = ("stream", "source_kind", "target_kind")


def edited_places(edits: Edits, window: Window, change: Change, others: tuple[Change, ...]) -> tuple[Share, ...]:
    """Where a change edits a program that has the other changes, what takes longest in the trace first.

    Races are in order on both sides: that order is no part of the change.
    """
    graph, trace = edits.graph, edits.graph.trace
    before, after = (edits.changed(changes, in_order=True).graph for changes in (others, (*others, change)))
    copies = np.flatnonzero(_other_copies(before, after) & inside(trace, trace.copies, window))
    calls = trace.copies.call[copies]
    if len(copies):
        at, cost_ns = Moments.of_calls(trace, calls, trace.copies.stream[copies]), trace.copies.duration_ns[copies]
    else:
        row = graph.calls.row[_shorter_calls(before, after)]
        row = row[inside(trace, trace.api_calls, window)[row]]
        at, cost_ns = Moments.of_calls(trace, row), trace.api_calls.duration_ns[row]
    return shares(trace, at, cost_ns, NO_ID)


def _other_copies(before: Graph, after: Graph) -> Bool:
    """Which copies have another stream or other memory."""
    one, other = before.trace.copies, after.trace.copies
    result: Bool = np.any([getattr(one, name) != getattr(other, name) for name in _COLUMNS], axis=0)
    return result


def _shorter_calls(before: Graph, after: Graph) -> Int64:
    """The calls that take less time by themselves, or wait for less."""
    end = before.call_end(np.arange(len(before.calls)))
    less = [was > now for was, now in zip(_taken_and_waits(before), _taken_and_waits(after), strict=True)]
    return np.flatnonzero(np.logical_or(*less)[end])


def _taken_and_waits(graph: Graph) -> tuple[Int64, Int64]:
    """For each node how long its own call takes, and for how much else it waits."""
    edges, nodes = graph.dependencies, len(graph.time_ns)
    own, waits = edges.of_kind(*OWN_DURATION), edges.of_kind(*WAITS)
    taken = np.bincount(edges.target[own], edges.weight_ns[own], nodes).astype(np.int64)
    return taken, np.bincount(edges.target[waits], minlength=nodes)
