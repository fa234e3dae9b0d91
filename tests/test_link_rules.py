"""Kernels that use the link, streams that wait for themselves, copies beside collectives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from overlapscope import diagnose, open_trace
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.finding import Confidence, Diagnosis, Finding, Severity
from overlapscope.measure.elementwise import _bytes_of_thread
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests import nsys_maker as nsys
from tests.conftest import CASES, SAMPLES
from tests.notation import trace_of

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
GATHER = "void at::native::index_elementwise_kernel<128, 4, at::native::index_kernel_impl<at::native::OpaqueType<4> > >"
MIB64 = {"grid": [32768, 1, 1], "block": [128, 1, 1]}
"""The grid of an elementwise kernel over 64 MiB of float32: four numbers for each of 128 threads."""


def found(diagnosis: Diagnosis, code: str) -> Finding | None:
    return next((finding for finding in diagnosis.findings if finding.code == code), None)


def faulty_traces(tmp_path: Path) -> list[Trace]:
    """A trace for each of these rules."""
    mapped_reads = make.write(tmp_path / "mapped.json", *adding([1400, 1400, 1400, 40]), **make.H200)
    shared_link = make.write(tmp_path / "shared.json", *reducing(collective_us=4000, beside_us=3600, alone_us=1200))
    return [open_trace(mapped_reads), trace_of(tmp_path, INSIDE), open_trace(shared_link)]


# OVL021: kernels at the link's bandwidth


def adding(us: Iterable[float], *, name: str = ADD, first: int = 1, at: float = 0) -> list[make.Event]:
    """Launches of 64 MiB each, one after the other, which take these times."""
    events = []
    for number, length in enumerate(us, first):
        events += [make.call(at, 5, correlation=number)]
        events += [make.kernel(at + 10, length, name=name, correlation=number, **MIB64)]
        at += length + 20
    return events


def mapped(tmp_path: Path, *events: make.Event, header: make.Event = make.H200) -> Finding | None:
    return found(diagnose(open_trace(make.write(tmp_path / "t.json", *events, **header))), "OVL021")


def test_kernels_at_the_bandwidth_of_the_link_seem_to_read_host_memory(tmp_path: Path) -> None:
    """64 MiB in 1 400 us are 48 GB/s, in 40 us 1 678 GB/s; the link of an H200 carries 55."""
    finding = mapped(tmp_path, *adding([1400, 1400, 1400, 40]))
    assert finding is not None
    assert (finding.kind, finding.confidence, finding.idle_ns) == ("mapped", Confidence.MEDIUM, 4_200_000)
    assert (finding.evidence["kernels"], finding.evidence["size_bytes"]) == (3, 3 * 64 * 2**20)
    assert (finding.where.api, finding.where.stream) == ("cudaLaunchKernel", 7)
    assert finding.evidence["reached_gb_s"] == pytest.approx(64 * 2**20 / 1.4e6, abs=0.01)
    assert (finding.evidence["link_gb_s"], finding.confirm_with != "") == (55.0, True)


def test_the_bandwidth_of_the_link_may_be_that_of_the_trace_s_own_copies(tmp_path: Path) -> None:
    """On a GPU without a known link, whose pinned copies reach 48 GB/s."""
    copy = [make.call(9000, 5, name="cudaMemcpyAsync", correlation=90)]
    copy += [make.copy(9010, 1400, kinds="HtoD (Pinned -> Device)", size=64 * 2**20, correlation=90)]
    unknown = {"deviceProperties": [{"id": 0, "name": "Test GPU"}]}
    assert mapped(tmp_path, *adding([1400, 1400, 1400, 40]), header=unknown) is None
    assert mapped(tmp_path, *adding([1400, 1400, 1400, 40]), *copy, header=unknown) is not None


@pytest.mark.parametrize(
    "us",
    [
        [1400, 1400, 40],  # too few
        [1400, 1400, 1400],  # none that shows what the memory can do
        [5000, 5000, 5000, 40],  # slower than a link explains
        [300, 300, 300, 40],  # faster than the link
    ],
)
def test_kernels_that_something_else_may_explain_are_not_accused(us: list[float], tmp_path: Path) -> None:
    assert mapped(tmp_path, *adding(us)) is None


def test_kernels_whose_bytes_are_not_known_are_not_accused(tmp_path: Path) -> None:
    for name in (GATHER, "gemm", ADD.replace("CUDAFunctor_add<float>", "lgamma_kernel_cuda")):
        assert mapped(tmp_path, *adding([1400, 1400, 1400], name=name), *adding([40], first=9, at=9000)) is None


def test_kernels_that_share_the_gpu_are_not_accused(tmp_path: Path) -> None:
    beside = [make.call(0, 5, correlation=20), make.kernel(10, 6000, stream=9, name="gemm", correlation=20)]
    assert mapped(tmp_path, *adding([1400, 1400, 1400]), *beside, *adding([40], first=9, at=9000)) is None


@pytest.mark.parametrize("prefetches", [False, True])
def test_migrations_under_kernels_are_told_unless_the_program_prefetches(prefetches: bool, tmp_path: Path) -> None:
    """Four migrations of 50 us each, three of them while the kernel runs."""
    moved = [nsys.work(100_000 * n, 100_000 * n + 50_000, copyKind=11, bytes=2**21) for n in (2, 4, 6, 12)]
    calls = [nsys.call(0, 5_000, 2), *([nsys.call(6_000, 7_000, 3, correlation=2)] if prefetches else [])]
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys.work(10_000, 1_000_000, demangledName=1)],
        "CUPTI_ACTIVITY_KIND_MEMCPY": moved,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
    }
    names = {1: "k", 2: "cudaLaunchKernel_v7000", 3: "cudaMemPrefetchAsync_v8000"}
    finding = found(diagnose(open_trace(nsys.write(tmp_path / "t.sqlite", tables, names))), "OVL021")
    assert (finding is None) is prefetches
    if finding is not None:
        assert (finding.kind, finding.idle_ns) == ("managed", 150_000)
        told = {name: value for name, value in finding.evidence.items() if value is not None}
        assert told == {"migrations": 4, "size_bytes": 4 * 2**21, "time_ns": 150_000}
        assert "Prefetch" in finding.fix


# OVL105: a stream that waits for itself

INSIDE = """
thread 1: copy 64MB pinned HtoD 0-5 -> stream 13: 10-1200 | record A 6-8 -> stream 13 | wait A 9-11 -> stream 13
          launch 20-25 -> stream 7: 30-900 | sync 30-1210
"""


def self_wait(tmp_path: Path, text: str) -> Finding | None:
    return found(diagnose(trace_of(tmp_path, text)), "OVL105")


def test_a_kernel_that_starts_before_the_copy_has_arrived_is_a_hazard(tmp_path: Path) -> None:
    finding = self_wait(tmp_path, INSIDE)
    assert finding is not None
    assert (finding.severity, finding.confidence, finding.copies) == (Severity.HAZARD, Confidence.MEDIUM, (0,))
    assert finding.evidence == {"unordered_copies": 1, "self_waits": 1, "inferred": False}
    assert finding.message.startswith("Suspected: 1 copy ran beside")


def test_a_copy_to_the_host_that_starts_before_the_kernel_ends_is_one_too(tmp_path: Path) -> None:
    finding = self_wait(
        tmp_path,
        """
        thread 1: launch 0-5 -> stream 7: 10-1000 | record A 6-8 -> stream 13 | wait A 9-11 -> stream 13
                  copy 64MB pinned DtoH 12-17 -> stream 13: 20-1200 | sync 30-1210
        """,
    )
    assert finding is not None
    assert finding.copies == (0,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wait A 9-11 -> stream 13", "wait A 9-11 -> stream 7"),  # the other stream waits
        ("stream 7: 30-900", "stream 7: 1205-1900"),  # it comes later all the same
        ("stream 7: 30-900", "stream 13: 1205-1900"),  # all is on one stream
        ("stream 13: 10-1200", "stream 13: 10-20"),  # the copy was over
        ("| sync", "| record B 26-27 -> stream 13 | wait B 28-29 -> stream 7 | sync"),  # who needs it waits later
        ("copy 64MB pinned HtoD", "launch"),
    ],
)
def test_a_self_wait_that_does_no_harm_is_silent(old: str, new: str, tmp_path: Path) -> None:
    assert self_wait(tmp_path, INSIDE) is not None
    assert self_wait(tmp_path, INSIDE.replace(old, new)) is None


NOT_RECORDED = """
thread 1: copy 64MB pinned HtoD 0-5 -> stream 13: 10-1200 | record A 6-8 -> stream 13 | wait 9-11 -> stream 13
          launch 20-25 -> stream 7: 30-900 | stream-sync 30-905 -> stream 7
          copy 64MB pinned HtoD 910-915 -> stream 13: 1201-2400
          record B 916-918 -> stream 13 | wait 919-921 -> stream 13
          launch 925-930 -> stream 7: 935-1800 | stream-sync 935-1805 -> stream 7
"""
"""As CUDA 12.9 and later leave it: the trace does not say what the waits are for."""


def test_a_wait_of_the_copy_s_own_stream_alone_orders_nothing(tmp_path: Path) -> None:
    finding = self_wait(tmp_path, NOT_RECORDED)
    assert finding is not None
    assert (finding.severity, finding.confidence, finding.copies) == (Severity.HAZARD, Confidence.LOW, (0, 1))
    assert finding.evidence["inferred"] is True


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stream-sync 30-905 -> stream 7", "sync 30-905"),  # the host waits for all
        ("stream-sync 30-905 -> stream 7", "stream-sync 30-905 -> stream 13"),  # and for this one
        ("stream-sync 30-905 -> stream 7", "wait 30-32 -> stream 7"),  # the other stream waits for something
    ],
)
def test_what_may_have_been_ordered_otherwise_is_not_told(old: str, new: str, tmp_path: Path) -> None:
    finding = self_wait(tmp_path, NOT_RECORDED.replace(old, new))
    assert finding is not None
    assert finding.copies == (1,)


EVENT = {"wait_on_cuda_event_id": 5}


def test_what_went_on_beside_all_other_streams_waited_for_itself(tmp_path: Path) -> None:
    """A second copy on the waiting stream starts while the kernels of the other one run: it waited for itself."""
    lines = """
    thread 1: launch 0-5 -> stream 7: 10-3000 | copy 64MB pinned HtoD 6-9 -> stream 13: 12-1200 | cudaEventRecord 10-11
    """
    wait = [
        make.call(12, 2, name="cudaStreamWaitEvent", correlation=50),
        make.sync("Stream Wait Event", 12, 2, stream=13, correlation=50, wait_on_stream=-1, **EVENT),
    ]
    after = [
        make.call(20, 5, correlation=51),
        make.kernel(3001, 100, correlation=51),
        make.call(30, 5, name="cudaMemcpyAsync", correlation=52),
        make.copy(1205, 1000, kinds="HtoD (Pinned -> Device)", size=64_000_000, correlation=52),
    ]
    own = trace_of(tmp_path, lines, *wait, *after).event_waits
    assert (own.source_stream.tolist(), own.inferred.tolist()) == ([13], [True])
    after[-1]["ts"] = 3002  # it may have waited for the kernels
    assert trace_of(tmp_path, lines, *wait, *after).event_waits.source_stream.tolist() == [7]
    second = [dict(event) for event in wait]
    after[-1]["ts"] = 1205
    for event in second:
        event["ts"] = 16
        event["args"] = event["args"] | {"correlation": 60}
    several = trace_of(tmp_path, lines, *wait, *second, *after).event_waits
    assert 13 not in several.source_stream.tolist(), "an event that is waited for twice is not one of wait_stream"


# OVL023: copies beside collectives


def reducing(*, collective_us: float, beside_us: float, alone_us: float, rounds: int = 6) -> list[make.Event]:
    """Rounds of a collective with a copy beside it, and the same copy alone after that."""
    events: list[make.Event] = []
    for number in range(rounds):
        at, last = 10_000 * number, 10 * number
        events += [make.call(at, 3, correlation=last + 1), make.call(at + 4, 3, correlation=last + 2)]
        events += [make.kernel(at + 10, collective_us, stream=20, name="ncclDevKernel_AllReduce", correlation=last + 1)]
        events += [_down(at + 12, beside_us, last + 2), make.call(at + 5000, 3, correlation=last + 3)]
        events += [_down(at + 5010, alone_us, last + 3)]
    for event in events:
        if event["cat"] == "cuda_runtime" and event["args"]["correlation"] % 10 > 1:
            event["name"] = "cudaMemcpyAsync"
    return events


def _down(at: float, length: float, correlation: int) -> make.Event:
    return make.copy(at, length, kinds="DtoH (Device -> Pinned)", size=64 * 2**20, correlation=correlation)


def beside(tmp_path: Path, *events: make.Event) -> Finding | None:
    return found(diagnose(open_trace(make.write(tmp_path / "t.json", *events))), "OVL023")


def test_copies_that_take_longer_beside_collectives_are_told(tmp_path: Path) -> None:
    finding = beside(tmp_path, *reducing(collective_us=4000, beside_us=3600, alone_us=1200))
    assert finding is not None
    assert (finding.confidence, len(finding.copies)) == (Confidence.MEDIUM, 6)
    assert {name: value for name, value in finding.evidence.items() if value is not None} == {
        "copies_beside": 6,
        "copies_alone": 6,
        "copy_beside_ns": 3_600_000,
        "copy_alone_ns": 1_200_000,
        "lost_ns": 6 * 2_400_000,
    }
    assert finding.idle_ns == 6 * 2_400_000


@pytest.mark.parametrize(
    ("beside_us", "rounds"),
    [(1300, 6), (3600, 4)],
    ids=["hardly slower", "too few"],
)
def test_copies_that_are_not_clearly_slower_are_not_told(beside_us: float, rounds: int, tmp_path: Path) -> None:
    assert beside(tmp_path, *reducing(collective_us=4000, beside_us=beside_us, alone_us=1200, rounds=rounds)) is None


def test_copies_that_the_other_direction_slows_are_not_told(tmp_path: Path) -> None:
    events = reducing(collective_us=4000, beside_us=3600, alone_us=1200)
    for number in range(6):
        up = make.copy(10_000 * number + 12, 3600, kinds="HtoD (Pinned -> Device)", size=2**20, stream=14)
        events.append(up)
    assert beside(tmp_path, *events) is None


def test_copies_that_cost_nothing_are_not_told(tmp_path: Path) -> None:
    """Kernels run beside the collectives all the time."""
    events = reducing(collective_us=4000, beside_us=3600, alone_us=1200)
    kernels = [make.kernel(10_000 * number, 9_000, name="gemm") for number in range(6)]
    assert beside(tmp_path, *events, *kernels) is None


@pytest.mark.parametrize(("version", "shared"), [("12040", 1), ("13000", 2)])
def test_threads_of_later_versions_handle_twice_as_much(version: str, shared: int, tmp_path: Path) -> None:
    """The same grid is 64 MiB or 128, here at 28 or 56 GB/s."""
    finding = mapped(tmp_path, *adding([2400, 2400, 2400, 80]), header=make.H200 | {"cuda_runtime_version": version})
    assert finding is not None
    assert finding.evidence["size_bytes"] == shared * 3 * 64 * 2**20


def test_names_that_no_kernel_has_are_no_numbers() -> None:
    names = {
        ADD: 16,
        "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::"
        "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>(int)": 8,
        "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, x>": 16,
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
        "{lambda()#3}::operator()() const::{lambda()#10}::operator()() const::{lambda(c10::Half)#1}, x>": 8,
        GATHER: NO_ID,
        "sgemm<128, 4, CUDAFunctor_add<float>>": NO_ID,
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, x>": NO_ID,
    }
    assert {name: _bytes_of_thread(name) for name in names} == names


# Recordings of an H200, and of two


@pytest.mark.parametrize(
    ("faulty", "healthy", "code", "evidence"),
    [
        ("zero_copy-mapped", "zero_copy-copied", "OVL021", {"kernels": 6, "size_bytes": 6 * 64 * 2**20}),
        ("self_wait-read-unordered", "self_wait-read-ordered", "OVL105", {"inferred": True}),
    ],
)
def test_a_recorded_fault_is_told_and_its_fix_is_not(
    faulty: str, healthy: str, code: str, evidence: dict[str, object]
) -> None:
    def told(name: str) -> Finding | None:
        return found(diagnose(open_trace(SAMPLES / f"{name}.json.gz"), name.partition("-")[0]), code)

    finding = told(faulty)
    assert finding is not None
    assert evidence.items() <= dict(finding.evidence).items()
    assert told(healthy) is None


def test_collectives_through_host_memory_slow_copies_and_those_over_nvlink_do_not() -> None:
    """It is 4.4 % of the pass, so the least share of a finding is lowered."""
    config = DiagnosisConfig(report_share=0.02)

    def told(way: str) -> Finding | None:
        trace = open_trace(CASES / f"collective_copies_beside_{way}.json.gz")
        return found(diagnose(trace, "pass", config=config), "OVL023")

    finding = told("shm")
    assert finding is not None
    assert (finding.evidence["copies_beside"], finding.evidence["copies_alone"]) == (8, 8)
    assert told("nvlink") is None


def test_copies_that_are_worth_hiding_are_no_copies_that_are_not() -> None:
    """The same loop with copies of 4 MiB and more kernels, and with copies of 64 MiB."""
    small, large = (diagnose(open_trace(CASES / f"{name}.json.gz"), "pass") for name in _ONE_STREAM)
    assert found(small, "OVL024") is not None
    assert found(large, "OVL024") is None


_ONE_STREAM = ("small_copies_exposed", "one_stream")
