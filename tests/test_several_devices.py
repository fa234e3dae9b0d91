"""Programs that use several GPUs: what their idle time is attributed to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from overlapscope import audit, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.causes import Cause
from overlapscope.measure.windows import whole
from tests import nsys_maker as nsys
from tests.rules.traces import FIRST, SECOND, idle_of_the_second, taking_turns


def test_synchronisations_are_of_the_device_of_their_context(tmp_path: Path) -> None:
    """Nsight Systems gives all of them device 0."""
    contexts = [
        {"processId": 10, "contextId": context, "deviceId": device, "nullStreamId": stream}
        for context, device, stream in ((1, 0, FIRST), (2, 1, SECOND))
    ]
    syncs = [
        nsys.work(30, 31, stream=SECOND, correlation=1, contextId=2, syncType=2),
        nsys.work(40, 41, stream=FIRST, correlation=2, contextId=1, syncType=2),
        nsys.work(50, 51, stream=FIRST, correlation=3, contextId=9, syncType=2),
    ]
    tables = {
        "TARGET_INFO_CUDA_CONTEXT_INFO": contexts,
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys.work(0, 1)],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": syncs,
    }
    trace = open_trace(nsys.write(tmp_path / "t.sqlite", tables, {7: "a"}))
    assert trace.syncs.device.tolist() == [1, 0, 0]


FETCH = f"peer-copy 300MB 0 to 1 14-18 -> gpu 1 stream {SECOND}: 5_003-6_003"
FETCH_MORE = f"peer-copy 300MB 0 to 1 19-23 -> gpu 1 stream {SECOND}: 6_004-7_004"


@pytest.mark.parametrize(
    ("ends", "device"),
    [(4_000, 1), (5_100, 1), (5_000, 0)],
    ids=["it ended long before", "it still runs", "another device's stream of that number waits"],
)
def test_what_was_not_waited_for_is_no_cause(ends: int, device: int, tmp_path: Path) -> None:
    trace = taking_turns(tmp_path, ends=ends, device=device)
    assert idle_of_the_second(trace) == {Cause.WAIT_NOT_RECORDED: 5_004 - 100}


def test_streams_that_both_devices_have_do_not_tell_which_is_meant(tmp_path: Path) -> None:
    trace = taking_turns(tmp_path, streams=(FIRST, FIRST))
    assert idle_of_the_second(trace) == {Cause.WAIT_NOT_RECORDED: 5_004 - 100}
    assert diagnose(trace).findings[0].code == "OVL000"


@pytest.mark.parametrize("copies", [(FETCH,), (FETCH, FETCH_MORE)], ids=["one copy", "two copies"])
def test_copies_from_another_device_wait_for_what_makes_their_data(copies: tuple[str, ...], tmp_path: Path) -> None:
    """The second fetches what the first computes: until the first copy starts it waits for that, then for copies."""
    carried = 1_000 * len(copies)
    idle = idle_of_the_second(taking_turns(tmp_path, *copies, begin=5_008 + carried))
    assert (idle[Cause.OTHER_DEVICE], idle[Cause.COPY_SAME_STREAM]) == (5_003 - 100, carried)
    assert set(idle) <= {Cause.OTHER_DEVICE, Cause.COPY_SAME_STREAM, Cause.LAUNCH_LATENCY}


def test_what_waits_on_after_its_copy_does_so_for_no_known_reason(tmp_path: Path) -> None:
    idle = idle_of_the_second(taking_turns(tmp_path, FETCH, begin=9_000))
    assert idle == {
        Cause.OTHER_DEVICE: 5_003 - 100,
        Cause.COPY_SAME_STREAM: 1_000,
        Cause.WAIT_NOT_RECORDED: 9_000 - 6_003,
    }


@pytest.mark.parametrize(
    "upload",
    [
        f"copy 1KB pinned HtoD 7-11 -> gpu 1 stream {SECOND}: 110-130",
        "copy 1KB pinned HtoD 7-11 -> gpu 1 stream 20: 4_500-4_998",
    ],
    ids=["an upload long before the other kernel ended", "a copy beside it that ends then by chance"],
)
def test_only_what_the_work_waited_for_last_is_its_cause(upload: str, tmp_path: Path) -> None:
    """Also while the upload runs: without it the kernel would not have started any sooner."""
    assert idle_of_the_second(taking_turns(tmp_path, upload)) == {Cause.OTHER_DEVICE: 5_004 - 100}


def test_a_window_of_one_device_is_about_that_one_only(tmp_path: Path) -> None:
    trace = taking_turns(tmp_path, FETCH)
    both = audit(trace)
    (second,) = audit(trace, replace(whole(trace), device=1)).devices
    assert second.to_dict() == both.devices[1].to_dict()
    first = audit(trace, replace(whole(trace), device=0))
    assert [device.key.device for device in first.devices] == [0]
    assert {finding.where.device for finding in both.diagnosis.findings} == {1}
    assert first.diagnosis.findings == ()
    assert (both.counts["kernels"], first.counts["kernels"], first.counts["copies"]) == (3, 1, 0)
    assert first.costly == ()
    assert first.to_dict()["window"]["device"] == 0
    assert "No copies" in first.verdict
