"""The changes that there are: each a class in a file of its own, listed, explained, and written as it is read."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from overlapscope import what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.simulate import simulate
from overlapscope.whatif import catalogue, changes
from overlapscope.whatif.catalogue import CHANGES, Edits, change_of, changed, parse, understood
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.changes import NAMES
from tests.notation import trace_of

HEADINGS = ["What it changes", "What it assumes", "Bounds", "When it misleads"]
"""Sections of a change's page, in this order; the first and the last one are always there."""


def written(kind: type[Change]) -> str:
    """A change with a number where it takes one."""
    return kind.name if kind.option is None else f"{kind.name}=2"


def test_every_change_has_a_file_and_every_file_a_change() -> None:
    modules = [import_module(f"{changes.__name__}.{found.name}") for found in pkgutil.iter_modules(changes.__path__)]
    defined = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Change) and value.__module__ == module.__name__
    ]
    assert len(defined) == len(modules)
    assert set(defined) == set(CHANGES)
    for kind in defined:
        module = kind.__module__.rpartition(".")[2]
        assert module == kind.name.replace("-", "_")
        assert (Path(__file__).parent.parent / "changes" / f"test_{module}.py").exists()


@pytest.mark.parametrize("kind", CHANGES, ids=NAMES)
def test_every_change_has_a_page(kind: type[Change]) -> None:
    first, *sections = re.split(r"^## (.+)$", kind.page(), flags=re.MULTILINE)
    headings, texts = sections[::2], [text.strip() for text in sections[1::2]]
    assert first.strip().endswith(".")
    assert "\n\n" not in first.strip(), "one sentence or two"
    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert {"What it changes", "When it misleads"} <= set(headings)
    assert all(text.endswith(".") for text in texts)
    assert ("Bounds" in headings) == ("bounds" in vars(kind))


@pytest.mark.parametrize("kind", CHANGES, ids=NAMES)
def test_every_change_is_read_as_it_is_written(kind: type[Change]) -> None:
    assert str(parse(written(kind))) == written(kind)
    limited = f"{written(kind)}:within=my step,source=train.py"
    assert str(parse(limited)) == limited
    assert type(parse(limited)) is kind is change_of(kind.name)
    if not kind.changes_calls:
        assert parse(f"{written(kind)}:stream=13").stream == 13


def test_names_of_before_are_read_and_written_as_they_are_now() -> None:
    known = {kind.old_name: kind.name for kind in CHANGES if kind.old_name}
    assert known == {"graph": "cuda-graph", "coalesce": "batch-copies", "no-host-read": "no-scalar-sync"}
    for old, new in known.items():
        assert str(parse(f"{old}:within=step")) == f"{new}:within=step"
        assert change_of(old).name == new
    assert not known.keys() & set(NAMES)
    assert change_of("nonsense") is None


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.name)
def test_a_condition_is_one_short_clause(kind: type[Change]) -> None:
    assert not kind.condition or kind.condition.startswith("if ")
    assert len(kind.condition.split()) <= 10
    assert bool(kind.condition) != (kind.name == "faster-link"), "hardware asks nothing of a program"


@dataclass(frozen=True)
class ShorterKernels(Change):
    """A change that nobody has: kernels take a share of their time."""

    name: ClassVar[str] = "shorter-kernels"
    option: ClassVar[str | None] = "times"
    times: float = 2.0

    def apply(self, editor: Editor, where: Where) -> None:
        """Those that are issued where the change applies."""
        graph, edges = editor.graph, editor.dependencies
        mine = np.flatnonzero((graph.work.table == 0) & np.append(where.calls, False)[graph.calls.row[graph.work.call]])
        rows = graph.into(graph.work_end(mine), DependencyKind.EXECUTION)
        editor.limit_weights(rows, (edges.weight_ns[rows] / self.times).astype(np.int64))
        editor.assume("kernels can be shorter")


def test_a_new_change_needs_a_class_and_a_line_in_the_catalogue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is read, written, limited, made together with others, bounded and explained like any other."""
    monkeypatch.setattr(catalogue, "CHANGES", (*CHANGES, ShorterKernels))
    monkeypatch.setattr(catalogue, "NAMES", (*NAMES, ShorterKernels.name))
    trace = trace_of(
        tmp_path,
        """
        thread 1: range first 0-9 | launch 0-4 -> stream 7: 10-410 | launch 10-14 -> stream 7: 412-812
                  copy 20MB pinned HtoD 20-24 -> stream 7: 814-1_214
        """,
    )
    found = what_if(trace, ["shorter-kernels", "side-stream"])
    assert [str(each) for each in found.changes] == ["shorter-kernels=2", "side-stream"]
    assert found.after.kernels.duration_ns.tolist() == [200_000, 200_000]
    assert found.low_ns <= found.predicted_ns <= found.high_ns < found.simulated_ns
    assert "shorter-kernels: kernels can be shorter" in found.assumptions
    part = what_if(trace, "shorter-kernels=4:within=first")
    assert part.after.kernels.duration_ns.tolist() == [100_000, 400_000]
    assert ShorterKernels.page() == import_module(__name__).__doc__


def test_sets_of_changes_made_one_after_the_other_are_as_each_by_itself(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: memcpy 4MiB pageable HtoD 0-300 -> stream 7: 10-290 | stream-sync 301-302
                  launch 310-315 -> stream 7: 320-420
                  memcpy 8B pinned DtoH 430-450 -> stream 7: 435-440 | stream-sync 451-455
                  launch 460-465 -> stream 7: 470-570
        """,
    )
    graph = build_graph(trace)
    edits = Edits(graph)
    sets: tuple[list[str], ...] = (
        [],
        ["pin"],
        ["pin", "non-blocking"],
        ["pin", "no-scalar-sync"],
        ["non-blocking"],
        ["pin", "non-blocking"],
    )
    for texts in sets:
        changes = understood(texts)
        one, other = edits.changed(changes), changed(graph, changes)
        assert one.assumptions == other.assumptions, texts
        assert (simulate(one.graph).time_ns == simulate(other.graph).time_ns).all(), texts
        assert len(one.possible) == len(other.possible), texts
