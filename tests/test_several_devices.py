"""Programs that use several GPUs: what waits for what across them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.kinds import DependencyKind

from overlapscope import diagnose, open_trace, what_if
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Confidence
from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests import nsys_maker as nsys

GPUS = {"deviceProperties": [{"id": index, "name": "NVIDIA H200"} for index in range(2)]}
FIRST, SECOND = 7, 15
"""The default streams of two devices, as CUPTI numbers them."""


def on(event: make.Event, device: int) -> make.Event:
    return {**event, "args": {**event["args"], "device": device}}


def staged(tmp_path: Path, streams: tuple[int, int] = (FIRST, SECOND), *, told: bool = True, first: int = 0) -> Trace:
    """A pageable copy of 5 ms and a kernel of 1 ms on the ``first`` device; a kernel on the other waits for them.

    Unless it is ``told``, only its beginning right after the other kernel says what it waits for.
    """
    source, waiting = streams
    known = {"wait_on_stream": source, "wait_on_cuda_event_record_corr_id": 3} if told else {"wait_on_stream": -1}
    events = [
        make.call(0, 5_000, name="cudaMemcpyAsync", correlation=1),
        make.copy(5, 4_990, stream=source, device=first, size=55_000_000, correlation=1),
        make.call(5_004, 4, correlation=2),
        make.kernel(5_012, 1_000, stream=source, device=first, correlation=2),
        make.call(5_010, 1, name="cudaEventRecord", correlation=3),
        make.call(5_012, 1, name="cudaStreamWaitEvent", correlation=4),
        on(make.sync("Stream Wait Event", 5_012, 1, stream=waiting, correlation=4, **known), 1 - first),
        make.call(5_015, 4, correlation=5),
        make.kernel(6_014, 500, stream=waiting, device=1 - first, correlation=5),
    ]
    return open_trace(make.write(tmp_path / "t.json", *events, **GPUS))


@pytest.mark.parametrize("told", [True, False])
def test_a_kernel_waits_for_an_event_of_another_device(told: bool, tmp_path: Path) -> None:
    trace = staged(tmp_path, told=told)
    assert trace.syncs.source_stream.tolist() == [FIRST]
    after = what_if(trace, ["pin"]).after.kernels
    assert after.start_ns[0] - trace.start_ns < 2_000_000
    assert after.start_ns[1] == after.end_ns[0] + 2_000


@pytest.mark.parametrize("first", [0, 1])
def test_a_number_that_both_devices_have_is_the_own_one_s(first: int, tmp_path: Path) -> None:
    """As in traces that number the streams of each device from the first: nothing says that another is meant."""
    graph = build_graph(staged(tmp_path, (FIRST, FIRST), first=first))
    assert not graph.dependencies.of_kind(DependencyKind.OTHER_DEVICE).any()


def peer(ts: float, dur: float, stream: int, correlation: int, *, by: int = 0) -> make.Event:
    """A copy from the first device to the second, on a stream of the one that it is ``by``."""
    event = make.copy(ts, dur, kinds="PtoP (Device -> Device)", stream=stream, correlation=correlation, device=by)
    event["args"] |= {"bytes": 300_000_000, "fromDevice": 0, "inDevice": by, "toDevice": 1}
    return event


def handed_over(tmp_path: Path) -> Trace:
    """A kernel on either device, 2 ms on the first and 3 on the second, and a copy from the first that waits for both.

    The next kernel on the first waits for nothing but its stream, the next one on the second for the copy.
    """
    waits = {"wait_on_stream": SECOND, "wait_on_cuda_event_record_corr_id": 3}
    comes = {"wait_on_stream": FIRST, "wait_on_cuda_event_record_corr_id": 6}
    events = [
        make.call(0, 4, correlation=1),
        make.kernel(10, 2_000, stream=FIRST, correlation=1),
        make.call(6, 4, correlation=2),
        make.kernel(16, 3_000, stream=SECOND, device=1, correlation=2),
        make.call(12, 1, name="cudaEventRecord", correlation=3),
        make.call(14, 1, name="cudaStreamWaitEvent", correlation=4),
        make.sync("Stream Wait Event", 14, 1, stream=FIRST, correlation=4, **waits),
        make.call(16, 4, name="cudaMemcpyPeerAsync", correlation=5),
        peer(3_020, 1_000, FIRST, 5),
        make.call(22, 1, name="cudaEventRecord", correlation=6),
        make.call(24, 1, name="cudaStreamWaitEvent", correlation=7),
        on(make.sync("Stream Wait Event", 24, 1, stream=SECOND, correlation=7, **comes), 1),
        make.call(26, 4, correlation=8),
        make.kernel(4_024, 1_000, stream=FIRST, correlation=8),
        make.call(32, 4, correlation=9),
        make.kernel(4_026, 500, stream=SECOND, device=1, correlation=9),
    ]
    return open_trace(make.write(tmp_path / "t.json", *events, **GPUS))


def test_a_copy_to_another_device_on_a_stream_of_its_own_waits_for_what_made_it(tmp_path: Path) -> None:
    """And for nothing on the device that receives it, if there are buffers enough; what it brings is waited for."""
    trace = handed_over(tmp_path)
    assert trace.copies.target_device.tolist() == [1]
    found = what_if(trace, ["side-stream"])
    kernels, copies = found.after.kernels, found.after.copies
    (made, mine), (_, theirs) = (kernels.start_ns[kernels.device == device].tolist() for device in (0, 1))
    assert copies.start_ns[0] == made + 2_002_000
    assert mine < copies.start_ns[0] + 10_000, "the next kernel of the device that sends does not wait for it"
    assert theirs >= copies.end_ns[0]
    assert found.predicted_ns < found.high_ns <= found.replayed_ns


def test_what_comes_from_another_device_takes_turns_in_two_buffers(tmp_path: Path) -> None:
    """Three copies, each after the kernel of 3 ms that used the last one: the third waits for the first one's."""
    events, number, host = [], 0, 0.0

    def called(name: str) -> int:
        nonlocal number, host
        number, host = number + 1, host + 4
        events.append(make.call(host, 3, name=name, correlation=number))
        return number

    used, now = 0, 40.0
    for _ in range(3):
        if used:
            wait = {"wait_on_stream": SECOND, "wait_on_cuda_event_record_corr_id": used}
            events.append(make.sync("Stream Wait Event", host + 4, 1, stream=FIRST,
                                    correlation=called("cudaStreamWaitEvent"), **wait))  # fmt: skip
        events.append(peer(now, 1_000, FIRST, called("cudaMemcpyPeerAsync")))
        wait = {"wait_on_stream": FIRST, "wait_on_cuda_event_record_corr_id": called("cudaEventRecord")}
        event = make.sync("Stream Wait Event", host + 4, 1, stream=SECOND,
                          correlation=called("cudaStreamWaitEvent"), **wait)  # fmt: skip
        events.append(on(event, 1))
        events.append(make.kernel(now + 1_002, 3_000, stream=SECOND, device=1, correlation=called("cudaLaunchKernel")))
        used, now = called("cudaEventRecord"), now + 4_004
    found = what_if(open_trace(make.write(tmp_path / "t.json", *events, **GPUS)), ["side-stream"])
    copies, kernels = found.after.copies, found.after.kernels
    assert copies.start_ns[1] < copies.end_ns[0] + 10_000, "into the second buffer"
    assert copies.start_ns[2] >= kernels.end_ns[0], "into the first one again"
    assert copies.start_ns[2] < kernels.start_ns[1] + 100_000
    assert any("two buffers" in text for text in found.basis)


def test_a_copy_that_the_receiver_makes_is_like_one_from_the_host(tmp_path: Path) -> None:
    """On a stream of its own it waits for no kernel of its device, and the next kernel waits for it."""
    events = [
        make.call(0, 4, correlation=1),
        make.kernel(10, 2_000, stream=SECOND, device=1, correlation=1),
        make.call(6, 4, name="cudaMemcpyPeerAsync", correlation=2),
        peer(2_012, 1_000, SECOND, 2, by=1),
        make.call(12, 4, correlation=3),
        make.kernel(3_014, 500, stream=SECOND, device=1, correlation=3),
    ]
    found = what_if(open_trace(make.write(tmp_path / "t.json", *events, **GPUS)), ["side-stream"])
    copies, kernels = found.after.copies, found.after.kernels
    assert copies.start_ns[0] - found.after.start_ns < 100_000
    assert kernels.start_ns[1] >= max(copies.end_ns[0], kernels.end_ns[0])


@pytest.mark.parametrize("by", [0, 1])
def test_what_a_copy_waits_for_on_its_own_device_stays(by: int, tmp_path: Path) -> None:
    """An event of another stream there: what is sent was made there, or what is received is used there."""
    wait = {"wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 2}
    events = [
        make.call(0, 4, correlation=1),
        make.kernel(10, 2_000, stream=20, device=by, correlation=1),
        make.call(6, 1, name="cudaEventRecord", correlation=2),
        make.call(8, 1, name="cudaStreamWaitEvent", correlation=3),
        on(make.sync("Stream Wait Event", 8, 1, stream=FIRST, correlation=3, **wait), by),
        make.call(10, 4, name="cudaMemcpyPeerAsync", correlation=4),
        peer(2_014, 1_000, FIRST, 4, by=by),
    ]
    after = what_if(open_trace(make.write(tmp_path / "t.json", *events, **GPUS)), ["side-stream"]).after
    assert after.copies.start_ns[0] >= after.kernels.end_ns[0]


@pytest.mark.parametrize("made_on", [20, FIRST], ids=["after a kernel", "alone"])
def test_copies_that_need_not_wait_for_each_other_are_on_streams_of_their_own(made_on: int, tmp_path: Path) -> None:
    """One to the host and one to another device, which shared a stream: no stream does two things at once."""
    events = [
        make.call(0, 4, correlation=1),
        make.kernel(10, 1_000, stream=made_on, correlation=1),
        make.call(6, 4, name="cudaMemcpyAsync", correlation=2),
        make.copy(1_012, 5_000, kinds="DtoH (Device -> Pinned)", size=200_000_000, stream=20, correlation=2),
        make.call(12, 4, name="cudaMemcpyPeerAsync", correlation=3),
        peer(6_014, 1_000, 20, 3),
    ]
    after = what_if(open_trace(make.write(tmp_path / "t.json", *events, **GPUS)), ["side-stream"]).after
    assert len(np.unique(after.copies.stream)) == 2
    assert (20 in after.copies.stream) == (made_on != 20)
    if made_on == 20:
        assert (after.copies.start_ns >= after.kernels.end_ns[0]).all()
    assert (after.copies.start_ns < after.copies.end_ns.min()).all()


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


FETCH = (make.call(14, 4, name="cudaMemcpyPeerAsync", correlation=6), peer(5_003, 1_000, SECOND, 6, by=1))
FETCH_MORE = (make.call(19, 4, name="cudaMemcpyPeerAsync", correlation=7), peer(6_004, 1_000, SECOND, 7, by=1))


def upload(call: float, begin: float, end: float, stream: int) -> list[make.Event]:
    """A copy from the host to the second device."""
    copy = make.copy(begin, end - begin, stream=stream, device=1, correlation=8, kinds="HtoD (Pinned -> Device)")
    return [make.call(call, 4, name="cudaMemcpyAsync", correlation=8), copy]


def taking_turns(
    tmp_path: Path,
    *events: make.Event,
    streams: tuple[int, int] = (FIRST, SECOND),
    ends: float = 5_000,
    begin: float = 5_004,
    device: int = 1,
) -> Trace:
    """Each device has a kernel; the next of the second waits for that of the first, which may end long before."""
    source, waiting = streams
    told = {"wait_on_stream": source, "wait_on_cuda_event_record_corr_id": 3}
    turns = [
        make.call(0, 4, correlation=1),
        make.kernel(10, ends - 10, stream=source, device=0, correlation=1),
        make.call(5, 4, correlation=2),
        make.kernel(15, 85, stream=waiting, device=1, correlation=2),
        make.call(10, 1, name="cudaEventRecord", correlation=3),
        make.call(12, 1, name="cudaStreamWaitEvent", correlation=4),
        on(make.sync("Stream Wait Event", 12, 1, stream=waiting, correlation=4, **told), device),
        make.call(30, 4, correlation=5),
        make.kernel(begin, 500, stream=waiting, device=1, correlation=5),
    ]
    return open_trace(make.write(tmp_path / "t.json", *turns, *events, **GPUS))


def lost_by_the_second(trace: Trace) -> dict[Cause, float]:
    """What the second device's time was lost to, in us."""
    idle = diagnose(trace).devices[1].idle
    return {Cause(cause): float(idle.duration_ns[idle.cause == cause].sum()) / 1e3 for cause in set(idle.cause)}


def test_a_device_that_waits_for_another_one_is_told_so(tmp_path: Path) -> None:
    trace = taking_turns(tmp_path)
    assert lost_by_the_second(trace) == {Cause.OTHER_DEVICE: 5_004 - 100}
    (finding,) = diagnose(trace).findings
    assert (finding.code, finding.where.device, finding.saving_ns) == ("OVL017", 1, None)
    assert finding.confidence is Confidence.HIGH
    assert "4.9 ms for work of another GPU, once" in finding.message


def test_where_the_event_is_left_open_that_is_not_as_sure(tmp_path: Path) -> None:
    trace = taking_turns(tmp_path)
    left_open = replace(trace, syncs=replace(trace.syncs, inferred=~trace.syncs.inferred))
    (finding,) = diagnose(left_open).findings
    assert (finding.code, finding.confidence) == ("OVL017", Confidence.MEDIUM)


def test_what_ended_long_before_was_not_waited_for(tmp_path: Path) -> None:
    assert lost_by_the_second(taking_turns(tmp_path, ends=4_000)) == {Cause.WAIT_NOT_RECORDED: 5_004 - 100}


def test_what_still_runs_was_not_waited_for(tmp_path: Path) -> None:
    assert lost_by_the_second(taking_turns(tmp_path, ends=5_100)) == {Cause.WAIT_NOT_RECORDED: 5_004 - 100}


def test_another_device_s_stream_of_that_number_waits_for_itself(tmp_path: Path) -> None:
    assert lost_by_the_second(taking_turns(tmp_path, device=0)) == {Cause.WAIT_NOT_RECORDED: 5_004 - 100}


def test_streams_that_both_devices_have_do_not_tell_which_is_meant(tmp_path: Path) -> None:
    trace = taking_turns(tmp_path, streams=(FIRST, FIRST))
    assert lost_by_the_second(trace) == {Cause.WAIT_NOT_RECORDED: 5_004 - 100}
    assert diagnose(trace).findings[0].code == "OVL000"


@pytest.mark.parametrize("events", [FETCH, FETCH + FETCH_MORE])
def test_copies_from_another_device_wait_for_what_makes_their_data(
    events: tuple[make.Event, ...], tmp_path: Path
) -> None:
    """The second fetches what the first computes: until the first copy begins it waits for that, then for copies."""
    carried = 500 * len(events)
    lost = lost_by_the_second(taking_turns(tmp_path, *events, begin=5_008 + carried))
    assert (lost[Cause.OTHER_DEVICE], lost[Cause.COPY_SAME_STREAM]) == (5_003 - 100, carried)
    assert set(lost) <= {Cause.OTHER_DEVICE, Cause.COPY_SAME_STREAM, Cause.LAUNCH_LATENCY}


def test_what_waits_on_after_its_copy_does_so_for_no_known_reason(tmp_path: Path) -> None:
    lost = lost_by_the_second(taking_turns(tmp_path, *FETCH, begin=9_000))
    assert lost == {
        Cause.OTHER_DEVICE: 5_003 - 100,
        Cause.COPY_SAME_STREAM: 1_000,
        Cause.WAIT_NOT_RECORDED: 9_000 - 6_003,
    }


def test_an_upload_before_the_wait_does_not_hide_it(tmp_path: Path) -> None:
    lost = lost_by_the_second(taking_turns(tmp_path, *upload(7, 110, 130, SECOND)))
    assert lost == {Cause.LAUNCH_LATENCY: 10, Cause.COPY_SAME_STREAM: 20, Cause.OTHER_DEVICE: 5_004 - 130}


def test_a_copy_beside_it_that_ends_then_by_chance_is_not_what_is_waited_for(tmp_path: Path) -> None:
    lost = lost_by_the_second(taking_turns(tmp_path, *upload(7, 4_500, 4_998, 20)))
    assert lost == {Cause.OTHER_DEVICE: 5_004 - 100}
