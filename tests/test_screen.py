"""The first screen of an audit: short on every trace, on one basis, and without a time below what the GPU works."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from overlapscope.document.text import plain_text
from overlapscope.formatting import time
from overlapscope.report.content import audit
from overlapscope.report.data import Audit
from overlapscope.report.headline import MOST_WORDS
from overlapscope.report.screen import LINES, first_screen
from tests.conftest import SAMPLES, audited
from tests.notation import trace_of
from tests.opened import swept, trace_at

EVERY = sorted([*SAMPLES.glob("*.json.gz"), *SAMPLES.glob("*.sqlite.gz"), *SAMPLES.glob("ddp_pageable/*.json.gz")])


def assert_short(found: Audit) -> None:
    for width, most in LINES:
        shown = plain_text(first_screen(found, width).parts, width)
        assert shown.count("\n") <= most, shown
        text, command, more = shown.partition("\noverlapscope what-if")
        assert not command or "\nMore:" in more
        assert max(map(len, text.splitlines())) <= width
        for line in more.splitlines():  # a command is to be pasted: a path that is longer than a line stays whole
            assert len(line) <= width or len(line.split()) <= 2
    assert len(found.headline.split()) <= MOST_WORDS


@pytest.mark.parametrize("path", swept(EVERY))
def test_a_screen_of_a_sample_is_short(path: Path) -> None:
    assert_short(audit(trace_at(path)))


def test_a_screen_of_a_public_trace_is_short(corpus_trace: Path) -> None:
    assert_short(audited(corpus_trace))


@pytest.mark.parametrize("path", swept(EVERY))
def test_no_stated_time_is_below_the_work_of_the_gpu(path: Path) -> None:
    found = audit(trace_at(path))
    plan = found.conclusion.plan
    busy_ns = max(device.activity.busy.total_ns for device in found.stated)
    assert found.conclusion.window.wall_ns >= busy_ns
    if plan is not None:
        assert plan.baseline_ns == found.conclusion.window.wall_ns
        assert plan.limit is None or plan.steps[-1].time_ns >= plan.limit.kernels_ns
    for finding in found.conclusion.findings:
        device = found.conclusion.device_of(finding)
        assert device is None or finding.copying_ns <= finding.idle_ns <= device.span_ns


def test_a_trace_without_a_calibration_states_no_time_without_the_profiler() -> None:
    found = audit(trace_at(SAMPLES / "gemm_copy-pageable-kernels-first-non-blocking-side.json.gz"))
    trace = found.analysis.trace
    assert found.analysis.stated is not found.analysis
    assert "without the profiler" in found.headline
    plain = audit(replace(trace, metadata=replace(trace.metadata, recording=None)))
    assert plain.analysis.stated is plain.analysis
    text = plain_text(first_screen(plain, 100).parts, 100)
    assert "without the profiler" not in text
    assert time(plain.window.wall_ns) in plain.headline


def test_a_long_plan_ends_with_its_last_step_and_a_command_for_a_shell() -> None:
    found = audit(trace_at(SAMPLES / "moe_prefetch-pageable.json.gz"))
    plan = found.conclusion.plan
    assert plan is not None
    last = plan.steps[-1]
    more = replace(last, changes=(*last.changes, "side-stream", "cuda-graph"), time_ns=12_340_000)
    long = replace(found.conclusion, plan=replace(plan, steps=(*plan.steps, last, more)))
    trace = replace(found.trace, metadata=replace(found.trace.metadata, path="my traces/it's.json"))
    shown = replace(found, conclusion=long, analysis=replace(found.analysis, trace=trace))
    text = plain_text(first_screen(shown, 200, " --step 1").parts, 200)
    assert "12.3 ms" in text
    command = next(line for line in text.splitlines() if line.startswith("overlapscope what-if"))
    assert shlex.split(command)[2:] == ["my traces/it's.json", "--step", "1", "--change", ",".join(more.changes)]


def test_a_recording_without_a_gpu_says_what_the_loader_cost(tmp_path: Path) -> None:
    loader = "range enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ {}-{}"
    text = " | ".join(f"{loader.format(at, at + 900)} | op aten::mm {at + 900}-{at + 1000}" for at in (0, 1000, 2000))
    shown = plain_text(first_screen(audit(trace_of(tmp_path, f"thread 1: {text}")), 100).parts, 100)
    assert "The loop waited for batches of its DataLoader for 2.7 ms of 3 ms." in shown
    assert "first to last GPU work" not in shown


def test_the_command_of_the_plan_can_be_pasted_whatever_the_width() -> None:
    found = audit(trace_at(SAMPLES / "moe_prefetch-pageable.json.gz"))
    path = "/a/" + "long" * 40 + "/trace.json"
    trace = replace(found.trace, metadata=replace(found.trace.metadata, path=path))
    text = plain_text(first_screen(replace(found, analysis=replace(found.analysis, trace=trace)), 80).parts, 80)
    command = text[text.index("overlapscope what-if") :].partition("\nMore")[0]
    assert shlex.split(command.replace("\\\n", ""))[2] == path


def test_collectives_are_no_cause_of_idle_time(tmp_path: Path) -> None:
    text = """
        thread 1: launch gemm 0-5 -> stream 7: 10-110 | launch ncclDevKernel_AllReduce 6-9 -> stream 20: 60-610
                  launch gemm 900-905 -> stream 7: 910-1010
    """
    headline = audit(trace_of(tmp_path, text)).headline
    assert "It ran nothing but collectives for 50 %." in headline
    assert "exposed collectives (" not in headline
