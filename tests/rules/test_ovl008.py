"""The rule OVL008, host-late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from overlapscope import Finding, audit, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.calibration.schema import Calibration, Loader
from overlapscope.diagnosis.finding import Severity
from tests import kineto_maker as make, nsys_maker
from tests.notation import trace_of
from tests.rules import RuleTests, codes, program
from tests.rules.traces import STEP, repeated, shifted


class TestOvl008(RuleTests):
    code = "OVL008"
    reports = ("launch_bound", "pinning_guide-coalesced")
    silent = ("compute_alone", "prefetched")


def test_kernels_of_a_late_host_are_the_host_s_fault(tmp_path: Path) -> None:
    events = []
    for number in range(10):
        events += [make.call(1000 * number, 5, correlation=number + 1)]
        events += [make.kernel(1000 * number + 8, 300, correlation=number + 1)]
    found = program(*events)(tmp_path)
    assert codes(found) == {"OVL008"}
    assert found.devices[0].idle_ns("OVL008") == 9 * 700_000
    assert found.findings[0].idle_ns == pytest.approx(9 * 700_000, rel=0.02), "the rest is launches"


LOADER = "op enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def host_late(tmp_path: Path, *lines: str) -> list[Finding]:
    return [entry for entry in diagnose(trace_of(tmp_path, *lines)).findings if entry.code == "OVL008"]


@pytest.mark.parametrize(
    ("did", "kind", "change"),
    [
        (f"thread 1: {LOADER} 10-4990", "data-loading", "workers=8"),
        ("thread 1: op aten::sort 10-4990", "host-work", None),
        ("thread 1: ", "not-recorded", None),
        ("thread 1: cuModuleLoadData 10-4990", "first-use", None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_long_gap_is_what_the_thread_did_in_it(did: str, kind: str, change: str | None, tmp_path: Path) -> None:
    """Half of each step the GPU waits; the launch comes late from an operator that takes 20 us."""
    found = host_late(tmp_path, repeated(6, did), repeated(6, STEP))
    assert [(entry.kind, entry.change) for entry in found] == [(kind, change)]
    assert found[0].idle_ns == pytest.approx(5 * 5_022_000, rel=0.01)


def test_short_gaps_are_launch_bound(tmp_path: Path) -> None:
    """Kernels of 10 us, of which the host issues one in 40 us."""
    found = host_late(tmp_path, repeated(200, "thread 1: op aten::add 0-35 | launch 20-30 -> stream 7: 32-42", 40))
    assert [(entry.kind, entry.change) for entry in found] == [("launch-bound", "cuda-graph")]


def test_the_place_is_what_ran_while_the_gpu_was_idle(tmp_path: Path) -> None:
    """Not the operator whose launch came late."""
    (found,) = host_late(tmp_path, repeated(6, f"thread 1: {LOADER} 10-4990"), repeated(6, STEP))
    assert found.where.op == LOADER.removeprefix("op ")
    assert found.places[0].idle_ns > 0.9 * found.idle_ns


def test_the_place_is_what_covers_most_of_the_gap(tmp_path: Path) -> None:
    """An operator of 5 ms calls 20 others of 100 us, one in the middle of the gap: none of these is the place."""
    inner = " | ".join(f"op aten::as_strided {at}-{at + 100}" for at in range(600, 4600, 200))
    (found,) = host_late(
        tmp_path, repeated(6, "thread 1: op aten::split 10-4990"), repeated(6, inner), repeated(6, STEP)
    )
    assert found.where.op == "aten::split"


def test_two_kinds_are_two_findings(tmp_path: Path) -> None:
    """In each step 3 ms in the loader, and 2 ms of other work."""
    lines = (f"thread 1: {LOADER} 10-3000", "thread 1: op aten::sort 3000-4990")
    found = host_late(tmp_path, *(repeated(6, line) for line in lines), repeated(6, STEP))
    assert [entry.kind for entry in found] == ["data-loading", "host-work"]
    assert found[0].idle_ns > found[1].idle_ns > 0


def test_the_first_call_of_an_operator_is_first_use(tmp_path: Path) -> None:
    """It takes 60 ms once, as cuBLAS sets itself up in it, and 20 us ever after: information, below everything else."""
    first = (
        "thread 1: launch 0-5 -> stream 7: 10-100 | op aten::mm 100-60000 | launch 59990-59995 -> stream 7: 60000-60100"
    )
    found = diagnose(trace_of(tmp_path, first, repeated(6, shifted(STEP, 61_000)))).findings
    assert [(entry.kind, entry.severity) for entry in found if entry.kind == "first-use"] == [
        ("first-use", Severity.INFO)
    ]
    assert found[-1].kind == "first-use"


def test_a_call_before_the_first_gpu_work_costs_no_run_ahead(tmp_path: Path) -> None:
    """cudaMalloc for 50 ms, before anything runs; then kernels of 10 us, of which the host issues one in 40 us."""
    text = repeated(200, "thread 1: op aten::add 60000-60035 | launch 60020-60030 -> stream 7: 60032-60042", 40)
    found = diagnose(trace_of(tmp_path, "thread 1: cudaMalloc 0-50000", text)).findings
    assert [entry.code for entry in found] == ["OVL008"]


def test_the_headline_says_first_use_and_what_comes_after(tmp_path: Path) -> None:
    first = (
        "thread 1: launch 0-5 -> stream 7: 10-100\nop aten::mm 100-60000 | launch 59990-59995 -> stream 7: 60000-60100"
    )
    text = (first, repeated(6, shifted(f"thread 1: {LOADER} 10-4990", 61_000)), repeated(6, shifted(STEP, 61_000)))
    said = audit(trace_of(tmp_path, *text)).headline
    assert "one-time setup (50 %), then the data loader (OVL008, 25 %), at most -25 % without it." in said


def test_operators_that_always_take_long_are_launch_bound(tmp_path: Path) -> None:
    """A slow host: an operator in 200 us, a kernel of 10 us each."""
    found = host_late(
        tmp_path, repeated(200, "thread 1: op aten::add 0-190 | launch 170-180 -> stream 7: 182-192", 200)
    )
    assert [entry.kind for entry in found] == ["launch-bound"]


@pytest.mark.parametrize(
    ("call", "alone"),
    [
        ("cudaMalloc", False),  # a lone allocation may be one that every step makes
        ("cudaHostAlloc", False),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessor", True),
    ],
)
def test_a_call_is_first_use_the_first_time_only(call: str, alone: bool, tmp_path: Path) -> None:
    """Made once it sets something up; made in each of six phases, each with kernels of its own, it does not."""
    phase = """
    thread 1: launch k{0} 5-10 -> stream 7: 15-100 | launch k{0} 20-25 -> stream 7: 100-200
              {1} 230-4000 | launch l{0} 4010-4015 -> stream 7: 4020-4200
    """
    times = [shifted(phase.format(number, call), 10_000 * number) for number in range(6)]
    once, often = (
        {entry.kind for entry in diagnose(trace_of(tmp_path, *text)).findings} for text in (times[:1], times)
    )
    assert ("first-use" in once) is alone
    assert "first-use" not in often


def test_kinds_of_a_late_host_have_cuda_fixes(tmp_path: Path) -> None:
    """A CUDA C++ program, by Nsight Systems: no name of PyTorch in it; the host makes no call for 5 ms in each step."""
    calls = [nsys_maker.call(10_000_000 * n, 10_000_000 * n + 5_000, 2, correlation=n) for n in range(1, 9)]
    kernels = [nsys_maker.work(10_000_000 * n + 8_000, 10_000_000 * n + 5_000_000, correlation=n) for n in range(1, 9)]
    tables = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": [row | {"shortName": 3} for row in kernels],
    }
    strings = {2: "cudaLaunchKernel_v7000", 3: "saxpy"}
    trace = open_trace(nsys_maker.write(tmp_path / "t.sqlite", tables, strings))
    (finding,) = diagnose(trace).findings
    assert finding.kind == "not-recorded"
    assert finding.fix.startswith("nsys profile")
    assert "overlapscope.record" not in finding.confirm_with


@pytest.mark.parametrize(("recorded", "words"), [(None, "overlapscope.record"), (Calibration(), "--unprofiled 5")])
def test_what_would_confirm_late_launches(recorded: Calibration | None, words: str, tmp_path: Path) -> None:
    text = "thread 1: launch 0-5 -> stream 7: 10-20 | op aten::sort 21-900 | launch 935-940 -> stream 7: 945-1000"
    trace = trace_of(tmp_path, text)
    trace = replace(trace, metadata=replace(trace.metadata, recording=recorded))
    (finding,) = (entry for entry in diagnose(trace).findings if entry.code == "OVL008")
    assert words in finding.confirm_with


@pytest.mark.parametrize(
    ("loaders", "fix"),
    [
        ((), "loader = DataLoader(dataset, num_workers=8"),
        ((Loader("a.py:1", 0, pin_memory=True),), "# DataLoader(num_workers=0, pin_memory=True) at a.py:1\n"),
        ((Loader("a.py:1", 4, pin_memory=True, prefetch_factor=2),), "num_workers=8, prefetch_factor=4)"),
        (
            (Loader("a.py:1", 2, item_ns=3_000_000, collate_ns=1_000_000, ready=(0, 0, 2, 0)),),
            "at a.py:1; a batch takes 3 ms in the dataset and 1 ms in collate_fn; none ready at 3 of 4\n",
        ),
        ((Loader("a.py\nimport b", 4, pin_memory=True),), " at a.py?import b\n"),
    ],
)
def test_the_fix_names_the_loader_that_is_late(loaders: tuple[Loader, ...], fix: str, tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-5 -> stream 7: 10-20 | op enumerate(DataLoader)#_Iter.__next__ 21-900
                  launch 935-940 -> stream 7: 945-1000
        """,
    )
    trace = replace(trace, metadata=replace(trace.metadata, recording=Calibration(loaders=loaders)))
    (finding,) = (entry for entry in diagnose(trace).findings if entry.kind == "data-loading")
    assert fix in finding.fix
