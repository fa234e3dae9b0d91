"""What orders work of the GPU and of the host, and what nothing orders: the clocks of streams and host."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from overlapscope.dependencies.build import build_graph
from overlapscope.model.enums import Direction
from overlapscope.ordering.order import Order, Race
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules.traces import DOWN, LATER, OTHERS, TOGETHER, UP


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
