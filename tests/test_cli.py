"""What commands have in common: windows, files, widths, exit status, completion, progress."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from overlapscope import open_trace
from overlapscope.calibration.data import to_json
from overlapscope.calibration.schema import KEY, Calibration, Gpu
from overlapscope.cli.main import app
from tests import kineto_maker as make
from tests.conftest import SAMPLES
from tests.notation import trace_of

SAMPLE = SAMPLES / "dataloader_train-pageable-blocking.json.gz"
SMALL = SAMPLES / "page_locking-each-step.json.gz"
LONG_NAMES = SAMPLES / "offload-pageable-same.json.gz"
TABLES = ("copies", "gaps", "findings", "ranges")


def run(*arguments: str | Path, width: int = 80) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": str(width)})


def as_json(*arguments: str | Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run(*arguments, "--format", "json").stdout)
    return result


def as_frame(*arguments: str | Path) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run(*arguments, "--format", "csv").stdout))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", ["audit", *TABLES])
def test_nothing_is_wider_than_the_terminal(command: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LONG_NAMES.parent)
    result = run(command, LONG_NAMES.name, width=width)
    assert result.exit_code == 0, result.output
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= width
    assert "\x1b" not in result.stdout, "no colours without a terminal"


@pytest.mark.parametrize("command", TABLES)
def test_tables_say_what_is_left_out_unless_told_to_be_quiet(command: str) -> None:
    whole = as_frame(command, SMALL)
    top = run(command, SMALL, "--top", "1", "--format", "csv")
    assert len(pd.read_csv(io.StringIO(top.stdout))) == 1
    assert f"1 of {len(whole):,} rows" in top.stderr
    assert run(command, SMALL, "--top", "1", "--format", "csv", "-q").stderr == ""
    assert f"1 of {len(whole):,}" in run(command, SMALL, "--top", "1").stdout
    assert "more columns" not in run(command, SMALL, "-q").stdout


def test_the_most_expensive_come_first() -> None:
    copies, gaps = (as_frame(command, SAMPLE, "--top", "5") for command in ("copies", "gaps"))
    assert copies["no_kernel_ns"].is_monotonic_decreasing
    assert gaps["duration_ns"].tolist() == sorted(as_frame("gaps", SAMPLE)["duration_ns"], reverse=True)[:5]


@pytest.mark.parametrize("command", TABLES)
def test_the_name_of_a_file_says_its_format(command: str, tmp_path: Path) -> None:
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        assert run(command, SMALL, "-o", tmp_path / name).exit_code == 0
    read = [
        pd.read_csv(tmp_path / "t.csv"),
        pd.read_csv(tmp_path / "t.csv.gz"),
        pd.read_parquet(tmp_path / "t.parquet"),
    ]
    assert len({tuple(frame) for frame in read}) == 1
    assert len({len(frame) for frame in read}) == 1
    assert run(command, SMALL, "--format", "parquet").exit_code == 2


def test_results_go_to_files_and_nothing_else_is_printed(tmp_path: Path) -> None:
    for command in (["audit"], ["what-if", "--change", "pin"]):
        for form in ("text", "json", "csv"):
            target = tmp_path / f"{command[0]}.{form}"
            result = run(*command, SMALL, "-q", "--format", form, "-o", target)
            assert (result.exit_code, result.output) == (0, "")
            assert len(target.read_text()) > 100
    assert json.loads((tmp_path / "audit.json").read_text())["schema"].startswith("overlapscope.audit/")
    copy = tmp_path / "t.json.gz"
    copy.write_bytes(SMALL.read_bytes())
    assert "is the trace itself" in run("audit", copy, "-o", copy).stderr
    assert copy.read_bytes() == SMALL.read_bytes()
    assert run("audit", SMALL, "-o", tmp_path / "none" / "t").exit_code == 2


def test_the_path_in_an_audit_as_csv_may_be_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.json.gz")
    shutil.copy(SMALL, path)
    assert {*as_frame("audit", path)["path"]} == {f"{tmp_path}/?.json.gz"}


def test_an_audit_as_csv_has_the_findings_of_all_traces() -> None:
    other = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
    frame = as_frame("audit", SAMPLE, other)
    assert frame["path"].drop_duplicates().tolist() == [str(SAMPLE), str(other)]
    assert list(frame)[1:] == list(as_frame("findings", SAMPLE))


def test_top_limits_findings_and_says_so() -> None:
    assert len(as_json("audit", SAMPLE)["traces"][0]["findings"]) == 2
    result = run("audit", SAMPLE, "--top", "1", "--format", "json")
    (trace,) = json.loads(result.stdout)["traces"]
    assert (len(trace["findings"]), len(trace["costly_copies"])) == (1, 1)
    assert "1 more finding left out by --top" in result.stderr


@pytest.mark.parametrize(
    ("fail_on", "status"),
    [("hazard", 0), ("high", 3), ("low", 3), ("5%", 3), ("30 %", 3), ("60%", 0), ("severe", 2), ("5", 2), ("0%", 2)],
)
def test_what_fails_an_audit(fail_on: str, status: int) -> None:
    """24 % and 7 % of the time the GPU is idle because of a high and a low finding."""
    assert run("audit", SAMPLE, "--fail-on", fail_on).exit_code == status


def test_an_audit_without_such_a_finding_does_not_fail() -> None:
    pinned = SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz"
    assert run("audit", pinned, "--fail-on", "low").exit_code == 0
    assert run("audit", pinned, SAMPLE, "--fail-on", "high", "--top", "1").exit_code == 3
    assert run("audit", "nowhere.json", "--fail-on", "low").exit_code == 2


def test_windows_are_selected_alike() -> None:
    step = as_json("audit", SMALL, "--step", "1")["traces"][0]["window"]
    assert step == as_json("audit", SMALL, "--within", "ProfilerStep#1")["traces"][0]["window"]
    part = as_json("audit", SMALL, "--from", "10", "--to", "30")["traces"][0]["window"]
    assert part["wall_ns"] == 20_000_000
    first = as_frame("copies", SAMPLE)["start_ns"].min()
    after_ms = (first - open_trace(SAMPLE).start_ns) / 1e6
    inside = as_frame("copies", SAMPLE, "--from", f"{after_ms - 0.1:.3f}", "--to", f"{after_ms + 0.1:.3f}")
    assert inside["start_ns"].tolist() == [first]
    predicted = as_json("what-if", SAMPLE, "--change", "pin", "--from", "10", "--to", "30")
    assert predicted["simulated_ns"] == predicted["measured_ns"]
    assert 20_000_000 <= predicted["simulated_ns"] < 25_000_000, "to the end of the work issued in it"
    assert predicted["predicted_ns"] < predicted["simulated_ns"]


def test_a_change_of_one_gpu_s_copies(tmp_path: Path) -> None:
    text = """
        thread 1: copy 64MB pageable HtoD 0-1000 -> stream 7: 10-990 | launch 1001-1005 -> stream 7: 1010-1100
                  copy 64MB pageable HtoD 1110-2110 -> gpu 1 stream 9: 1120-2100
                  launch 2111-2115 -> gpu 1 stream 9: 2120-2300
    """
    trace_of(tmp_path, text)
    path, command = tmp_path / "t.json", ["what-if", "--change", "pin"]
    both, first = as_json(*command, path), as_json(*command, path, "--device", "0")
    assert both["predicted_ns"] < first["predicted_ns"] < first["simulated_ns"]
    assert (first["device"], both["device"]) == (0, None)
    assert "only copies of GPU 0" in run(*command, path, "--device", "0").stdout
    assert "leave --device out" in run("what-if", path, "--change", "cuda-graph", "--device", "0").stderr


def test_pages_by_code_and_by_name() -> None:
    page = run("explain", "OVL001").stdout
    assert page == run("explain", "pageable-copy").stdout == run("explain", "PAGEABLE-COPY").stdout
    assert run("explain", "PIN").stdout == run("explain", "pin").stdout != page
    moved = run("explain", "ovl014")
    assert moved.stdout == run("explain", "OVL103").stdout


def completed(words: str) -> list[str]:
    variables = {"_OVERLAPSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    result = CliRunner().invoke(app, [], env=variables, prog_name="overlapscope")
    return result.stdout.split()


def test_completion_knows_commands_rules_changes_and_severities() -> None:
    assert completed("overlapscope co") == ["compare", "copies"]
    assert completed("overlapscope explain OVL01")[:2] == ["OVL010", "OVL011"]
    assert completed("overlapscope explain pageable") == ["pageable-copy"]
    assert completed("overlapscope what-if t.json --change p") == [
        "pin",
        "pin-ahead",
        "preallocate",
        "prefetch",
    ]
    assert completed("overlapscope audit t.json --fail-on h") == ["hazard", "high"]


def test_help_loads_nothing_of_the_analysis() -> None:
    heavy = ("numpy", "pandas", "pyarrow", "matplotlib", "torch", "msgspec")
    code = f"import sys, overlapscope.cli.main; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


SLOW = """
import time
from pathlib import Path
from overlapscope.cli import progress
progress._PATIENCE_S = {patience}
with progress.phases(Path("a {{trace}}.json"), quiet={quiet}) as phases:
    for name in ("reading", "findings"):
        phases.begin(name)
        phases.read(1, 2)
        time.sleep(0.5)
"""


def on_a_terminal(code: str) -> str:
    """What a program prints on a terminal of 80 columns."""
    pty = pytest.importorskip("pty", reason="no terminals here")
    primary, secondary = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, "-c", code], stderr=secondary, env=environment) as process:
        os.close(secondary)
        parts = []
        try:
            while part := os.read(primary, 1 << 16):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
    os.close(primary)
    assert process.returncode == 0
    return b"".join(parts).decode()


def test_phases_are_shown_on_a_terminal_when_they_take_long() -> None:
    shown = on_a_terminal(SLOW.format(patience=0, quiet=False))
    assert "reading" in shown
    assert "findings" in shown
    assert "a {trace}.json" in shown
    assert on_a_terminal(SLOW.format(patience=60, quiet=False)) == ""
    assert on_a_terminal(SLOW.format(patience=0, quiet=True)) == ""


def test_without_a_terminal_there_is_no_progress() -> None:
    code = SLOW.format(patience=0, quiet=False)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["audit", "TRACE"], 2),
        (["audit", "TRACE", "--format", "json"], 2),
        (["audit", "TRACE", "--format", "csv"], 2),
        (["audit", "TRACE", "TRACE"], 2),
        *((["copies", "TRACE", *more], 2) for more in ([], ["--format", "csv"])),
        (["gaps", "TRACE"], 2),
        (["findings", "TRACE"], 2),
        (["findings", "TRACE", "-q"], 2),
        (["compare", "TRACE", "GPU"], 2),
        (["compare", "GPU", "TRACE"], 2),
        (["ranges", "TRACE"], 0),
        (["timeline", "TRACE", "-o", "OUT.png"], 0),
        (["report", "TRACE", "-o", "OUT.html"], 0),
        (["what-if", "TRACE", "--change", "pin"], 2),
        (["export", "TRACE", "--format", "csv", "-o", "OUT"], 0),
        (["export", "TRACE", "--format", "perfetto", "-o", "OUT.json"], 0),
    ],
)
def test_a_trace_without_device_work_is_named_once(arguments: list[str], status: int, tmp_path: Path) -> None:
    step = make.cpu_op("step", 0, 9) | {"cat": "user_annotation"}
    trace = make.write(tmp_path / "cpu.json", make.cpu_op("aten::add", 0, 5), step)
    given = [
        each.replace("TRACE", str(trace)).replace("OUT", str(tmp_path / "out")).replace("GPU", str(SAMPLE))
        for each in arguments
    ]
    result = run(*given)
    shown = result.stderr + (result.stdout if "json" not in arguments else "")
    said = " ".join(shown.replace("\n", " ").split())
    assert result.exit_code == status
    reasons = 1 if arguments[0] == "audit" and "--per-rank" not in arguments else arguments.count("TRACE")
    assert said.count("CPU-only trace") == reasons
    assert "ran without ProfilerActivity.CUDA" in said


def test_the_caption_of_a_trace_without_device_work_says_so(tmp_path: Path) -> None:
    step = make.cpu_op("step", 0, 9) | {"cat": "user_annotation"}
    trace = make.write(tmp_path / "cpu.json", make.cpu_op("aten::add", 0, 5), step)
    caption = run("timeline", trace, "-o", tmp_path / "t.png").stdout
    assert "of a program without GPU work" in caption


def test_a_report_without_device_work_says_so_once(tmp_path: Path) -> None:
    trace = make.write(tmp_path / "cpu.json", make.cpu_op("aten::add", 0, 5))
    run("report", trace, "-o", tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().count("CPU-only") == 1


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({}, "ran without ProfilerActivity.CUDA"),
        ({KEY: to_json(Calibration())}, "recorded with --device cpu"),
        ({KEY: to_json(Calibration(devices=(Gpu(0),)))}, "used no GPU"),
    ],
)
def test_the_reason_for_a_trace_without_device_work(header: dict[str, Any], reason: str, tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "cpu.json", make.cpu_op("aten::add", 0, 5), **header))
    assert reason in trace.health.no_device_work
    calls = open_trace(make.write(tmp_path / "calls.json", make.call(0, 1, name="cudaDeviceSynchronize")))
    assert "none of them launches" in calls.health.no_device_work


def test_the_demo_writes_to_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    assert run("demo").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]
    assert len(list(tmp_path.glob("temporary/*/timeline.png"))) == 1


def test_what_a_command_prints_is_no_command_of_its_own() -> None:
    refused = run("plan", "trace.json")
    assert refused.exit_code == 2
    assert "overlapscope audit TRACE prints the plan" in refused.stderr


def test_a_folder_is_for_the_fleet(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert result.exit_code == 2
    assert "overlapscope fleet" in result.stderr


def test_an_export_takes_the_window_of_every_other_command(tmp_path: Path) -> None:
    path = str(SAMPLES / "gemm_copy-pinned-copy-first-blocking-side.json.gz")
    options = ["--format", "csv", "--from", "0", "--to", "5"]
    result = CliRunner().invoke(app, ["export", path, *options, "-o", str(tmp_path / "tables")])
    assert result.exit_code == 0
    assert (tmp_path / "tables" / "gaps.csv").exists()
