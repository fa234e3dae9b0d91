"""Plans: what fixing the findings of a diagnosis is worth, by themselves and one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from overlapscope import Window, audit, compare, diagnose, open_trace, what_if
from overlapscope.diagnosis.config import DEFAULT
from overlapscope.diagnosis.places import same_places
from overlapscope.diagnosis.plan import planned_changes
from overlapscope.report.findings import findings, worth
from overlapscope.report.tables import plan_rows
from overlapscope.whatif.interval import Basis
from tests import kineto_maker as make
from tests.conftest import PAIRS, SAMPLES
from tests.notation import trace_of
from tests.opened import planned, trace_at


def test_a_fix_that_may_win_is_not_said_to_win_nothing() -> None:
    """Torch's profiler by itself does not know which kernel reads which copy."""
    found = diagnose(open_trace(PAIRS / "producer_thread-faulty-plain.json.gz"), "step")
    (finding,) = [each for each in found.findings if each.code == "OVL002"]
    assert finding.saving_ns is not None
    assert finding.saving_ns < 100_000
    assert finding.saving_high_ns is not None
    assert finding.saving_high_ns > 5_000_000
    assert finding.rank == 1


def test_a_diagnosis_plans_what_was_really_done() -> None:
    found = diagnose(open_trace(SAMPLES / "moe_prefetch-pageable.json.gz"), "moe_prefetch")
    assert found.plan is not None
    assert [step.changes for step in found.plan.steps[:2]] == [("pin",), ("pin", "non-blocking")]
    assert found.findings[0].saving_ns is not None
    assert found.findings[0].saving_ns > 0.5 * found.window.wall_ns
    times = [step.predicted_ns for step in found.plan.steps]
    assert times == sorted(times, reverse=True), "each step wins something"
    assert [step.fixes for step in found.plan.steps[:2]] == [("OVL001",), ()], "only then is blocking what costs"
    first = what_if(found.trace, ["pin"], "moe_prefetch")
    assert found.plan.steps[0].unprofiled_ns == first.unprofiled.predicted_ns < found.plan.steps[0].predicted_ns
    assert found.plan.unprofiled_ns == first.unprofiled.simulated_ns
    expected = found.findings[0].expected
    assert expected is not None
    assert (expected.predicted_low_ns, expected.unprofiled_high_ns) == (first.low_ns, first.unprofiled.high_ns)
    assert worth(found.findings[0], found.plan)[0].endswith(f"leaving {found.plan.steps[0].interval}")
    said = audit(found.trace, "moe_prefetch").to_dict()["simulation"]
    assert said == {
        "simulated_ns": found.plan.simulated_ns,
        "unprofiled_ns": first.unprofiled.simulated_ns,
        "baseline": "unprofiled",
        "baseline_ns": first.unprofiled.simulated_ns,
        "profiler_cost": "calibrated",
    }


def test_what_only_the_profiler_cost_is_no_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same fix of the same trace, in a simulation without the profiler in which it saves nothing."""
    trace = trace_at(PAIRS / "loss_each_batch-faulty-plain.json.gz")
    change = ("no-scalar-sync",)
    assert [finding.offered for finding in diagnose(trace).findings if finding.change in change] == [True]
    real = Basis.length_with
    monkeypatch.setattr(
        Basis,
        "length_with",
        lambda basis, changes: real(basis, changes) if basis.measured else basis.simulated_ns,
    )
    found = diagnose(trace)
    (finding,) = [each for each in found.findings if each.change in change]
    assert finding.saving_ns
    assert (finding.unprofiled_saving_ns, finding.offered) == (0, False)
    assert found.plan is not None
    assert "(nothing without the profiler, estimated), less than two runs" not in worth(finding, found.plan)[0]
    assert worth(finding, found.plan)[0].startswith("fix not offered: no-scalar-sync saves ")


def test_a_saving_with_the_profiler_is_said_beside_that_without_it() -> None:
    found = planned(SAMPLES / "moe_prefetch-pageable.json.gz", "moe_prefetch")
    assert found.plan is not None
    finding, plan = found.findings[0], replace(found.plan, profiler_cost="in part")
    assert "without the profiler" not in worth(finding, found.plan)[0]
    assert "without the profiler" not in worth(finding, plan)[0], "as much as with it"
    other = replace(finding, unprofiled_saving_ns=10_000_000)
    assert "(10 ms without the profiler, estimated)" in worth(other, plan)[0]
    assert [row["without the profiler (%)"] for row in plan_rows(plan)][:2] == ["0", "-69"]
    assert "without the profiler (%)" not in plan_rows(found.plan)[0]


@pytest.mark.parametrize("name", ["page_locking-each-step", "copy_order-weights-first"])
def test_the_changes_of_a_plan_are_about_the_calls_of_its_findings(name: str) -> None:
    """Not about all that they may change, so that others who simulate the plan say the same time."""
    found = planned(SAMPLES / f"{name}.json.gz")
    assert found.plan is not None
    (change,) = planned_changes(found)
    fixed = {call for finding in found.findings if finding.change == str(change) for call in finding.calls}
    assert change.calls is not None
    assert fixed <= set(change.calls)
    reached = compare(found.trace, found.trace, predicted="plan").reached
    assert reached is not None
    last = found.plan.steps[-1]
    assert (reached.low_ns, reached.predicted_ns, reached.high_ns) == (
        last.time_low_ns,
        last.time_ns,
        last.time_high_ns,
    )


@pytest.mark.parametrize("simulated", [False, True])
def test_a_plan_that_was_not_asked_for_is_pointed_to(simulated: bool, capsys: pytest.CaptureFixture[str]) -> None:
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-blocking-same.json.gz")
    found = diagnose(trace, config=replace(DEFAULT, simulate=simulated))
    assert (found.plan is None) != simulated
    assert (found.findings[0].saving_ns is None) != simulated
    Console().print(*findings(found, 100))
    said = capsys.readouterr().out
    assert ("what-if" in said) != simulated
    assert ("Fixes one after the other" in said) == simulated


@pytest.mark.parametrize("order", ["copy-first", "kernels-first"])
def test_a_plan_looks_two_changes_ahead(order: str) -> None:
    """Not to block wins nothing while copies stay on the kernels' stream; the fixed program takes 32.4 ms."""
    found = diagnose(open_trace(SAMPLES / f"gemm_copy-pinned-{order}-blocking-same.json.gz"))
    assert found.plan is not None
    (step,) = found.plan.steps
    assert step.changes == ("non-blocking", "side-stream")
    assert step.fixes == ("OVL004",)
    assert step.places
    assert "aten::copy_" in step.places[0]
    assert step.time_ns == pytest.approx(32_400_000, rel=0.05)
    assert found.findings[0].offered
    assert "with others" in worth(found.findings[0], found.plan)[0]


def test_a_plan_tries_what_another_finding_s_idle_time_hides() -> None:
    """Small copies win the idle time of pinning in the loop; 11.5 ms take 4.6 packed, and 4.2 pinned ahead."""
    found = diagnose(open_trace(SAMPLES / "pinning_guide-list-pin-then-to.json.gz"), "pinning_guide")
    assert found.plan is not None
    assert [finding.change for finding in found.findings] == ["batch-copies"]
    (step,) = found.plan.steps
    assert (step.changes, step.fixes) == (("pin-ahead",), ())
    assert "aten::_pin_memory" in step.places[0]
    assert step.time_ns == pytest.approx(4_180_000, rel=0.1)


@pytest.mark.parametrize(
    ("sample", "code", "words"),
    [
        ("zero_copy-mapped", "OVL021", "how long the kernels take"),
        ("pinning_guide-concurrent-busy-engine", "OVL007", "which copies could be issued earlier"),
        ("pinning_guide-read-early", "OVL103", "right values"),
    ],
)
def test_a_finding_whose_fix_is_not_simulated_says_why(sample: str, code: str, words: str) -> None:
    found = audit(open_trace(SAMPLES / f"{sample}.json.gz"))
    assert found.diagnosis.plan is None
    (finding,) = (each for each in found.diagnosis.findings if each.code == code)
    (line,) = worth(finding, None)
    assert words in line
    assert "No finding has a fix that is simulated." in found.headline


def test_a_plan_edits_every_call_of_a_place() -> None:
    """Page-locking delays the GPU in 8 of its 12 calls; the others are in the same two places."""
    trace = trace_at(SAMPLES / "page_locking-each-step.json.gz")
    found = planned(SAMPLES / "page_locking-each-step.json.gz")
    assert found.plan is not None
    known = what_if(trace, ["preallocate"]).unprofiled
    assert known is not None
    assert found.plan.steps[0].time_ns == known.predicted_ns
    assert len(found.findings[0].calls) == 8


def test_a_place_is_a_range_an_operator_and_a_function(tmp_path: Path) -> None:
    steps = " | ".join(
        f"range ProfilerStep#{n} {at}-{at + 90} | range fill {at + 5}-{at + 25} | cudaMalloc {at + 10}-{at + 20}"
        f" | range grow {at + 30}-{at + 60} | cudaMalloc {at + 35}-{at + 38} | cudaFree {at + 40}-{at + 42}"
        for n, at in enumerate((0, 100, 200))
    )
    trace = trace_of(tmp_path, f"thread 1: {steps}", **make.H200)
    assert same_places(trace, np.array([0])).tolist() == [0, 3, 6]
    assert same_places(trace, np.array([1, 2])).tolist() == [1, 2, 4, 5, 7, 8]


def test_a_time_interval_has_a_plan_too() -> None:
    trace = open_trace(SAMPLES / "prefetcher-blocking.json.gz")
    window = Window.between(trace.start_ns + 10_000_000, trace.start_ns + 60_000_000)
    found = diagnose(trace, window)
    assert found.plan is not None
    assert found.plan.steps[0].changes == ("pin",)
    assert found.plan.steps[0].time_ns < 0.6 * found.plan.baseline_ns


def test_an_interval_of_a_trace_without_calls_has_no_plan(tmp_path: Path) -> None:
    events = [make.kernel(1000 * number, 300, stream=7) for number in range(8)]
    events += [make.copy(1000 * number + 300, 600, stream=7) for number in range(8)]
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    found = diagnose(trace, Window.between(trace.start_ns + 1_000_000, trace.start_ns + 5_000_000))
    assert found.plan is None


@pytest.mark.parametrize(("packing_ns", "steps"), [(1_000, [("batch-copies",)]), (8_000, [])], ids=["pays", "does not"])
def test_what_only_saves_the_profilers_own_cost_is_not_offered(
    packing_ns: int, steps: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """Forty copies that take 24 us each, of which the profiler takes most: packing a piece may take longer than one."""
    copies = "\n".join(
        f"thread 1: op aten::to {at}-{at + 22} | op aten::_to_copy {at + 4}-{at + 18}"
        f"| op aten::copy_ {at + 8}-{at + 14}"
        f"| copy 64KiB pinned HtoD {at + 10}-{at + 12} -> stream 7: {at + 13}-{at + 17}"
        for at in range(100, 1060, 24)
    )
    about = make.calibrated(packing={"pieces": [{"size_bytes": 65536, "pack_ns": packing_ns}]})
    text = f"thread 1: launch 90-95 -> stream 7: 96-100\n{copies}\nthread 1: launch 1062-1066 -> stream 7: 1070-1170"
    plan = diagnose(trace_of(tmp_path, text, **about)).plan
    assert plan is not None
    assert [step.changes for step in plan.steps] == steps


@pytest.mark.parametrize(
    ("sample", "within", "words"),
    [
        (
            "moe_prefetch-pageable",
            "moe_prefetch",
            {
                "non-blocking": "prefetch, aten::copy_, cudaStreamSynchronize",
                "no-scalar-sync": "compute, aten::nonzero, cudaStreamSynchronize",
            },
        ),
        ("prefetcher-blocking", None, {"side-stream": "copy batch, aten::copy_, cudaMemcpyAsync, stream 7"}),
        (
            "gemm_copy-pageable-copy-first-blocking-same",
            None,
            {
                "side-stream": "round / copy, aten::copy_, cudaMemcpyAsync, stream 7",
                "non-blocking": "round / copy, aten::copy_, cudaStreamSynchronize",
            },
        ),
    ],
)
def test_each_step_says_where_it_is_made_also_without_a_finding(
    sample: str, within: str | None, words: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = diagnose(open_trace(SAMPLES / f"{sample}.json.gz"), within)
    assert found.plan is not None
    places = {step.changes[-1]: step.places[0] for step in found.plan.steps if not step.fixes}
    assert {name: places[name].endswith(words[name]) for name in words} == dict.fromkeys(words, True), places
    Console(width=300).print(*findings(found, 100))
    said = capsys.readouterr().out
    for name in words:
        assert f"{name} at {places[name]}: overlapscope explain {name}" in said
