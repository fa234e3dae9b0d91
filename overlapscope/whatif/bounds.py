"""The same changes with less and with more order than a trace can show: bounds of a prediction."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.open_waits import possible_waits
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.whatif.change import Change
from overlapscope.whatif.editor import Editor


def bounding_graphs(before: Graph, editor: Editor, changes: Iterable[Change]) -> tuple[Graph, Graph]:
    """The changed graph without what may not be needed, and with what may have to be there too.

    Such are the waits of which the trace does not say what they are for.
    """
    after = editor.graph
    found = [each.bounds(before, after, editor.config) for each in {change.name: change for change in changes}.values()]
    open_order = [bounds for bounds in found if bounds is not None]
    avoidable = Dependencies.together(editor.avoidable, *(bounds.avoidable for bounds in open_order))
    moved = Dependencies.together(Dependencies.none(), *(bounds.possible for bounds in open_order[:1]))
    edges = after.dependencies
    gone = edges.among(avoidable) & np.isin(edges.kind, avoidable.kind)  # a copy engine stays one
    less = after.with_dependencies(edges.take(~gone)) if gone.any() else after
    waits = possible_waits(before, editor.config.dependencies)
    together = (editor.possible, moved, waits), (editor.possible, moved), (editor.possible,), (moved,), (waits,)
    for extra in (Dependencies.together(*parts) for parts in together):
        more = after.with_dependencies(after.dependencies, extra)
        if len(extra) and not has_cycle(more):  # else it is more order than there can be
            return less, more
    return less, after
