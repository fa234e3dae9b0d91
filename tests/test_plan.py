"""Plans: what fixing the findings of a diagnosis is worth, by themselves and one after the other."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from overlapscope import Window, analyse, audit, open_trace, what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.capture import Capture
from overlapscope.diagnosis.finding import Expected
from overlapscope.diagnosis.plan import planned_changes, step_changes
from overlapscope.document.text import plain_text
from overlapscope.formatting import time
from overlapscope.report.findings import plan_section, worth
from overlapscope.report.tables import plan_table
from overlapscope.whatif.catalogue import CHANGES, parse
from overlapscope.whatif.interval import Basis
from overlapscope.whatif.retimed import window_after
from tests import kineto_maker as make
from tests.conftest import PAIRS, SAMPLES
from tests.notation import trace_of
from tests.opened import analysis_of, planned, swept, trace_at


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
    times = {name: said[name] for name in said if name not in ("step_changes", "limit", "spread", "unsteady")}
    assert times == {
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


def test_without_a_calibration_no_saving_without_the_profiler_is_said() -> None:
    found = planned(SAMPLES / "moe_prefetch-pageable.json.gz", "moe_prefetch")
    assert found.plan is not None
    plan = replace(found.plan, profiler_cost="in part", baseline="recorded")
    other = replace(found.findings[0], unprofiled_saving_ns=10_000_000)
    assert "without the profiler" not in worth(other, plan)[0]
    assert not any("profiler" in column.heading for column in plan_table(plan).columns)


@pytest.mark.parametrize("simulated", [False, True])
def test_a_plan_that_was_not_asked_for_is_pointed_to(simulated: bool) -> None:
    trace = open_trace(SAMPLES / "gemm_copy-pageable-copy-first-blocking-same.json.gz")
    found = diagnose(trace, plan=simulated)
    assert (found.plan is None) != simulated
    assert (found.findings[0].saving_ns is None) != simulated
    said = plain_text([plan_section(found)], 100)
    assert ("what-if" in said) != simulated
    assert ("Fixes one after the other" in said) == simulated


@pytest.mark.parametrize("order", ["copy-first", "kernels-first"])
def test_a_plan_looks_two_changes_ahead(order: str) -> None:
    """Not to block wins nothing while copies stay on the kernels' stream; the fixed program takes 32.4 ms."""
    found = diagnose(open_trace(SAMPLES / f"gemm_copy-pinned-{order}-blocking-same.json.gz"))
    assert found.plan is not None
    (step,) = found.plan.steps
    assert "side-stream" in step.changes
    assert ("OVL004" in step.fixes) == ("non-blocking" in step.changes) == found.findings[0].offered
    assert step.places
    assert "aten::copy_" in step.places[0]
    assert step.time_ns == pytest.approx(32_400_000, rel=0.05)


def test_a_plan_has_a_change_that_another_one_would_undo(tmp_path: Path) -> None:
    """With every change at once, copy-first finds its copies on streams on which they cannot pass the long ones."""
    text = """
    thread 1: launch 0-5 -> stream 7: 10-100 | record A 6-7 -> stream 7 | wait A 8-9 -> stream 20
              copy 64MB pinned HtoD 20-25 -> stream 20: 101-1301 | copy 64MB pinned HtoD 26-30 -> stream 20: 1301-2501
              launch 31-35 -> stream 7: 101-1000 | copy 64KB pinned DtoH 36-40 -> stream 7: 1001-1005
              copy 64KB pinned HtoD 41-45 -> stream 7: 2502-2506 | launch 46-50 -> stream 7: 2507-6000
              record B 51-52 -> stream 20 | wait B 53-54 -> stream 7 | launch 55-60 -> stream 7: 6001-6101
              sync 61-6102
    """
    plan = diagnose(trace_of(tmp_path, text)).plan
    assert plan is not None
    assert plan.steps[-1].changes == ("copy-first",)


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
    (finding,) = (each for each in found.diagnosis.findings if each.code == code)
    (line,) = worth(finding, None)
    assert words in line
    waits = found.stated[0].time
    if waits.waiting_ns >= 0.05 * waits.total_ns:
        assert (found.diagnosis.plan is None) == ("No finding has a fix that is simulated." in found.headline)


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
    sample: str, within: str | None, words: dict[str, str]
) -> None:
    found = diagnose(open_trace(SAMPLES / f"{sample}.json.gz"), within)
    assert found.plan is not None
    places = {step.changes[-1]: step.places[0] for step in found.plan.steps if not step.fixes}
    assert {name: places[name].endswith(words[name]) for name in words} == dict.fromkeys(words, True), places
    said = plain_text([plan_section(found)])
    for name in words:
        assert f"{name} at {places[name]}: overlapscope explain {name}" in said


@pytest.mark.parametrize("path", swept(SAMPLES.glob("*.*.gz")))
def test_each_step_has_the_times_of_what_if_with_its_command(path: Path) -> None:
    found = planned(path)
    for step in found.plan.steps if found.plan is not None else ():
        known = Expected.of(what_if(analysis_of(path), step.command.split(",")))
        assert known == Expected(**{entry.name: getattr(step, entry.name) for entry in fields(Expected)})


@pytest.mark.parametrize("path", swept(SAMPLES.glob("*.*.gz")))
def test_no_step_and_no_offered_fix_may_cost_time(path: Path) -> None:
    found = planned(path)
    if found.plan is None:
        return
    assert all(step.time_high_ns < found.plan.baseline_ns for step in found.plan.steps)
    for finding in found.findings:
        in_plan = any(finding.change in step.changes for step in found.plan.steps)
        if finding.offered and finding.expected is not None and not in_plan:
            assert finding.expected.time_high_ns < found.plan.baseline_ns
        assert finding.offered == (finding.not_offered is None)


@pytest.mark.parametrize(
    "sample",
    [
        "moe_prefetch-pageable",
        "prefetcher-blocking",
        "pinning_guide-list-pin-then-to",
        "gemm_copy-pinned-copy-first-blocking-same",
    ],
)
def test_no_two_changes_do_better_than_the_plan(sample: str) -> None:
    """All pairs that a plan may have; a step saves at least a twentieth, so a plan may be as much longer."""
    analysis = analysis_of(SAMPLES / f"{sample}.json.gz")
    plan, stated = analysis.diagnosis.plan, analysis.baseline.stated
    assert plan is not None
    kinds = [kind() for kind in CHANGES if not kind.of_findings_only and kind.name != "cuda-graph"]
    pairs = [each for each in combinations(kinds, 2) if len({change.form_of or change.name for change in each}) == 2]
    sure = [each for each in pairs if analysis.baseline.predict(each).stated.high_ns < plan.baseline_ns]
    assert sure
    assert 0.95 * plan.steps[-1].time_ns <= min(stated.length_with(each) for each in sure)


def _loop(steps: int, step: str) -> str:
    """Steps of torch's profiler, 1000 us each: ``step`` has the times in them, as fields."""
    lines = []
    for number in range(steps):
        at = [1000 * number + 10 * place for place in range(100)]
        lines.append(f"range ProfilerStep#{number} {at[0]}-{at[99]} | " + step.format(*at))
    return "thread 1: " + " | ".join(lines)


_LAUNCHES = " | ".join(
    f"launch {{{place}}}-{{{place + 1}}} -> stream 7: {{{place + 1}}}-{{{place + 2}}}" for place in (2, 6, 10, 14)
)
_LATER = " | ".join(
    f"launch {{{place}}}-{{{place + 1}}} -> stream 7: {{{place + 1}}}-{{{place + 2}}}" for place in (60, 64, 68, 72)
)
_READ = "copy 4B pageable DtoH {30}-{50} -> stream 7: {48}-{49}"


@pytest.mark.parametrize(
    ("between", "refused", "needs"),
    [
        ("", None, []),
        (_READ, None, ["no-scalar-sync"]),
        (f"op aten::nonzero {{29}}-{{51}} | {_READ}", "sizes of their results", []),
        (f"op aten::is_nonzero {{28}}-{{52}} | op aten::item {{29}}-{{51}} | {_READ}", "what to do next", []),
        (f"op aten::any {{26}}-{{27}} | op aten::item {{29}}-{{51}} | {_READ}", "what to do next", []),
        (_READ.replace("4B", "1B"), "what to do next", []),
        (f"op aten::mean {{26}}-{{27}} | op aten::item {{29}}-{{51}} | {_READ}", None, ["no-scalar-sync"]),
        ("copy 64KiB pageable HtoD {30}-{50} -> stream 7: {48}-{49}", None, ["pin"]),
    ],
)
def test_what_lies_between_launches_may_refute_a_capture(
    between: str, refused: str | None, needs: list[str], tmp_path: Path
) -> None:
    step = " | ".join(filter(None, (_LAUNCHES, between, _LATER)))
    analysis = analyse(trace_of(tmp_path, _loop(4, step), **make.H200))
    capture = Capture.of(analysis.graph, analysis.window)
    assert (refused is None and capture.refused is None) or str(refused) in str(capture.refused)
    assert [name for name, _ in capture.needs] == needs
    assert capture.allows(frozenset(["cuda-graph", *needs])) == (refused is None)
    assert capture.allows(frozenset(["cuda-graph"])) == (refused is None and not needs)


def test_a_read_after_the_launches_of_a_step_does_not_refute_its_capture(tmp_path: Path) -> None:
    analysis = analyse(trace_of(tmp_path, _loop(4, f"{_LAUNCHES} | {_READ}"), **make.H200))
    assert Capture.of(analysis.graph, analysis.window) == Capture()


def test_a_plan_says_how_its_gain_differs_between_steps() -> None:
    found = planned(SAMPLES / "dataloader_train-pageable-blocking.json.gz", "step")
    plan = found.plan
    assert plan is not None
    assert len(plan.step_changes) == len(found.window.start_ns)
    steady = replace(plan, step_changes=(-0.3, -0.31, -0.29))
    assert (steady.unsteady, steady.spread) == (False, "-31 to -29 % a step, -30 at the median, in 3 of 3 steps")
    flips = replace(plan, step_changes=(-0.31, -0.34, -0.17, 0.0, 0.0))
    assert (flips.unsteady, flips.spread) == (True, "-34 to 0 % a step, -17 at the median, in 3 of 5 steps")
    assert (replace(plan, step_changes=()).unsteady, replace(plan, step_changes=()).spread) == (False, "")


def test_the_changes_of_steps_add_up_to_that_of_the_window() -> None:
    analysis = analysis_of(SAMPLES / "dataloader_train-pageable-blocking.json.gz", "step")
    stated, pin = analysis.baseline.stated, (parse("pin"),)
    changes = np.array(step_changes(stated, stated.run_with(pin)))
    window = window_after(stated.simulated, analysis.window)
    begins = np.maximum(window.start_ns, np.append(0, np.maximum.accumulate(window.end_ns)[:-1]))
    lengths = window.end_ns - begins
    assert lengths.sum() == window.wall_ns
    assert lengths @ (1 + changes) == pytest.approx(stated.length_with(pin), rel=0.001)


def test_a_plan_says_what_limits_the_program_then() -> None:
    analysis = analysis_of(SAMPLES / "prefetcher-blocking.json.gz")
    plan = analysis.diagnosis.plan
    assert plan is not None
    assert plan.limit is not None
    after = analysis.after(planned_changes(analysis.diagnosis))
    (active,) = after.activities
    assert (plan.limit.kernels_ns, plan.limit.copies_ns) == (active.kernels.total_ns, active.copies.total_ns)
    assert plan.limit.time_ns == plan.steps[-1].predicted_ns
    assert plan.limit.words.startswith(
        f"then limited by {plan.limit.limited_by}: {time(plan.limit.kernels_ns)} of kernels"
    )


def test_what_a_data_loader_costs_at_most_is_said(tmp_path: Path) -> None:
    batch = "range enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ {0}-{40}"
    work = "launch {41}-{42} -> stream 7: {42}-{80} | sync {43}-{80}"
    step = f"{batch} | {work}"
    found = diagnose(trace_of(tmp_path, _loop(6, step), **make.H200))
    assert any(finding.kind == "data-loading" for finding in found.findings)
    (bound,) = (finding.bound for finding in found.findings if finding.kind == "data-loading")
    assert bound is not None
    assert bound.change == "no-host-work:kind=loading"
    assert (bound.without_ns or 0) <= (bound.baseline_ns or 0) - 5 * 390_000
    assert bound.words.endswith("% without it")


@pytest.mark.parametrize(
    ("around", "fix"), [("nonzero", "fixed size"), ("is_nonzero", "a step later"), ("mean", "total +=")]
)
def test_the_fix_of_a_read_fits_what_it_is_for(around: str, fix: str, tmp_path: Path) -> None:
    read = f"op aten::{around} {{3}}-{{91}} | op aten::_local_scalar_dense {{4}}-{{90}}"
    read += " | copy 4B pageable DtoH {5}-{88} -> stream 7: {86}-{87}"
    found = diagnose(
        trace_of(tmp_path, _loop(6, f"launch {{1}}-{{2}} -> stream 7: {{3}}-{{80}} | {read}"), **make.H200), plan=False
    )
    (finding,) = (each for each in found.findings if each.code == "OVL005")
    assert fix in finding.fix
