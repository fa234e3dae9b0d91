"""`Analysis`: every door states one window and one baseline."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import overlapscope
from overlapscope import (
    Analysis,
    Audit,
    Budget,
    Comparison,
    RangeNotFound,
    Window,
    WindowEmpty,
    analyse,
    audit,
    caption,
    compare,
    doctor,
    what_if,
)
from overlapscope.analysis.window import between_ms, window_of
from overlapscope.budget.limits import Limits
from overlapscope.budget.outputs import markdown_of
from overlapscope.comparison.figures import Spread, by_key
from overlapscope.document.text import plain_text
from overlapscope.formatting import time
from overlapscope.html.page import report_html
from overlapscope.measure.devices import device_keys
from overlapscope.measure.windows import whole, window_title
from overlapscope.model.trace import Trace
from overlapscope.report.document import audit_document
from tests.conftest import SAMPLES
from tests.notation import trace_of
from tests.opened import swept, trace_at

SAMPLE = SAMPLES / "dataloader_train-pageable-blocking.json.gz"
FIXED = SAMPLES / "dataloader_train-pinned-non-blocking.json.gz"
EVERY = sorted([*SAMPLES.glob("*.json.gz"), *SAMPLES.glob("*.sqlite.gz"), *SAMPLES.glob("ddp_pageable/*.json.gz")])


def windows_of(trace: Trace) -> Iterator[tuple[str, Window]]:
    """The whole trace, a range, a step and an interval."""
    yield "whole", whole(trace)
    yield "interval", Window.between(trace.start_ns + 1, (trace.start_ns + trace.end_ns) // 2)
    names = {trace.names[number] for number in trace.ranges.name_id.tolist()}
    steps = sorted(name for name in names if name.startswith("ProfilerStep#"))
    if steps:
        yield "step", window_of(trace, step=int(steps[-1].partition("#")[2]))
    if others := sorted(names - set(steps)):
        yield "range", window_of(trace, others[0])


@pytest.mark.parametrize("path", swept(EVERY))
def test_with_no_change_the_simulated_time_is_the_measured_one(path: Path) -> None:
    trace = trace_at(path)
    for kind, window in windows_of(trace):
        prediction = what_if(trace, (), window)
        assert prediction.simulated_ns == prediction.predicted_ns == prediction.measured_ns == window.wall_ns, kind


@pytest.mark.parametrize("path", swept(EVERY))
def test_every_door_states_the_window_and_the_baseline_of_the_analysis(path: Path) -> None:
    trace = trace_at(path)
    for kind, window in windows_of(trace):
        analysis = analyse(trace, window=window)
        audited, compared = assert_states_window(analysis)
        assert_states_baseline(analysis, compared)
        if kind == "interval":
            assert f", {time(window.wall_ns)}" in report_html(audited)


@pytest.mark.parametrize("path", swept(EVERY))
def test_every_door_keeps_the_gpu_of_the_analysis(path: Path) -> None:
    trace = trace_at(path)
    key = device_keys(trace)[-1]
    for _, window in windows_of(trace):
        analysis = analyse(trace, window=window, device=key.device)
        audited, _ = assert_states_window(analysis)
        assert {device.key.device for device in audited.devices} <= {key.device}
        assert f", device {key.device}, " in header(audited)
        assert analysis.within("*").window.device == analysis.after(()).window.device == key.device


def header(audited: Audit) -> str:
    """The lines of an audit on a terminal in front of its findings."""
    return plain_text(audit_document(audited).having(("about",)).parts)


def assert_states_window(analysis: Analysis) -> tuple[Audit, Comparison]:
    """Assert that an audit, a caption, a prediction, a comparison and a check are about the window of an analysis."""
    window = analysis.window
    title, shown = window_title(window), time(window.wall_ns)
    audited, prediction = analysis.audit(plan=False), analysis.what_if("pin")
    edges = {"start_ns": window.first_ns, "end_ns": window.last_ns}
    assert audited.to_dict()["window"].items() >= {**edges, "wall_ns": window.wall_ns, "device": window.device}.items()
    assert f"{title}, {shown}" in header(audited)
    assert f" Shown: {shown}, " in f" {caption(analysis)}"
    predicted = prediction.to_dict()
    assert predicted["window"].items() >= {**edges, "range": window.name, "occurrences": len(window.start_ns)}.items()
    assert predicted["measured_ns"] == predicted["simulated_ns"] == window.wall_ns
    assert f"{shown} -> " in prediction.sentence
    compared = compare(analysis, analysis)
    for run in (compared.before.typical, compared.after.typical):
        assert run.analysis is analysis
    assert by_key(compared.figures)["recorded_ns"].before == Spread(*3 * (window.wall_ns,))
    checked = analysis.check(Budget(limits=Limits(saving_share=1.0, idle_share={"all": 1.0})))
    assert checked.analysis is analysis
    assert f"| {title} |" in markdown_of(checked).replace("\\", "")
    return audited, compared


def assert_states_baseline(analysis: Analysis, compared: Comparison) -> None:
    """Assert that plan, prediction, comparison and check start from the baseline of an analysis."""
    base, prediction = analysis.baseline, analysis.what_if("pin")
    assert prediction.simulated_ns == base.simulated_ns
    assert prediction.to_dict()["unprofiled"]["simulated_ns"] == base.own_ns
    side = compared.to_dict()["before"]
    if len(analysis.graph.work):
        assert side["baseline"] == base.baseline
        assert side["figures"]["wall_ns"] == base.stated_ns
        assert time(base.stated_ns) in compared.sentence
    plan = analysis.diagnosis.plan
    if plan is not None:
        assert (plan.simulated_ns, plan.unprofiled_ns, plan.baseline_ns) == (
            base.simulated_ns,
            base.own_ns,
            base.stated_ns,
        )
        (saving,) = analysis.check(Budget(limits=Limits(saving_share=1.0))).outcomes
        last = plan.steps[-1].time_ns if plan.steps else base.stated_ns
        assert saving.value == pytest.approx(max(base.stated_ns - last, 0) / base.stated_ns)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1), st.floats(0, 1))
def test_intervals_are_as_long_in_the_simulation_as_in_the_trace(one: float, other: float) -> None:
    trace = trace_at(SAMPLE)
    first, last = sorted(trace.start_ns + round(share * (trace.end_ns - trace.start_ns)) for share in (one, other))
    window = Window.between(first, last)
    assert what_if(trace, (), window).simulated_ns == window.wall_ns == last - first


def test_a_what_if_of_an_interval_is_about_that_interval() -> None:
    trace = trace_at(SAMPLE)
    window = Window.between(trace.start_ns, trace.start_ns + 60_000_000)
    prediction, plan = what_if(trace, "pin", window), audit(trace, window).diagnosis.plan
    assert plan is not None
    assert prediction.measured_ns == 60_000_000
    assert plan.steps[0].changes == ("pin",)
    assert plan.baseline_ns == prediction.unprofiled.simulated_ns < 60_000_000
    assert plan.steps[0].time_ns == prediction.unprofiled.predicted_ns < 50_000_000


def test_one_occurrence_of_a_range_is_simulated_as_one() -> None:
    trace = trace_at(SAMPLE)
    every = window_of(trace, "step")
    one = Window("step", every.start_ns[1:2], every.end_ns[1:2], every.process[1:2])
    found = what_if(trace, (), one)
    assert found.simulated_ns == found.measured_ns == one.wall_ns < every.wall_ns


@pytest.mark.parametrize("changes", [(), "pin", ("pin", "non-blocking")])
def test_a_window_of_another_name_is_simulated_by_its_intervals(changes: Any) -> None:
    trace = trace_at(SAMPLE)
    interval = between_ms(trace, 5, 40)
    for name in ("warm-up", "step"):
        named = what_if(trace, changes, replace(interval, name=name))
        assert named.window.name == name
        plain = what_if(trace, changes, interval)
        assert (named.simulated_ns, named.predicted_ns) == (plain.simulated_ns, plain.predicted_ns)
        assert named.measured_ns == plain.measured_ns == 35_000_000


def test_several_intervals_are_simulated_as_several() -> None:
    trace = trace_at(SAMPLE)
    one, other = between_ms(trace, 5, 40), between_ms(trace, 50, 60)
    for name in (None, "both"):
        both = replace(Window.concat(one, other), name=name)
        assert what_if(trace, (), both).simulated_ns == both.wall_ns == 45_000_000
        saved = [what_if(trace, "pin", window).saving_ns for window in (one, other, both)]
        assert saved[2] == saved[0] + saved[1] > 0
        assert analyse(trace, window=both).audit().window.wall_ns == 45_000_000


def test_a_named_window_is_audited_and_simulated_for_its_process() -> None:
    trace = trace_at(SAMPLE)
    interval = between_ms(trace, 5, 40)
    process = np.unique(trace.api_calls.process[trace.kernels.call])
    for owner, has_work in ((process, True), (process + 1, False)):
        analysis = analyse(trace, window=replace(interval, name="part", process=owner))
        assert bool(sum(device.activity.busy.total_ns for device in analysis.audit().devices)) == has_work
        assert analysis.what_if(()).simulated_ns == 35_000_000


def test_an_analysis_gives_another_window_of_its_trace() -> None:
    analysis = analyse(SAMPLE)
    part = analysis.within("step")
    assert part.graph is analysis.graph
    assert part.window.name == "step"
    assert analyse(part) is part
    assert analyse(part, "dataloader_train").graph is analysis.graph
    assert "step" in repr(part)
    with pytest.raises(RangeNotFound):
        analysis.within("nowhere")
    with pytest.raises(WindowEmpty, match="no work of a GPU 7"):
        analyse(SAMPLE, device=7)
    with pytest.raises(ValueError, match="on_phase"):
        analyse(analysis, on_phase=print)
    with pytest.raises(ValueError, match="not by both"):
        analysis.within("step", step=1)
    interval = between_ms(analysis.trace, 0, 10)
    assert analyse(analysis, window=interval).window.wall_ns == 10_000_000


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function of the package outside of analysis/, with its place."""
    package = Path(overlapscope.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.parent.name != "analysis":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield f"{path.relative_to(package)}:{node.lineno}", node


def test_outside_of_analysis_no_function_takes_a_trace_and_a_configuration() -> None:
    both = []
    for place, node in functions():
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        hints = [hint for each in arguments if each.annotation for hint in ast.walk(each.annotation)]
        kinds = {hint.id for hint in hints if isinstance(hint, ast.Name)}
        if kinds & {"Trace", "Source", "Analysis"} and any(kind.endswith("Config") for kind in kinds):
            both.append(place)
    assert both == []


def test_a_step_is_what_the_doctor_counts(tmp_path: Path) -> None:
    """Of a trace without numbered steps, an occurrence of the range that repeats."""
    step = "thread 1: range step {0}00-{0}90 | launch {0}05-{0}09 -> stream 7: {0}10-{0}95"
    trace = trace_of(tmp_path, *(step.format(number) for number in range(1, 7)))
    (said,) = (each.answer.evidence for each in doctor(trace) if each.check.key == "steps")
    assert "repeats 6 times" in said
    window = analyse(trace, step=2).window
    assert (window.first_ns - trace.start_ns, window.last_ns - trace.start_ns) == (100_000, 195_000)
    with pytest.raises(RangeNotFound, match="occurs 6 times: there is no occurrence 7"):
        analyse(trace, step=7)
