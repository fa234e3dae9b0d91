"""The parts of a GPU's time, the headline, and which fixes are offered."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from overlapscope import Audit, audit
from overlapscope.analysis.analysis import diagnose
from overlapscope.cli.main import app
from overlapscope.diagnosis.finding import Severity
from overlapscope.document.markdown import markdown_of
from overlapscope.formatting import share, time
from overlapscope.measure.windows import Window
from overlapscope.report.document import audit_document
from overlapscope.report.findings import worth
from overlapscope.report.headline import headline
from overlapscope.report.tables import tables
from tests.conftest import SAMPLES
from tests.notation import trace_of
from tests.opened import analysis_of, audit_of, planned, swept, trace_at

EVERY = sorted(SAMPLES.glob("*.json.gz"))


def parts(found: Audit, device: int = 0) -> dict[str, int]:
    return {part.key: part.time_ns for part in found.devices[device].time.parts if part.time_ns}


def shares_in_tables(found: Audit) -> list[str]:
    """The numbers in columns of percentages."""
    of_shares = [
        [row[place] for row in each.rows]
        for each in tables(found)
        for place, column in enumerate(each.columns)
        if column.heading.endswith("(%)")
    ]
    return [text for texts in of_shares for text in texts if text != "undefined"]


@pytest.mark.parametrize("path", swept(EVERY))
def test_nothing_of_a_finding_lies_outside_of_its_window(path: Path) -> None:
    chance, whole = random.Random(path.name), analysis_of(path)  # noqa: S311
    copies = whole.trace.copies
    for row in chance.sample(range(len(copies)), min(3, len(copies))):
        begin, end = int(copies.start_ns[row]), int(copies.end_ns[row])
        inside, outside = (begin + end) // 2, chance.randint(whole.trace.start_ns, whole.trace.end_ns)
        window = Window.between(*sorted((inside, outside + (inside == outside))))
        found = audit(whole.within(window), plan=False)
        for device in found.diagnosis.devices:
            assert np.all(device.idle.start_ns >= window.first_ns)
            assert np.all(device.idle.end_ns <= window.last_ns)
            assert np.all(device.idle.start_ns[1:] >= device.idle.end_ns[:-1])
        for finding in found.diagnosis.findings:
            assert finding.copying_ns <= finding.idle_ns <= window.wall_ns
            assert finding.blocked_ns <= window.wall_ns
        said = re.findall(r"([\d.]+) \\?%", markdown_of(audit_document(found).parts))
        assert max(map(float, [*said, *shares_in_tables(found), "0"])) <= 100


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
    assert sum(found.values()) == 370_000
    assert sum(time for key, time in found.items() if key.startswith("idle_")) == 20_000


def test_a_collective_is_exposed_where_no_other_kernel_runs(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch gemm 0-5 -> stream 7: 10-110
                  launch ncclDevKernel_AllReduce 6-9 -> stream 20: 60-210
        """,
    )
    assert parts(audit(trace)) == {"kernels": 100_000, "exposed_collectives": 100_000}


def test_the_headline_begins_with_the_gpu_and_ends_with_the_fix() -> None:
    found = audit(trace_at(SAMPLES / "prefetcher-blocking.json.gz"))
    first, fix = found.headline.split(". ")
    assert first.startswith("The GPU ran no kernel for 80 % of 169 ms without the profiler (78 % as recorded)")
    assert "mostly pageable copies (OVL001" in first
    assert fix.startswith("With pin + ")
    assert found.diagnosis.plan is not None
    assert found.diagnosis.plan.baseline == "unprofiled"


@pytest.mark.parametrize("variant", ["read-as-written", "read-early"])
def test_wrong_results_come_before_every_time(variant: str) -> None:
    """The sums that this program printed were wrong."""
    found = audit_of(SAMPLES / f"pinning_guide-{variant}.json.gz")
    first, second, *_ = found.headline.split(". ")
    assert first == "Results may be wrong: copies that are read too early (OVL103)"
    assert second.startswith("The GPU ran no kernel for ")


def test_a_weak_sign_of_wrong_results_is_named_as_one() -> None:
    found = audit_of(SAMPLES / "pinning_guide-read-early.sqlite.gz")
    assert any(finding.code == "OVL103" for finding in found.diagnosis.findings)
    assert found.headline.startswith("The GPU ran")
    assert "To be checked first: copies that are read too early (OVL103)." in found.headline
    assert "may be wrong" not in found.headline


def test_a_busy_gpu_has_no_cause() -> None:
    found = audit_of(SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz")
    assert found.headline.startswith("The GPU ran kernels for ")
    assert ":" not in found.headline


def test_where_copies_are_not_the_problem_the_headline_says_so(tmp_path: Path) -> None:
    """Half of each step in a data loader, and a copy of 20 us."""
    step = "thread 1: op enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ {0}10-{0}4990\n"
    step += "copy 1MB pinned HtoD {0}4991-{0}4995 -> stream 7: {0}4996-{0}5011\n"
    step += "op aten::mm {0}5000-{0}5020 | launch {0}5005-{0}5010 -> stream 7: {0}5012-{0}9990"
    found = audit(trace_of(tmp_path, *(step.replace("{0}", str(number)) for number in range(1, 7))))
    assert "mostly the data loader (OVL008" in found.headline
    assert "Copies cost less than 1 %." in found.headline


def test_copy_calls_that_block_are_no_proof_that_copies_are_not_the_problem(tmp_path: Path) -> None:
    """The host is in a copy call of 256 B for most of each step, and what it waits for is not recorded."""
    step = "thread 1: copy 256B pageable DtoH {0}0010-{0}9000 -> stream 7: {0}8990-{0}8995\n"
    step += "op aten::mm {0}9010-{0}9030 | launch {0}9015-{0}9020 -> stream 7: {0}9022-{0}9990"
    found = audit(trace_of(tmp_path, *(step.replace("{0}", str(number)) for number in range(1, 7))))
    assert "Copies cost less than 1 %." not in found.headline
    assert "blocked the host for 53.9 ms" in found.verdict


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
    assert found.headline.startswith("GPU 0 (the worst of 2; median 66 %) was idle for 77 % of 440 us")
    assert [device.time.total_ns for device in found.devices] == [440_000, 440_000]


def test_without_gpu_work_there_is_no_headline(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "thread 1: op aten::add 0-5")
    assert headline((), (), diagnose(trace), 0, 0.05) == ""


def test_a_fix_that_recovers_nothing_is_not_offered_and_says_what_the_gpu_would_wait_for() -> None:
    """600 small copies of pinned memory and no kernel: packing them costs the host what it saves."""
    found = planned(SAMPLES / "pinning_guide-tensordict-pinned-ahead.json.gz")
    (finding,) = [entry for entry in found.findings if entry.code == "OVL010"]
    assert not finding.offered
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


def test_the_screen_has_one_basis() -> None:
    """The headline, the bar and the plan begin with one time, without the profiler; the recorded one is named so."""
    path = SAMPLES / "dataloader_train-pageable-blocking.sqlite.gz"
    found = audit(trace_at(path))
    plan = found.conclusion.plan
    assert plan is not None
    stated = time(plan.baseline_ns)
    assert stated == time(found.conclusion.window.wall_ns) == time(found.stated[0].time.total_ns)
    assert stated != time(found.window.wall_ns)
    text = " ".join(CliRunner().invoke(app, ["audit", str(path)], env={"COLUMNS": "100"}).stdout.split())
    assert f"of {stated} without the profiler" in text
    assert f"GPU 0 time (ms), {stated} in all" in text
    assert f"plan from {stated}" in text
    assert f"{time(found.window.wall_ns)} as recorded" in text


@pytest.mark.parametrize("path", swept(EVERY))
def test_what_is_said_of_all_copies_is_the_sum_of_their_rows(path: Path) -> None:
    found = audit_of(path)
    groups = [group for device in found.stated for group in device.memory]
    kernels = sum(device.activity.kernels.total_ns for device in found.stated)
    total, hidden = (sum(getattr(group, name) for group in groups) for name in ("total_ns", "hidden_ns"))
    if groups and kernels:
        assert f"{share(hidden, total)} hidden under kernels, {time(total - hidden)} exposed" in found.verdict
        used = {device.key for device in found.conclusion.devices}
        if used == {device.key for device in found.devices}:
            assert (found.conclusion.hidden_ns, found.conclusion.copy_ns) == (hidden, total)
