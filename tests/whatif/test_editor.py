"""The editor of a graph: dependencies and trace are changed in step, and the graph that it began with stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Dependencies
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import simulate
from overlapscope.whatif.change import Editor, Where
from tests.notation import trace_of

TEXT = """
    thread 1: launch 0-4 -> stream 7: 10-1_010 | copy 10MB pinned DtoH 10-14 -> stream 7: 1_012-1_212
              stream-sync 20-1_215 | launch 1_220-1_224 -> stream 7: 1_230-1_330
"""


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return Editor(build_graph(trace_of(tmp_path, TEXT)))


def kernels_ns(editor: Editor) -> int:
    return int(simulate(editor.graph).time_ns.max())


def test_weights_are_limited_and_never_raised(editor: Editor) -> None:
    before, rows = editor.graph, editor.dependencies.of_kind(DependencyKind.EXECUTION)
    editor.limit_weights(rows, 500_000)
    assert editor.dependencies.weight_ns[rows].tolist() == [500_000, 200_000, 100_000]
    assert before.dependencies.weight_ns[rows].tolist() == [1_000_000, 200_000, 100_000], "the old graph stays"
    assert kernels_ns(editor) == 1_330_000 - 500_000


def test_calls_without_waits_take_no_longer_than_they_may(editor: Editor) -> None:
    """The synchronisation takes 2 us then, and the launch after it comes 5 us later."""
    editor.without_waits(np.array([2]), 2_000)
    times = simulate(editor.graph).time_ns
    assert times[editor.graph.call_end(np.array([2]))] == 22_000
    assert times[editor.graph.call_start(np.array([3]))] == 27_000
    assert not editor.dependencies.of_kind(DependencyKind.SYNCHRONISATION).any()


def test_dependencies_come_from_elsewhere_are_added_and_removed(editor: Editor) -> None:
    graph = editor.graph
    launch = graph.into(graph.work_start(np.array([2])), DependencyKind.LAUNCH)
    editor.set_sources(launch, graph.call_start(np.array([0])), 7_000)
    assert (editor.dependencies.source[launch[0]], editor.dependencies.weight_ns[launch[0]]) == (0, 7_000)
    count = len(editor.dependencies)
    editor.add(Dependencies.of(graph.work_end(np.array([0])), graph.call_start(np.array([3])), 0, DependencyKind.EVENT))
    assert len(editor.dependencies) == count + 1
    editor.remove(editor.dependencies.of_kind(DependencyKind.EVENT))
    assert len(editor.dependencies) == count


def test_copies_get_other_columns_of_the_same_type(editor: Editor) -> None:
    before = editor.trace.copies
    editor.set_copies(stream=np.array([20]))
    assert editor.trace.copies.stream.tolist() == [20]
    assert editor.trace.copies.stream.dtype == before.stream.dtype
    assert (before.stream.tolist(), editor.graph.trace is editor.trace) == ([7], True)


def test_what_a_change_is_about_is_work_and_calls(editor: Editor) -> None:
    every = Where(np.array([True]), np.ones(4, np.bool_))
    assert every.work(editor.graph).tolist() == [1]
    assert editor.graph.work_of_rows(np.array([False])).tolist() == []
    assert editor.calls_of(np.array([True])).tolist() == [1]


def test_assumptions_are_noted_once(editor: Editor) -> None:
    editor.assume("one", "two", "one")
    editor.assume("two", "three")
    assert editor.assumptions == ["one", "two", "three"]
