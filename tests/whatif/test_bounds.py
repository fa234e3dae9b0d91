"""Bounds of a prediction: with what may have to stay, and without what may not be needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Dependencies
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import simulate
from overlapscope.whatif.catalogue import changed, understood
from overlapscope.whatif.change import Editor
from overlapscope.whatif.interval import bounding_graphs
from tests.notation import trace_of

TEXT = """
    thread 1: copy 10MB pinned HtoD 0-4 -> stream 7: 10-210 | copy 10MB pinned HtoD 6-10 -> stream 7: 212-412
              launch 12-16 -> stream 7: 414-514
"""


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return Editor(build_graph(trace_of(tmp_path, TEXT)))


def into(editor: Editor, work: int, *kinds: DependencyKind) -> Dependencies:
    rows = editor.graph.into(editor.graph.work_start(np.array([work])), *kinds)
    return editor.dependencies.take(rows[rows >= 0])


def test_where_nothing_is_open_both_are_the_graph_itself(editor: Editor) -> None:
    assert bounding_graphs(editor.graph, editor, understood("pin")) == (editor.graph, editor.graph)


def test_what_is_avoidable_goes_and_what_else_connects_the_same_two_stays(editor: Editor) -> None:
    """Two copies follow each other on their stream and on their copy engine."""
    editor.avoidable = into(editor, 1, DependencyKind.STREAM_ORDER)
    less, more = bounding_graphs(editor.graph, editor, ())
    assert len(less.dependencies) == len(editor.dependencies) - 1
    kinds = less.dependencies.kind[less.dependencies.target == less.work_start(np.array([1]))[0]]
    assert sorted(kinds.tolist()) == [DependencyKind.LAUNCH, DependencyKind.COPY_ENGINE]
    assert more is editor.graph


def test_what_is_possible_comes_unless_it_makes_a_cycle(editor: Editor) -> None:
    graph, work = editor.graph, np.array([2])
    editor.possible = Dependencies.of(graph.work_start(work - 2), graph.work_start(work), 900_000, DependencyKind.EVENT)
    less, more = bounding_graphs(graph, editor, ())
    assert less is graph
    assert simulate(more).time_ns.max() == 10_000 + 900_000 + 100_000
    editor.possible = Dependencies.of(graph.work_end(work), graph.work_start(work - 2), 0, DependencyKind.EVENT)
    assert bounding_graphs(graph, editor, ()) == (graph, graph), "it is more order than there can be"


def test_moved_copies_go_round_two_buffers_at_worst_and_are_not_waited_for_at_best(editor: Editor) -> None:
    before, changes = editor.graph, understood("side-stream")
    edited = changed(before, changes)
    less, more = bounding_graphs(before, edited, changes)
    kernel = edited.graph.work_start(np.array([2]))
    waits = edited.dependencies.source[edited.dependencies.target == kernel]
    assert np.isin(edited.graph.work_end(np.array([1])), waits)
    assert less.dependencies.kind[less.dependencies.target == kernel].tolist() == [DependencyKind.LAUNCH]
    assert len(more.dependencies) >= len(edited.dependencies)
