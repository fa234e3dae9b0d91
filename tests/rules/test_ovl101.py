"""The rule OVL101, early-upload."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope import audit, what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis.finding import Confidence, Severity
from overlapscope.diagnosis.plan import edited_places
from overlapscope.measure.windows import whole
from overlapscope.model.enums import Direction
from overlapscope.whatif.catalogue import Edits
from overlapscope.whatif.change import Change, Editor
from overlapscope.whatif.changes.faster_link import FasterLink
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules import RuleTests, noted
from tests.rules.traces import LATER, OTHERS, ROUND_TRIP, SAME, TOGETHER, columns, reported

OTHER = {"host_accesses": columns(op_start_ns=[9, 29], tensor=[0, 1], access=[0, 1])}


class TestOvl101(RuleTests):
    code = "OVL101"
    reports = (noted(ROUND_TRIP.format(TOGETHER), **SAME),)
    silent = (noted(ROUND_TRIP.format(TOGETHER), **OTHER),)


@pytest.mark.parametrize(("times", "confidence"), [(TOGETHER, Confidence.HIGH), (LATER, Confidence.MEDIUM)])
def test_an_upload_of_what_has_not_come_down(times: str, confidence: Confidence, tmp_path: Path) -> None:
    finding = reported(tmp_path, "OVL101", ROUND_TRIP.format(times), **SAME)
    assert finding is not None
    assert (finding.severity, finding.confidence) == (Severity.HAZARD, confidence)
    assert finding.evidence == {"unordered": 1, "began_early": int(times == TOGETHER)}
    assert len(finding.copies) == 2
    assert reported(tmp_path, "OVL101", ROUND_TRIP.format(times), **OTHER) is None, "of another tensor"
    ordered = ROUND_TRIP.replace(
        "| op aten::copy_ 29", "| record A 14-15 -> stream 7 | wait A 16-17 -> stream 20 | op aten::copy_ 29"
    )
    assert reported(tmp_path, "OVL101", ordered.format(LATER), **SAME) is None


def test_a_prediction_has_racing_copies_in_order_and_says_so(tmp_path: Path) -> None:
    for notes, race in ((SAME, True), (OTHER, False)):
        trace = trace_of(tmp_path, ROUND_TRIP.format(TOGETHER), **make.calibrated(**notes))
        result = what_if(trace, ["faster-link=1"])
        graph, times = result.simulation.graph, result.simulation.time_ns
        down, up = (np.flatnonzero(graph.work.engine == way) for way in (Direction.DTOH, Direction.HTOD))
        assert (times[graph.work_start(up)] >= times[graph.work_end(down)]) == race
        said = "assumes that OVL101 is fixed first, so that the accesses of 1 pair are in order"
        assert (said in result.assumptions) == race
        assert result.in_order == ("OVL101",) * race


def test_the_order_of_races_is_no_edit_of_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program with the change and the one without it, which are compared, both have the races in order."""
    trace = trace_of(tmp_path, ROUND_TRIP.format(TOGETHER), **make.calibrated(**SAME))
    edits, compared, changed = Edits(build_graph(trace)), [], Edits.changed

    def noted(edits: Edits, changes: Iterable[Change], *, in_order: bool = False) -> Editor:
        compared.append(changed(edits, changes, in_order=in_order))
        return compared[-1]

    monkeypatch.setattr(Edits, "changed", noted)
    edited_places(edits, whole(trace), FasterLink(gb_s=1), ())
    monkeypatch.undo()
    assert edits.changed(()).graph.dependencies.of_kind(DependencyKind.EVENT).sum() == 0
    assert [each.graph.dependencies.of_kind(DependencyKind.EVENT).sum() for each in compared] == [1, 1]


def issued(what: str) -> str:
    """Copies down and up, ``d1`` and ``u1`` of size 1, and kernels ``k``: all behind a long kernel, but up at once."""
    items = ["launch 0-1 -> stream 7: 2-990"]
    for number, each in enumerate(what.split(), 1):
        call, at = f"{10 * number}-{10 * number + 2}", f"{900 + 100 * number}-{990 + 100 * number}"
        items.append(
            {
                "d": f"copy {each[1:]}MB pinned DtoH {call} -> stream 7: {at}",
                "u": f"copy {each[1:]}MB pinned HtoD {call} -> stream 20: {10 * number + 3}-{10 * number + 9}",
                "k": f"launch {call} -> stream 7: {at}",
            }[each[0]]
        )
    return "thread 1: " + " | ".join(items)


SUSPECTED = {
    "a cache of three layers, keys and values": ("d1 d1 k d1 d1 k u1 u1 k d1 d1 k u1 u1 k u1 u1", 6),
    "three of a size are not enough": ("d1 d1 k d1 k u1 k u1 k u1", 0),
    "pieces of results, and then of inputs": ("k d1 d1 d1 d1 u1 u1 u1 u1", 0),
    "each goes up right after one came down": ("k d1 u1 k d1 u1 k d1 u1", 3),
    "twice is not enough": ("k d1 u1 k d1 u1", 0),
    "pairs go up right after pairs": ("d1 d1 u1 u1 k d1 d1 u1 u1 k d1 d1 u1 u1", 6),
    "results, and inputs some work later": ("d1 k u1 k d1 k u1 k d1 k u1 k", 0),
    "an input goes first": ("u1 k d1 u1 k d1 u1 k d1 u1 k d1", 0),
    "three sizes": ("d1 d2 d3 k u1 k u2 k u3", 3),
    "sizes that go down again": ("d1 d2 d3 k u1 k d1 k u2 k d2 k u3 k d3 k u1 k u2 k u3", 0),
}


@pytest.mark.parametrize("case", SUSPECTED)
def test_a_trace_without_tensors_suspects_what_is_put_away_and_comes_back_too_early(case: str, tmp_path: Path) -> None:
    order, uploads = SUSPECTED[case]
    finding = reported(tmp_path, "OVL101", issued(order))
    assert (0 if finding is None else len(finding.copies)) == uploads
    if finding is not None:
        assert finding.confidence is Confidence.LOW
        assert finding.message.startswith(f"Suspected: {uploads} uploads")
        assert reported(tmp_path, "OVL101", issued(order), **OTHER) is None, "what is known is not suspected"
        late = re.sub(
            r"stream 20: (\d+)-(\d+)", lambda at: f"stream 20: {int(at[1]) + 3000}-{int(at[2]) + 3000}", issued(order)
        )
        assert reported(tmp_path, "OVL101", late) is None, "all had arrived"


def test_a_plan_says_which_suspicion_comes_before_it(tmp_path: Path) -> None:
    result = audit(trace_of(tmp_path, issued("k d1 u1 " * 6) + " | sync 990-2800"))
    assert result.diagnosis.plan is not None
    changes = " + ".join(result.diagnosis.plan.steps[-1].changes)
    assert "side-stream" in changes
    assert f"With {changes}: " in result.headline
    assert "Settle OVL101 first." in result.headline
    race, leaving, arriving, *_ = result.diagnosis.plan.steps[-1].assumes
    assert race == "assumes an order that OVL101 suspects to be missing"
    assert "nothing overwrites or reuses the memory that copies to the host read" in leaving
    assert "memory that no other stream still reads" in arriving


CACHE = ("down 0", "down 1", "down 2", "down 3", "up 0", "up 1", "up 2", "up 3")


def cache(between: str, up_from_us: int) -> tuple[str, dict[str, Any]]:
    """Four layers whose equal states go to the host behind kernels and come back on another stream, and its notes."""
    items, starts = [OTHERS], []
    for number, each in enumerate(CACHE):
        what, layer = each.split()
        issue = 10 + 10 * number + (900 * (what == "up") if up_from_us > 900 else 0)
        starts.append(issue)
        at = 500 + 100 * int(layer) if what == "down" else up_from_us + 20 * int(layer)
        where = f"DtoH {issue + 1}-{issue + 3} -> stream 7: {at}-{at + 90}" if what == "down" else ""
        where = where or f"HtoD {issue + 1}-{issue + 3} -> stream 20: {at}-{at + 15}"
        items += [between] * (each == "up 0" and bool(between))
        items += [f"op aten::copy_ {issue}-{issue + 4}", f"copy 4MB pinned {where}"]
    notes = columns(op_start_ns=starts, tensor=[0, 1, 2, 3] * 2, access=[0] * 4 + [1] * 4)
    return "thread 1: " + " | ".join(items) + " | sync 1900-1901", {"host_accesses": notes}


@pytest.mark.parametrize(
    ("between", "up_from_us", "confidence"),
    [
        ("", 60, Confidence.HIGH),
        ("", 1000, Confidence.MEDIUM),
        ("record A 45-46 -> stream 7 | wait A 47-48 -> stream 20", 1000, None),
        ("wait 47-48 -> stream 20", 1000, None),
        ("stream-sync 45-895 -> stream 7", 1000, None),
    ],
)
def test_a_cache_of_equal_sizes_is_certain_either_way(
    between: str, up_from_us: int, confidence: Confidence | None, tmp_path: Path
) -> None:
    text, notes = cache(between, up_from_us)
    finding = reported(tmp_path, "OVL101", text, **notes)
    assert (None if finding is None else finding.confidence) is confidence
