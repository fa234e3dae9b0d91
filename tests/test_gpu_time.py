"""The parts of a GPU's time, the headline, and which fixes are offered."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from overlapscope import Audit, audit, diagnose
from overlapscope.cli.main import app
from overlapscope.diagnosis.finding import Severity
from overlapscope.formatting import time
from overlapscope.report.findings import worth
from overlapscope.report.headline import headline
from tests.conftest import SAMPLES
from tests.notation import trace_of
from tests.opened import audit_of, planned, swept, trace_at

EVERY = sorted(SAMPLES.glob("*.json.gz"))


def parts(found: Audit, device: int = 0) -> dict[str, int]:
    return {part.key: part.time_ns for part in found.devices[device].time.parts if part.time_ns}


@pytest.mark.parametrize("path", swept(EVERY))
def test_the_parts_add_up_to_the_window_and_agree_with_the_findings(path: Path) -> None:
    found = audit_of(path)
    for device in found.devices:
        spent = device.time
        assert spent.total_ns == found.window.of(device.key.process).total_ns
        assert all(part.time_ns >= 0 for part in spent.parts)
        assert spent.of("exposed_copies") <= device.activity.copies.total_ns - device.activity.overlap.total_ns
        for finding in found.diagnosis.findings:
            if finding.severity is not Severity.INFO:
                assert spent.of(f"idle_{finding.code}") <= finding.idle_ns


def test_each_part_is_the_time_of_one_thing(tmp_path: Path) -> None:
    """A kernel of 100 us, a blocking copy of 200 with 50 of it under the kernel, a kernel of 100 after 20 us."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-5 -> stream 7: 10-110 | copy 4MB pageable HtoD 20-262 -> stream 13: 60-260
                  launch 270-275 -> stream 7: 280-380
        """,
    )
    found = parts(audit(trace))
    assert found["kernels"] == 200_000
    assert found["exposed_copies"] == 150_000
    assert sum(found.values()) == trace.end_ns - trace.start_ns
    assert sum(time for key, time in found.items() if key.startswith("idle_")) == 20_000
    assert found["before_and_after"] == 10_000


def test_a_collective_is_exposed_where_no_other_kernel_runs(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch gemm 0-5 -> stream 7: 10-110
                  launch ncclDevKernel_AllReduce 6-9 -> stream 20: 60-210
        """,
    )
    assert parts(audit(trace)) == {"kernels": 100_000, "exposed_collectives": 100_000, "before_and_after": 10_000}


def test_the_headline_begins_with_the_gpu_and_ends_with_the_fix() -> None:
    found = audit(trace_at(SAMPLES / "prefetcher-blocking.json.gz"))
    first, cause, fix = found.headline.split(". ")
    assert first.startswith("GPU idle or only copying for 7")
    assert cause.startswith("Largest cause: pageable copies (OVL001")
    assert fix.startswith("With pin: ")
    assert "without the profiler" in fix
    assert found.diagnosis.plan is not None
    assert found.diagnosis.plan.baseline == "unprofiled"


@pytest.mark.parametrize("variant", ["read-as-written", "read-early"])
def test_wrong_results_come_before_every_time(variant: str) -> None:
    """The sums that this program printed were wrong."""
    found = audit_of(SAMPLES / f"pinning_guide-{variant}.json.gz")
    first, second, *_ = found.headline.split(". ")
    assert first == "Results may be wrong: copies that are read too early (OVL103)"
    assert second.startswith("GPU idle or only copying")


def test_a_weak_sign_of_wrong_results_is_named_as_one() -> None:
    found = audit_of(SAMPLES / "pinning_guide-read-early.sqlite.gz")
    assert any(finding.code == "OVL103" for finding in found.diagnosis.findings)
    assert found.headline.startswith("GPU idle")
    assert "Suspected, to be checked: copies that are read too early (OVL103)." in found.headline
    assert "may be wrong" not in found.headline


def test_a_busy_gpu_has_no_cause() -> None:
    found = audit_of(SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz")
    assert found.headline == "GPU busy with kernels for 98 % of 32.8 ms."


def test_where_copies_are_not_the_problem_the_headline_says_so(tmp_path: Path) -> None:
    """Half of each step in a data loader, and a copy of 20 us."""
    step = "thread 1: op enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ {0}10-{0}4990\n"
    step += "copy 1MB pinned HtoD {0}4991-{0}4995 -> stream 7: {0}4996-{0}5011\n"
    step += "op aten::mm {0}5000-{0}5020 | launch {0}5005-{0}5010 -> stream 7: {0}5012-{0}9990"
    found = audit(trace_of(tmp_path, *(step.replace("{0}", str(number)) for number in range(1, 7))))
    assert "Largest cause: the data loader (OVL008" in found.headline
    assert "Copies are not the problem" in found.headline


def test_copy_calls_that_block_are_no_proof_that_copies_are_not_the_problem(tmp_path: Path) -> None:
    """The host is in a copy call of 256 B for most of each step, and what it waits for is not recorded."""
    step = "thread 1: copy 256B pageable DtoH {0}0010-{0}9000 -> stream 7: {0}8990-{0}8995\n"
    step += "op aten::mm {0}9010-{0}9030 | launch {0}9015-{0}9020 -> stream 7: {0}9022-{0}9990"
    found = audit(trace_of(tmp_path, *(step.replace("{0}", str(number)) for number in range(1, 7))))
    assert "Copies are not the problem" not in found.headline
    assert "copy calls blocked the host for 53.9 ms" in found.headline


def test_several_gpus_are_never_summed(tmp_path: Path) -> None:
    """GPU 0 is busy for 100 us, GPU 1 for 200: the headline is about the one that waits more."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-5 -> gpu 0 stream 7: 10-60 | launch 6-9 -> gpu 1 stream 7: 10-160
                  launch 390-395 -> gpu 0 stream 7: 400-450 | launch 396-399 -> gpu 1 stream 7: 400-450
        """,
    )
    found = audit(trace)
    assert found.headline.startswith("GPU 0 (the worst of 2; median 67 %) idle for 78 % of 450 us.")
    assert [device.time.total_ns for device in found.devices] == [450_000, 450_000]


def test_without_gpu_work_there_is_no_headline(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "thread 1: op aten::add 0-5")
    assert headline((), diagnose(trace), 0) == ""


def test_a_fix_that_recovers_nothing_is_not_offered_and_says_what_the_gpu_would_wait_for() -> None:
    """600 small copies of pinned memory and no kernel: packing them costs the host what it saves."""
    found = planned(SAMPLES / "pinning_guide-tensordict-pinned-ahead.json.gz")
    (finding,) = [entry for entry in found.findings if entry.code == "OVL010"]
    assert not finding.offered
    assert found.plan is not None
    assert not found.plan.steps
    (text,) = worth(finding, found.plan)
    assert text.startswith("fix not offered: batch-copies saves nothing")


def test_a_saving_above_its_idle_time_says_why() -> None:
    found = planned(SAMPLES / "gemm_copy-pageable-kernels-first-non-blocking-side.json.gz", "gemm_copy")
    finding = found.findings[0]
    assert finding.saving_ns is not None
    assert finding.saving_ns > finding.idle_ns
    assert finding.saves_more is not None
    assert finding.saves_more in worth(finding, found.plan)[0]


@pytest.mark.parametrize("path", swept(EVERY))
def test_findings_are_in_the_order_of_what_is_shown(path: Path) -> None:
    found = planned(path).findings
    costs = [entry.idle_ns for entry in found if entry.severity not in {Severity.HAZARD, Severity.INFO}]
    assert costs == sorted(costs, reverse=True)
    for entry in found:
        if entry.saving_ns is not None and entry.saving_ns > entry.idle_ns:
            assert entry.saves_more is not None


def test_the_heading_says_which_time_of_a_step_savings_start_from() -> None:
    """Steps timed without the profiler are other ones than the recorded one, which fixes are simulated on."""
    path = SAMPLES / "dataloader_train-pageable-blocking.sqlite.gz"
    plan = planned(path).plan
    assert plan is not None
    text = " ".join(CliRunner().invoke(app, ["audit", str(path)], env={"COLUMNS": "100"}).stdout.split())
    assert f"savings start from {time(plan.baseline_ns)}: the recorded step" in text
    assert f"With pin: {time(plan.baseline_ns)} ->" in text
