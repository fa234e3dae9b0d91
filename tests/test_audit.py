"""``overlapscope audit`` as a user runs it: text, JSON, ranges, figures, exit status, and hostile traces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import overlapscope
from overlapscope.cli.main import app
from overlapscope.diagnosis.causes import Cause
from overlapscope.formatting import time
from overlapscope.report.content import audit
from overlapscope.report.findings import same_change, to_confirm
from tests import kineto_maker as make
from tests.conftest import SAMPLES

PAGEABLE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
PINNED = SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz"


def run(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["audit", *map(str, arguments)])


def as_json(*arguments: str | Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run(*arguments, "--format", "json").stdout)
    return result


def test_the_trap_is_named_and_its_cure_is_clean() -> None:
    """Partly hidden, and a third of the run lost or more; pinned, the kernels wait for nothing."""
    bad, good = (audit(overlapscope.open_trace(path), "gemm_copy") for path in (PAGEABLE, PINNED))
    assert "delayed kernel launches" in bad.verdict
    assert "blocked the host" not in good.verdict
    (stated,), (device,) = bad.stated, bad.devices
    lost = device.kernel_gaps.sum_ns(Cause.COPY_CALL)
    assert f"{time(stated.kernel_gaps.sum_ns(Cause.COPY_CALL))} without a kernel" in bad.verdict
    assert device.activity.overlap.total_ns > 0.3 * device.activity.copies.total_ns
    assert bad.window.wall_ns - good.window.wall_ns == pytest.approx(lost, rel=0.1)


def test_json_has_the_schema() -> None:
    result = as_json(PAGEABLE, "--range", "gemm_copy")
    assert result["schema"] == "overlapscope.audit/3"
    (trace,) = result["traces"]
    assert set(trace) >= {"source", "health", "window", "devices", "host_blocking", "counts", "verdict"}
    assert set(trace["source"]) >= {"format", "path", "tool", "gpus"}
    assert trace["source"]["gpus"] == ["NVIDIA H200"]
    assert set(trace["window"]) >= {"name", "start_ns", "end_ns", "wall_ns", "occurrences"}
    assert len(trace["window"]["occurrences"]) == 1
    (device,) = trace["devices"]
    assert set(device) >= {
        "process", "device", "kernel_busy_ns", "copy_busy_ns", "overlap_ns", "idle_ns", "span_ns", "hidden_fraction",
        "compute_busy_ns", "collective_busy_ns", "exposed_collective_ns", "exposed_copy_ns", "directions", "streams",
    }  # fmt: skip
    direction = device["directions"]["HtoD"]
    assert set(direction) >= {"memory", "count", "size_bytes", "total_ns", "hidden_ns", "exposed_ns"}
    assert direction["memory"]["pageable"]["size_bytes"] == direction["size_bytes"] == 6 * 64 * 2**20
    assert {row["stream"]: (row["kernels"], row["copies"]) for row in device["streams"]} == {7: (12, 0), 13: (0, 6)}
    (computing, copying) = device["streams"]
    assert (computing["kernel_busy_ns"], computing["copy_total_ns"]) == (device["kernel_busy_ns"], 0)
    assert copying["hidden_ns"] + copying["exposed_ns"] == copying["copy_total_ns"] == direction["total_ns"]
    assert set(trace["host_blocking"][0]) >= {"process", "thread", "api", "calls", "total_ns", "blocked_ns"}
    assert set(trace["counts"]) >= {
        "kernels", "copies", "memsets", "api_calls", "syncs", "ranges", "device_work_without_call",
    }  # fmt: skip
    assert trace["verdict"] == audit(overlapscope.open_trace(PAGEABLE), "gemm_copy").verdict


def test_every_occurrence_of_a_range_is_listed(tmp_path: Path) -> None:
    path = make.write(
        tmp_path / "t.json",
        make.annotation("step", 0, 100),
        make.annotation("step", 200, 100),
        make.call(10, 1, correlation=1),
        make.call(210, 1, correlation=2),
        make.kernel(20, 50, correlation=1),
        make.kernel(220, 30, correlation=2),
        make.copy(60, 20),
    )
    (trace,) = as_json(path, "--range", "step")["traces"]
    assert trace["window"]["occurrences"] == [
        {"start_ns": 0, "end_ns": 100_000, "kernel_busy_ns": 50_000, "copy_busy_ns": 20_000, "overlap_ns": 10_000,
         "wall_ns": 100_000},
        {"start_ns": 200_000, "end_ns": 300_000, "kernel_busy_ns": 30_000, "copy_busy_ns": 0, "overlap_ns": 0,
         "wall_ns": 100_000},
    ]  # fmt: skip
    assert trace["window"]["wall_ns"] == 200_000
    assert trace["devices"][0]["kernel_busy_ns"] == 80_000
    assert "Occurrences" not in run(path, "--range", "step").stdout
    assert "Occurrences" in run(path, "--range", "step", "--tables").stdout


def test_an_occurrence_counts_the_devices_of_its_own_process(tmp_path: Path) -> None:
    path = make.write(
        tmp_path / "t.json",
        make.annotation("step", 0, 100, pid=1),
        make.annotation("step", 0, 100, pid=2, tid=2),
        make.call(10, 1, correlation=1, pid=1),
        make.call(10, 1, correlation=101, pid=2, tid=2),
        make.kernel(20, 50, correlation=1),
        make.kernel(20, 30, correlation=101, device=1),
    )
    (trace,) = as_json(path, "--range", "step")["traces"]
    assert [entry["kernel_busy_ns"] for entry in trace["window"]["occurrences"]] == [50_000, 30_000]


def test_without_kernels_the_fraction_is_null_and_the_words_are_undefined(tmp_path: Path) -> None:
    path = make.write(tmp_path / "t.json", make.call(0, 1), make.copy(5, 5))
    (trace,) = as_json(path)["traces"]
    assert trace["devices"][0]["hidden_fraction"] is None
    assert "undefined" in trace["verdict"]
    assert "undefined" in run(path, "--all").stdout
    alone = make.write(tmp_path / "k.json", make.call(0, 1), make.kernel(5, 5))
    assert "undefined" in as_json(alone)["traces"][0]["verdict"]


def test_exit_status(tmp_path: Path) -> None:
    text = make.text(*[make.kernel(10 * number, 5) for number in range(50)])
    cut, empty = tmp_path / "cut.json", tmp_path / "empty.json"
    cut.write_text(text[: len(text) // 2])
    empty.write_text("")
    cpu_only = make.write(tmp_path / "cpu.json", make.cpu_op("aten::add", 0, 5))
    assert run(PAGEABLE).exit_code == 0
    assert run(cut).exit_code == 1
    assert run(PAGEABLE, empty).exit_code == 1
    assert run(empty).exit_code == 2
    assert run(cpu_only).exit_code == 2
    assert run(PAGEABLE, "--range", "nowhere").exit_code == 2


def test_errors_are_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere.json")
    assert result.stderr.count("\n") == 1
    assert "nowhere.json" in result.stderr
    assert "Traceback" not in result.stderr + result.stdout
    failed = as_json(tmp_path / "nowhere.json")
    assert failed["traces"] == []
    assert failed["errors"][0]["code"] == "trace-not-found"


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere.json", "--debug")
    assert "Traceback" in result.stderr
    assert "TraceNotFound" in result.stderr
    assert result.exit_code == 2


def test_a_trace_without_gpu_work_says_so_on_stderr(tmp_path: Path) -> None:
    path = make.write(tmp_path / "cpu.json", make.annotation("host only", 0, 5), make.call(10, 1), make.kernel(12, 5))
    result = run(path, "--range", "host only", "--format", "json")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "host only" in result.stderr
    assert json.loads(result.stdout)["traces"][0]["devices"] == []


def test_output_file_and_unwritable_output(tmp_path: Path) -> None:
    target = tmp_path / "audit.json"
    assert run(PAGEABLE, "--format", "json", "--output", target).stdout == ""
    assert json.loads(target.read_text())["traces"]
    assert run(PAGEABLE, "--output", tmp_path / "audit.txt").exit_code == 0
    assert "6 pageable copies" in (tmp_path / "audit.txt").read_text()
    refused = run(PAGEABLE, "--output", tmp_path / "no" / "where.json")
    assert refused.exit_code == 2
    assert "cannot be written" in refused.stderr


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_figures(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"timeline.{suffix}"
    assert run(PAGEABLE, "--range", "gemm_copy", "--figure", target).exit_code == 0
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert target.read_bytes().startswith(magic)


def test_figures_that_cannot_be(tmp_path: Path) -> None:
    refused = run(PAGEABLE, "--figure", tmp_path / "timeline.bmp")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert run(PAGEABLE, PINNED, "--figure", tmp_path / "timeline.png").exit_code == 2


def test_several_traces() -> None:
    assert [entry["source"]["path"] for entry in as_json(PAGEABLE, PINNED)["traces"]] == [str(PAGEABLE), str(PINNED)]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "[bold red]x[/bold red]\x1b]0;owned\x07\x1b[2J\u202eevil\n$x^2$<script>"
    path = make.write(
        tmp_path / "t.json",
        make.annotation(name, 0, 500),
        make.call(5, 100, name=f"cudaMemcpyAsync{name}", correlation=1),
        make.copy(10, 90, correlation=1),
        make.kernel(150, 5, name=name),
        deviceProperties=[{"id": 0, "name": name}],
    )
    result = run(path)
    assert "[bold red]x[/bold red]" in result.stdout
    for char in ("\x1b", "\x07", "\u202e"):
        assert char not in result.stdout
    target = tmp_path / "t.svg"
    assert run(path, "--figure", target).exit_code == 0
    assert b"<script>" not in target.read_bytes()


def test_json_of_a_trace_with_unknown_everything(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": "x", "tid": "y", "ts": 5, "dur": 5}
    path = make.write(tmp_path / "t.json", event)
    (device,) = as_json(path)["traces"][0]["devices"]
    assert (device["process"], device["device"], device["streams"][0]["stream"]) == (None, None, None)


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "overlapscope", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == f"overlapscope {overlapscope.__version__}\n"


def test_the_installed_command_answers() -> None:
    script = Path(sys.executable).with_name("overlapscope")
    if not script.exists():
        pytest.skip("the package is not installed in this environment")
    environment = os.environ | {"COLUMNS": "120"}
    result = subprocess.run([script, "audit", PAGEABLE], capture_output=True, text=True, check=True, env=environment)
    assert "6 pageable copies" in result.stdout


def test_what_holds_for_several_findings_is_said_once() -> None:
    """One change that saves the same for two GPUs, and one thing that confirms both findings."""
    found = overlapscope.analyse(PAGEABLE).diagnosis.findings[0]
    first, other = (replace(found, rank=rank, saving_ns=5, not_offered=None, confirm_with="a run") for rank in (1, 3))
    assert to_confirm([first, other]) == ["To confirm 1, 3: a run."]
    assert [same_change(each, [first, other]) for each in (first, other)] == [None, 1]
    assert same_change(replace(other, saving_ns=6), [first, other]) is None
