"""The rule OVL021, mapped-copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.finding import Confidence, Finding
from overlapscope.measure.elementwise import bytes_of_thread
from overlapscope.model.columns import NO_ID
from tests import kineto_maker as make, nsys_maker as nsys
from tests.rules import RuleTests, diagnosis_of_case, finding_of
from tests.rules.traces import ADD, GATHER, adding


class TestOvl021(RuleTests):
    code = "OVL021"
    reports = ("zero_copy-mapped",)
    silent = ("zero_copy-copied",)


def mapped(tmp_path: Path, *events: make.Event, header: make.Event = make.H200) -> Finding | None:
    return finding_of(diagnose(open_trace(make.write(tmp_path / "t.json", *events, **header))), "OVL021")


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
    finding = finding_of(diagnose(open_trace(nsys.write(tmp_path / "t.sqlite", tables, names))), "OVL021")
    assert (finding is None) is prefetches
    if finding is not None:
        assert (finding.kind, finding.idle_ns) == ("managed", 150_000)
        told = {name: value for name, value in finding.evidence.items() if value is not None}
        assert told == {"migrations": 4, "size_bytes": 4 * 2**21, "time_ns": 150_000}
        assert "Prefetch" in finding.fix


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
    assert {name: bytes_of_thread(name) for name in names} == names


def test_a_recorded_fault_is_told_and_its_fix_is_not() -> None:
    faulty, healthy = (diagnosis_of_case(name, Path()) for name in ("zero_copy-mapped", "zero_copy-copied"))
    finding = finding_of(faulty, "OVL021")
    assert finding is not None
    assert {"kernels": 6, "size_bytes": 6 * 64 * 2**20}.items() <= dict(finding.evidence).items()
    assert finding_of(healthy, "OVL021") is None
