"""What nothing orders: the clocks of streams and host, and the findings about races."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope import Trace, audit, diagnose, what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.diagnosis import edits as edited
from overlapscope.diagnosis.finding import Confidence, Finding, Severity
from overlapscope.measure.windows import whole
from overlapscope.model.enums import Direction
from overlapscope.ordering.accesses import early_reads
from overlapscope.ordering.order import Order, Race
from overlapscope.whatif.catalogue import Edits
from overlapscope.whatif.changes.faster_link import FasterLink
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.opened import WITHOUT_PLAN

DOWN = "copy 4MB pinned DtoH 10-12 -> stream 7: 500-600"
UP = "copy 4MB pinned HtoD 30-32 -> stream 20: {}"
LATER, TOGETHER = "700-800", "40-140"
OTHERS = "launch 2-3 -> stream 20: 4-30 | launch 3-4 -> stream 7: 4-490"  # at the same time: no legacy default stream


def races(tmp_path: Path, text: str, first: int = -2, then: int = -1) -> Race:
    """Of two pieces of work of a trace, by their place in the order of issue."""
    graph = build_graph(trace_of(tmp_path, text))
    order = np.argsort(graph.work.issued_ns(graph.calls), kind="stable")
    return Race(int(Order(graph).of_work(order[[first]], order[[then]])[0]))


BETWEEN = {
    "nothing": ("", Race.UNORDERED),
    "an event": ("record A 14-15 -> stream 7 | wait A 16-17 -> stream 20", Race.NOT_KNOWN),
    "an event of before": ("", Race.UNORDERED),
    "a wait that may be for anything": ("wait 16-17 -> stream 20", Race.NOT_KNOWN),
    "a wait of another stream": ("record A 14-15 -> stream 7 | wait A 16-17 -> stream 21", Race.UNORDERED),
    "a wait in two steps": (
        "record A 14-15 -> stream 7 | wait A 16-17 -> stream 21 | "
        "record B 18-19 -> stream 21 | wait B 20-21 -> stream 20",
        Race.NOT_KNOWN,
    ),
    "a synchronisation": ("sync 16-650", Race.NOT_KNOWN),
    "one with its stream": ("stream-sync 16-650 -> stream 7", Race.NOT_KNOWN),
    "one with another stream": ("stream-sync 16-18 -> stream 20", Race.UNORDERED),
    "one with an event": ("record A 14-15 -> stream 7 | event-sync A 16-650 -> stream 7", Race.NOT_KNOWN),
    "one with an event that is not known": ("event-sync 16-650 -> stream 7", Race.NOT_KNOWN),
    "the same, over too early": ("event-sync 16-18 -> stream 7", Race.UNORDERED),
    "a query that came too early": ("cudaEventQuery 16-17", Race.UNORDERED),
    "a query that may have told": ("cudaEventQuery 16-650", Race.NOT_KNOWN),
    "an allocation that may have waited": ("cudaFree 16-650", Race.NOT_KNOWN),
    "a blocking copy on its stream": ("memcpy 4KB pinned DtoH 16-640 -> stream 7: 605-630", Race.NOT_KNOWN),
    "a blocking copy on another stream": ("memcpy 4KB pinned DtoH 16-26 -> stream 21: 18-24", Race.UNORDERED),
    "a pageable copy on its stream": ("copy 4KB pageable DtoH 16-640 -> stream 7: 605-630", Race.NOT_KNOWN),
    "a time that is there when both events are complete": ("cudaEventElapsedTime 16-650", Race.NOT_KNOWN),
    "code that is loaded": ("cuModuleLoadData 16-650", Race.NOT_KNOWN),
    "a host function that may tell": ("cudaLaunchHostFunc_v10000 16-17", Race.NOT_KNOWN),
    "a wait for a value in memory": ("cuStreamWaitValue32_v2 16-17", Race.NOT_KNOWN),
    "another thread": ("launch 13-14 -> stream 21: 20-24\nthread 2: launch 16-17 -> stream 21: 25-27", Race.UNORDERED),
    "another thread, told by one that waited": (
        "stream-sync 16-650 -> stream 7\nthread 2: launch 655-656 -> stream 21: 657-658",
        Race.NOT_KNOWN,
    ),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_what_orders_an_upload_behind_a_download(between: str, tmp_path: Path) -> None:
    what, expected = BETWEEN[between]
    before = "record A 8-9 -> stream 7 | wait A 9-10 -> stream 20 |" if between == "an event of before" else ""
    text = f"thread 1: {OTHERS} | {before} {DOWN} | {what} | copy 4MB pinned HtoD 660-662 -> stream 20: {LATER}"
    assert races(tmp_path, text.replace("|  |", "|"), first=2) is expected


def test_work_that_began_early_was_not_ordered_whatever_stood_between(tmp_path: Path) -> None:
    text = f"thread 1: {OTHERS} | {DOWN} | wait 16-17 -> stream 20 | {UP}"
    assert races(tmp_path, text.format(TOGETHER)) is Race.SEEN
    assert races(tmp_path, text.format("595-700")) is Race.NOT_KNOWN, "within the profiler's precision"


def test_a_side_stream_that_may_wait_for_the_default_one_is_not_known(tmp_path: Path) -> None:
    text = f"thread 1: {DOWN} | {UP.format(LATER)}"
    assert races(tmp_path, text) is Race.NOT_KNOWN


@pytest.mark.parametrize("beside", [False, True])
def test_the_legacy_default_stream_orders_blocking_streams(beside: bool, tmp_path: Path) -> None:
    """Streams that never ran beside it may wait for it, and it for them."""
    alone = "launch 2-3 -> stream 20: 5-30 | launch 3-4 -> stream 7: 4-40 |" if beside else ""
    down = "copy 4MB pinned DtoH 50-52 -> stream 21: 53-150 | launch 60-61 -> stream 7: 160-170"
    text = f"thread 1: {alone} {down} | copy 4MB pinned HtoD 70-72 -> stream 20: 180-280"
    assert races(tmp_path, text, first=-3) is (Race.UNORDERED if beside else Race.NOT_KNOWN)


BLOCKING = "launch 1-2 -> stream 7: 3-30 | launch 2-3 -> stream 20: 4-32"  # stream 21 never runs beside stream 7


@pytest.mark.parametrize(
    "text",
    [
        "copy 4MB pinned DtoH 50-52 -> stream 21: 53-150 | launch 60-61 -> stream 7: 160-170 |"
        "record A 62-63 -> stream 7 | wait A 64-65 -> stream 20 | copy 4MB pinned HtoD 70-72 -> stream 20: 180-280",
        "copy 4MB pinned DtoH 50-52 -> stream 20: 53-150 | record A 62-63 -> stream 20 | wait A 64-65 -> stream 7 |"
        "launch 66-67 -> stream 7: 160-170 | copy 4MB pinned HtoD 70-72 -> stream 21: 180-280",
    ],
    ids=["an event behind the default stream", "the default stream behind an event"],
)
def test_what_waits_for_the_default_stream_waits_for_blocking_ones(text: str, tmp_path: Path) -> None:
    """And these for what it waited for."""
    assert races(tmp_path, f"thread 1: {BLOCKING} | {text}", 2) is Race.NOT_KNOWN
    no_wait = re.sub(r"wait A (\S+) -> stream \d+", r"range none \1", text)
    assert races(tmp_path, f"thread 1: {BLOCKING} | {no_wait}", 2) is Race.UNORDERED


def test_an_event_that_is_recorded_later_is_not_what_was_waited_for(tmp_path: Path) -> None:
    """Profilers may name the last record of an event, also one after the wait."""
    text = f"thread 1: {OTHERS} | wait 5-6 | {DOWN} | cudaEventRecord 14-15 | {UP.format(LATER)}"
    wait = make.sync("Stream Wait Event", 5, 1, stream=20, correlation=3, wait_on_stream=7)
    wait["args"]["wait_on_cuda_event_record_corr_id"] = 5
    graph = build_graph(trace_of(tmp_path, text, wait))
    first, then = (np.flatnonzero(graph.work.engine == way) for way in (Direction.DTOH, Direction.HTOD))
    assert graph.trace.event_waits.recorded_ns > graph.trace.event_waits.time_ns
    assert Order(graph).of_work(first, then).tolist() == [Race.UNORDERED]


def test_the_order_in_a_cuda_graph_is_not_known(tmp_path: Path) -> None:
    text = f"thread 1: {OTHERS} | cudaGraphLaunch 10-12 -> stream 7: 500-600 | {UP.format(LATER)}"
    assert races(tmp_path, text) is Race.NOT_KNOWN
    assert races(tmp_path, text.replace("cudaGraphLaunch", "launch")) is Race.UNORDERED


@pytest.mark.parametrize("wait", ["", "record A 14-15 -> stream 7 | wait A 16-17 -> gpu 1 stream 20 |"])
def test_two_gpus_are_ordered_by_an_event_only(wait: str, tmp_path: Path) -> None:
    text = f"thread 1: {DOWN} | {wait} copy 4MB pinned HtoD 30-32 -> gpu 1 stream 20: {LATER}"
    assert races(tmp_path, text) is (Race.NOT_KNOWN if wait else Race.UNORDERED)


def test_lost_records_leave_open_what_times_do_not_show(tmp_path: Path) -> None:
    lost = {"WARNING": ["Exceeded max GPU buffer count (8), dropped"]}
    for at, expected in ((LATER, Race.NOT_KNOWN), (TOGETHER, Race.SEEN)):
        graph = build_graph(trace_of(tmp_path, f"thread 1: {OTHERS} | {DOWN} | {UP.format(at)}", **lost))
        first, then = (np.flatnonzero(graph.work.engine == way) for way in (Direction.DTOH, Direction.HTOD))
        assert Order(graph).of_work(first, then).tolist() == [expected]


def test_a_wait_that_is_not_recorded_leaves_everything_open(tmp_path: Path) -> None:
    text = f"thread 1: {OTHERS} | cudaStreamWaitEvent 5-6 | {DOWN} | {UP.format(LATER)}"
    assert races(tmp_path, text) is Race.NOT_KNOWN


# Findings


def found(tmp_path: Path, code: str, text: str, **calibration: Any) -> Finding | None:
    trace = trace_of(tmp_path, text, **make.calibrated(**calibration))
    return next((finding for finding in diagnose(trace, config=WITHOUT_PLAN).findings if finding.code == code), None)


def columns(**names: list[int]) -> dict[str, list[int]]:
    """Columns of a calibration, times in ns from those in us."""
    return {
        name: [1000 * value if name.endswith("_ns") else value for value in values] for name, values in names.items()
    }


ROUND_TRIP = f"thread 1: {OTHERS} | op aten::copy_ 9-13 | {DOWN} | op aten::copy_ 29-33 | {UP} | sync 900-901"
SAME = {"host_accesses": columns(op_start_ns=[9, 29], tensor=[0, 0], access=[0, 1])}
OTHER = {"host_accesses": columns(op_start_ns=[9, 29], tensor=[0, 1], access=[0, 1])}


@pytest.mark.parametrize(("times", "confidence"), [(TOGETHER, Confidence.HIGH), (LATER, Confidence.MEDIUM)])
def test_an_upload_of_what_has_not_come_down(times: str, confidence: Confidence, tmp_path: Path) -> None:
    finding = found(tmp_path, "OVL101", ROUND_TRIP.format(times), **SAME)
    assert finding is not None
    assert (finding.severity, finding.confidence) == (Severity.HAZARD, confidence)
    assert finding.evidence == {"unordered": 1, "began_early": int(times == TOGETHER)}
    assert len(finding.copies) == 2
    assert found(tmp_path, "OVL101", ROUND_TRIP.format(times), **OTHER) is None, "of another tensor"
    ordered = ROUND_TRIP.replace(
        "| op aten::copy_ 29", "| record A 14-15 -> stream 7 | wait A 16-17 -> stream 20 | op aten::copy_ 29"
    )
    assert found(tmp_path, "OVL101", ordered.format(LATER), **SAME) is None


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
    trace = trace_of(tmp_path, ROUND_TRIP.format(TOGETHER), **make.calibrated(**SAME))
    edits, compared = Edits(build_graph(trace)), []
    monkeypatch.setattr(edited, "_other_copies", lambda *graphs: compared.append(graphs) or np.zeros(2, np.bool_))
    edited.edited_places(edits, whole(trace), FasterLink(gb_s=1), ())
    ((before, after),) = compared
    assert edits.changed(()).graph.dependencies.of_kind(DependencyKind.EVENT).sum() == 0
    assert [graph.dependencies.of_kind(DependencyKind.EVENT).sum() for graph in (before, after)] == [1, 1]


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
    finding = found(tmp_path, "OVL101", issued(order))
    assert (0 if finding is None else len(finding.copies)) == uploads
    if finding is not None:
        assert finding.confidence is Confidence.LOW
        assert finding.message.startswith(f"Suspected: {uploads} uploads")
        assert found(tmp_path, "OVL101", issued(order), **OTHER) is None, "what is known is not suspected"
        late = re.sub(
            r"stream 20: (\d+)-(\d+)", lambda at: f"stream 20: {int(at[1]) + 3000}-{int(at[2]) + 3000}", issued(order)
        )
        assert found(tmp_path, "OVL101", late) is None, "all had arrived"


def test_a_plan_says_which_suspicion_comes_before_it(tmp_path: Path) -> None:
    result = audit(trace_of(tmp_path, issued("k d1 u1 " * 6) + " | sync 990-2800"))
    assert "Suspected, to be checked: uploads that do not wait for their download (OVL101)." in result.headline
    assert "With side-stream: " in result.headline
    assert result.headline.endswith("Settle OVL101 first: side-stream may make wrong results more frequent.")
    assert result.diagnosis.plan is not None
    race, leaving, arriving = result.diagnosis.plan.steps[-1].assumes
    assert race == "assumes an order that OVL101 suspects to be missing"
    assert "nothing overwrites or reuses the memory that copies to the host read" in leaving
    assert "memory that no other stream still reads" in arriving


BUSY = "thread 1: launch 0-1 -> stream 7: 2-490"
REFILL = (
    f"{BUSY} | op aten::copy_ 9-13 | copy 4MB pinned HtoD 10-12 -> stream 7: 500-600 | {{}} |"
    "op aten::copy_ 700-720 | launch 800-801 -> stream 7: 802-810"
)
WRITTEN = {"host_accesses": columns(op_start_ns=[9, 700], tensor=[0, 0], access=[1, 3])}


def test_a_buffer_that_is_filled_while_it_goes_up(tmp_path: Path) -> None:
    early = REFILL.format("range fill 20-21").replace("700-720", "30-50")
    accesses = {"host_accesses": columns(op_start_ns=[9, 30], tensor=[0, 0], access=[1, 3])}
    finding = found(tmp_path, "OVL102", early, **accesses)
    assert finding is not None
    assert (finding.severity, finding.confidence) == (Severity.HAZARD, Confidence.HIGH)
    by_chance = found(tmp_path, "OVL102", REFILL.format("range fill 20-21"), **WRITTEN)
    assert by_chance is not None
    assert by_chance.confidence is Confidence.MEDIUM
    assert found(tmp_path, "OVL102", REFILL.format("stream-sync 20-640 -> stream 7"), **WRITTEN) is None
    assert found(tmp_path, "OVL102", early) is None, "not known without a recording"


def test_a_read_is_certain_where_the_recording_knows_the_tensor(tmp_path: Path) -> None:
    text = f"{BUSY} | op aten::copy_ 9-13 | copy 4MB pinned DtoH 10-12 -> stream 7: 500-600"
    early = f"{text} | op aten::sum 30-50 | sync 55-650"
    read = {"host_accesses": columns(op_start_ns=[9, 30], tensor=[0, 0], access=[0, 2])}
    finding, guess = found(tmp_path, "OVL103", early, **read), found(tmp_path, "OVL103", early)
    assert finding is not None
    assert guess is not None
    assert (finding.confidence, guess.confidence) == (Confidence.HIGH, Confidence.MEDIUM)
    assert (finding.message.startswith("Suspected: "), guess.message.startswith("Suspected: ")) == (False, True)
    late = f"{text} | sync 55-650 | op aten::sum 660-670 | launch 680-681 -> stream 7: 690-700"
    read["host_accesses"]["op_start_ns"] = [9_000, 660_000]
    assert found(tmp_path, "OVL103", late, **read) is None
    meanwhile = early + " | op aten::sum 660-670"
    assert found(tmp_path, "OVL103", meanwhile) is not None
    assert found(tmp_path, "OVL103", meanwhile, **read) is None, "it reads other data first"


@pytest.mark.parametrize("end", [50, 620])
def test_an_operator_that_changes_a_tensor_uses_it_too(end: int, tmp_path: Path) -> None:
    """As ``add_`` does, once or twice."""
    text = f"{BUSY} | op aten::copy_ 9-13 | copy 4MB pinned DtoH 10-12 -> stream 7: 500-600"
    late = f"{text} | op aten::add_ {end - 10}-{end} | op aten::sum {end + 2}-{end + 4} |"
    late += "launch 680-681 -> stream 7: 690-700"
    notes = columns(op_start_ns=[9, end - 10, end + 2], tensor=[0, 0, 0], access=[0, 3, 2])
    finding = found(tmp_path, "OVL103", late, host_accesses=notes)
    assert finding is not None
    assert finding.confidence is (Confidence.HIGH if end == 50 else Confidence.MEDIUM)
    assert finding.message.startswith("Nothing waits for 1 D2H copy before the host uses the tensor.")
    if end == 620:
        waits = late.replace("| op aten::add_", "| stream-sync 14-605 -> stream 7 | op aten::add_")
        assert found(tmp_path, "OVL103", waits, host_accesses=notes) is None


def test_a_pause_after_the_last_copy_alone_is_no_sign_of_a_read(tmp_path: Path) -> None:
    def loop(pauses: int) -> str:
        """Four copies to the host; after so many of them the host does something before it synchronises."""
        steps = [f"copy 4MB pinned DtoH {t}001-{t}002 -> stream 7: {t}100-{t}600" for t in range(1, 5)]
        waits = [f" | sync {t}500-{t}610" if t > 4 - pauses else "" for t in range(1, 5)]
        return "thread 1: launch 0-1 -> stream 7: 2-3 | " + " | ".join(map("".join, zip(steps, waits, strict=True)))

    assert found(tmp_path, "OVL103", loop(4)) is not None
    assert found(tmp_path, "OVL103", loop(1)) is None


STAGED = {
    "an upload": ("HtoD 10-13 -> stream 7: 500-520 | op aten::fill_ 30-50", 1, 3, 30),
    "a download": ("DtoH 10-600 -> stream 7: 500-630 | op aten::sum 605-620", 0, 2, 605),
}


@pytest.mark.parametrize("case", STAGED)
@pytest.mark.parametrize(("memory", "found_it"), [("pinned", True), ("pageable", False), ("unknown", False)])
def test_pageable_memory_is_free_when_the_call_returns(case: str, memory: str, found_it: bool, tmp_path: Path) -> None:
    what, copied, used, moment = STAGED[case]
    text = f"{BUSY} | op aten::copy_ 9-10 | copy 64KB {memory} {what} | launch 900-901 -> stream 7: 902-910"
    accesses = columns(op_start_ns=[9, moment], tensor=[0, 0], access=[copied, used])
    code = "OVL103" if used == 2 else "OVL102"
    assert (found(tmp_path, code, text.replace("9-10", "9-15"), host_accesses=accesses) is not None) == found_it


@pytest.mark.parametrize(
    ("wait", "confidence"),
    [
        ("stream-sync 14-600 -> stream 7", None),
        ("record A 13-14 -> stream 7 | event-sync A 14-600 -> stream 7", None),
        ("sync 14-600", None),
        ("stream-sync 14-600 -> stream 20", Confidence.HIGH),
    ],
)
def test_a_synchronisation_is_right_where_the_clock_of_the_gpu_is_not(
    wait: str, confidence: Confidence | None, tmp_path: Path
) -> None:
    """The copy seems to end after the call that waited for it; that with another stream did not wait."""
    text = (
        f"{BUSY} | launch 1-2 -> stream 20: 3-9 | op aten::copy_ 9-13 | copy 4MB pinned DtoH 10-12 -> stream 7: 500-630"
    )
    read = columns(op_start_ns=[9, 605], tensor=[0, 0], access=[0, 2])
    finding = found(tmp_path, "OVL103", f"{text} | {wait} | op aten::sum 605-620 | sync 900-901", host_accesses=read)
    assert (None if finding is None else finding.confidence) is confidence


@pytest.mark.parametrize(("device", "end", "late"), [(0, 600, True), (1, 600, False)])
def test_a_synchronisation_of_another_gpu_is_none(device: int, end: int, late: bool, tmp_path: Path) -> None:
    """Which one it was is in its record."""
    text = f"{BUSY} | launch 2-3 -> gpu 1 stream 7: 4-490 | op aten::copy_ 9-13 |"
    text += f"copy 4MB pinned DtoH 10-12 -> gpu 1 stream 7: 500-{end + 20} | sync 14-{end} | op aten::sum 640-660"
    record = make.sync("Context Sync", 14, end - 14, stream=-1, correlation=4)
    record["args"]["device"] = device
    read = make.calibrated(host_accesses=columns(op_start_ns=[9, 640], tensor=[0, 0], access=[0, 2]))
    order = Order(build_graph(trace_of(tmp_path, text, record, **read)))
    assert (len(early_reads(order)) > 0) == late


@pytest.mark.parametrize("where", ["gpu 1 stream 7", "stream 20"])
def test_a_buffer_that_goes_to_two_places_is_free_when_both_have_it(where: str, tmp_path: Path) -> None:
    text = (
        f"{BUSY} | launch 2-3 -> {where}: 4-690 |"
        f"op aten::copy_ 9-13 | copy 4MB pinned HtoD 10-12 -> {where}: 700-800 |"
        "op aten::copy_ 15-19 | copy 4MB pinned HtoD 16-18 -> stream 7: 500-600 | stream-sync 20-610 -> stream 7 |"
        "{} op aten::fill_ 820-840 | launch 900-901 -> stream 7: 902-910"
    )
    notes = {"host_accesses": columns(op_start_ns=[9, 15, 820], tensor=[0, 0, 0], access=[1, 1, 3])}
    finding = found(tmp_path, "OVL102", text.format(""), **notes)
    assert finding is not None
    assert finding.evidence["unordered"] == 1
    both = text.format("record A 611-612 -> stream 7 | event-sync 613-810 |")
    assert found(tmp_path, "OVL102", both, **notes) is None


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
    finding = found(tmp_path, "OVL101", text, **notes)
    assert (None if finding is None else finding.confidence) is confidence


REUSE = (
    f"{BUSY} | launch 2-3 -> stream 20: 4-8 | op aten::mean 9-13 | launch 10-12 -> stream 7: 500-600 |"
    "{} | op aten::copy_ 29-33 | copy 4MB pinned HtoD 30-32 -> stream 20: 40-140 | sync 900-901"
)
REUSED = {"reused_blocks": columns(used_start_ns=[9], reused_start_ns=[29])}


def test_memory_that_is_used_again_too_early(tmp_path: Path) -> None:
    finding = found(tmp_path, "OVL104", REUSE.format("range free 20-21"), **REUSED)
    assert finding is not None
    assert (finding.severity, finding.confidence) == (Severity.HAZARD, Confidence.HIGH)
    assert found(tmp_path, "OVL104", REUSE.format("range free 20-21")) is None
    ordered = REUSE.format("record A 14-15 -> stream 7 | wait A 16-17 -> stream 20").replace("40-140", "610-700")
    assert found(tmp_path, "OVL104", ordered, **REUSED) is None


def racing_traces(tmp_path: Path) -> list[Trace]:
    """One trace for each finding that needs to know the memory."""
    texts = ((ROUND_TRIP.format(TOGETHER), SAME), (REFILL.format("range fill 20-21"), WRITTEN))
    last = (REUSE.format("range free 20-21"), REUSED)
    return [trace_of(tmp_path, text, **make.calibrated(**known)) for text, known in (*texts, last)]
