"""Which stream does a waiting stream wait for? Against a program whose answer Nsight Systems recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import ApiKind, SyncKind
from overlapscope.model.trace import Trace
from overlapscope.read.opening import open_trace
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES

COMPUTE, SIDE = 13, 17  # the streams of tests/cases/side_stream_wait.py


def waits(trace: Trace) -> list[tuple[int, int]]:
    rows = trace.syncs.take(trace.syncs.kind == SyncKind.STREAM_WAIT_EVENT)
    return list(zip(rows.stream.tolist(), rows.source_stream.tolist(), strict=True))


def test_nsys_records_what_kineto_leaves_open() -> None:
    recorded = open_trace(CASES / "side_stream_wait.sqlite.gz")
    inferred = open_trace(CASES / "side_stream_wait.json.gz")
    assert waits(recorded) == [(SIDE, COMPUTE), (COMPUTE, SIDE)] * 3
    assert not recorded.syncs.inferred.any()
    # Before the first wait nothing ran on the compute stream: nothing can tell what was waited for.
    assert waits(inferred) == [(SIDE, -1), (COMPUTE, SIDE), *waits(recorded)[2:]]
    assert inferred.syncs.inferred[inferred.syncs.kind == SyncKind.STREAM_WAIT_EVENT].all()
    assert inferred.health.has("inferred-waits")
    assert inferred.health.has("unknown-wait-source")


def leads(trace: Trace) -> list[int | None]:
    """How many records lie between each wait and the record that it means; None for one before the trace."""
    calls, syncs = trace.api_calls, trace.syncs.take(trace.syncs.kind == SyncKind.STREAM_WAIT_EVENT)
    recorded = calls.start_ns[calls.kind == ApiKind.EVENT_RECORD]
    rows = sorted(zip(calls.start_ns[syncs.call].tolist(), syncs.record_call.tolist(), strict=True))
    return [
        None if record == NO_ID else int(((recorded > calls.start_ns[record]) & (recorded < wait)).sum())
        for wait, record in rows
    ]


@pytest.mark.parametrize(
    "name", ["prefetcher-prefetcher", "prefetcher-prefetcher-pageable", "offload-pinned-side", "moe_prefetch-ahead"]
)
def test_numbers_of_events_tell_which_record_is_meant(name: str) -> None:
    """A prefetcher waits for what was recorded a step ago, not for the latest; Nsight Systems says so."""
    told, inferred = (leads(open_trace(SAMPLES / f"{name}.{suffix}")) for suffix in ("sqlite.gz", "json.gz"))
    assert inferred == told
    assert (max(lead for lead in told if lead is not None) > 0) == (name != "offload-pinned-side")


def test_recorded_sources_stay(tmp_path: Path) -> None:
    events = [
        make.call(0, 2, name="cudaEventRecord", correlation=5),
        make.call(4, 2, name="cudaStreamWaitEvent", correlation=6),
        make.sync("Stream Wait Event", 5, 1, stream=20, correlation=6, wait_on_stream=7,
                  wait_on_cuda_event_id=1, wait_on_cuda_event_record_corr_id=5),
        make.kernel(10, 5),
    ]  # fmt: skip
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    assert waits(trace) == [(20, 7)]
    assert trace.syncs.record_call.tolist() == [0]
    assert not trace.syncs.inferred.any()


@pytest.mark.parametrize(("released_at", "expected"), [(300, 8), (200, 9)])
def test_the_stream_whose_end_releases_the_wait(tmp_path: Path, released_at: int, expected: int) -> None:
    """Streams 8 and 9 end at 300 and 200; the waiting stream goes on right after one of them."""
    events = [
        make.call(0, 2, correlation=1), make.kernel(10, 290, stream=8, correlation=1),
        make.call(3, 2, correlation=2), make.kernel(10, 190, stream=9, correlation=2),
        make.call(6, 2, name="cudaEventRecord", correlation=3),
        make.call(9, 2, name="cudaStreamWaitEvent", correlation=4),
        make.sync("Stream Wait Event", 10, 1, stream=5, correlation=4, wait_on_stream=-1),
        make.call(12, 2, correlation=6), make.kernel(released_at + 2, 10, stream=5, correlation=6),
    ]  # fmt: skip
    assert waits(open_trace(make.write(tmp_path / "t.json", *events))) == [(5, expected)]


def test_no_guess_where_the_timing_does_not_tell(tmp_path: Path) -> None:
    """Both candidate streams were done before the waiting stream's work was even launched."""
    events = [
        make.call(0, 2, correlation=1), make.kernel(10, 5, stream=8, correlation=1),
        make.call(3, 2, correlation=2), make.kernel(10, 8, stream=9, correlation=2),
        make.call(6, 2, name="cudaEventRecord", correlation=3),
        make.call(9, 2, name="cudaStreamWaitEvent", correlation=4),
        make.sync("Stream Wait Event", 10, 1, stream=5, correlation=4, wait_on_stream=-1),
        make.call(500, 2, correlation=6), make.kernel(503, 10, stream=5, correlation=6),
    ]  # fmt: skip
    assert waits(open_trace(make.write(tmp_path / "t.json", *events))) == [(5, -1)]


def test_several_waits_before_one_op_are_not_told_apart(tmp_path: Path) -> None:
    """Copies on streams 8 and 9, each recorded and waited for; the op's start tells only of the later one."""
    events = [
        make.call(0, 1, correlation=1), make.copy(2, 98, stream=8, correlation=1),
        make.call(3, 1, name="cudaEventRecord", correlation=2),
        make.call(5, 1, name="cudaStreamWaitEvent", correlation=3),
        make.sync("Stream Wait Event", 5, 1, stream=5, correlation=3, wait_on_stream=-1),
        make.call(7, 1, correlation=4), make.copy(100, 200, stream=9, correlation=4),
        make.call(10, 1, name="cudaEventRecord", correlation=5),
        make.call(12, 1, name="cudaStreamWaitEvent", correlation=6),
        make.sync("Stream Wait Event", 12, 1, stream=5, correlation=6, wait_on_stream=-1),
        make.call(15, 1, correlation=7), make.kernel(302, 10, stream=5, correlation=7),
    ]  # fmt: skip
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    # Before the first record only stream 8 had work, so that one is known; the second could be either.
    assert waits(trace) == [(5, 8), (5, -1)]
