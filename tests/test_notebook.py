"""What notebooks show, and the magic that records a cell."""

from __future__ import annotations

import base64
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import start_ipython

import overlapscope
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.formatting import share, time
from overlapscope.notebook.magic import overlap, register
from overlapscope.notebook.reprs import analysis_html, audit_html, diagnosis_html, prediction_html, trace_html
from tests import kineto_maker as make
from tests.conftest import SAMPLES
from tests.test_page import HOSTILE, read

SAMPLE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    start_ipython()
    found = InteractiveShell.instance()
    found.run_cell("import overlapscope")
    yield found
    InteractiveShell.clear_instance()


def pictures(html: str) -> list[tuple[int, int]]:
    """Width and height of every picture."""
    found = [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', html)]
    return [struct.unpack(">II", data[16:24]) for data in found]


def test_a_trace_shows_its_tables_and_its_timeline() -> None:
    trace = overlapscope.open_trace(SAMPLE)
    html = trace_html(trace)
    read(html)
    assert "NVIDIA H200" in html
    for name, table in trace.tables():
        assert (f">{name}</td>" in html) == bool(len(table))
    assert len(pictures(html)) == 1


def test_a_diagnosis_shows_findings_and_plan() -> None:
    found = overlapscope.analyse(SAMPLE, "gemm_copy").diagnosis
    html = diagnosis_html(found)
    read(html)
    assert escape(found.summary) in html
    assert escape(found.findings[0].message) in html
    assert "<td" in html
    assert ">pin</td>" in html
    assert len(pictures(html)) == 1


def test_an_analysis_states_the_share_of_a_finding_as_its_audit_does() -> None:
    """Without the profiler, whose cost the trace tells; its diagnosis is as recorded, and says so."""
    analysis = overlapscope.analyse(SAMPLE, "gemm_copy")
    stated, recorded = (
        f"no kernel for {time(finding.idle_ns)} ({share(finding.idle_ns, found.window.wall_ns)})"
        for found in (analysis.conclusion, analysis.recorded)
        for finding in found.findings[:1]
    )
    assert stated != recorded
    for shown in (analysis_html(analysis), audit_html(analysis.audit())):
        assert stated in shown
        assert recorded not in shown
    html = diagnosis_html(analysis.diagnosis)
    assert recorded in html
    assert "Times of findings are as recorded." in html


def test_a_prediction_shows_before_and_after() -> None:
    found = overlapscope.what_if(overlapscope.open_trace(SAMPLE), "pin", "gemm_copy")
    html = prediction_html(found)
    read(html)
    assert escape(found.sentence) in html
    ((width, height),) = pictures(html)
    assert width > 700
    assert height > 300, "two timelines"


def test_nothing_to_draw_and_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    trace = overlapscope.open_trace(make.write(tmp_path / "t.json", make.annotation(HOSTILE, 0, 5)))
    assert pictures(trace_html(trace)) == []
    device = [{"id": 0, "name": HOSTILE}]
    trace = overlapscope.open_trace(make.write(tmp_path / "t.json", make.kernel(0, 5), deviceProperties=device))
    assert "<script>" not in trace_html(trace)
    healthy = diagnosis_html(overlapscope.analyse(trace).diagnosis)
    assert len(pictures(healthy)) == 1


def test_ipython_shows_them_so(shell: InteractiveShell) -> None:
    register(shell)
    shell.display_formatter.active_types = ["text/plain", "text/html"]  # as in a notebook
    trace = overlapscope.open_trace(SAMPLE)
    shown, _ = shell.display_formatter.format(trace)
    assert shown["text/html"] == trace_html(trace)
    assert shown["text/plain"] == repr(trace)


def test_importing_outside_of_ipython_brings_nothing_along() -> None:
    code = "import sys, overlapscope; print(sorted({'IPython', 'numpy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_cell_is_recorded_and_diagnosed(shell: InteractiveShell, tmp_path: Path) -> None:
    """On the CPU there is nothing to find, but a trace and a diagnosis."""
    shell.run_cell("%load_ext overlapscope")
    shell.run_cell("import torch")
    kept = tmp_path / "kept.json.gz"
    found = shell.run_cell_magic("overlap", f"--device cpu -o {kept}", "answer = int(torch.ones(3).sum())")
    assert isinstance(found, Diagnosis)
    assert shell.user_ns["answer"] == 3
    assert len(overlapscope.open_trace(kept).cpu_ops) > 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_without_a_gpu_the_cell_runs_and_a_sentence_says_why(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert overlap(shell, "", "answer = 42") is None
    assert shell.user_ns["answer"] == 42
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_error_of_the_cell_is_the_notebook_s(shell: InteractiveShell, device: str) -> None:
    with pytest.raises(KeyError, match="mine"):
        overlap(shell, f"--device {device}", "raise KeyError('mine')")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_error_of_ours_in_the_cell_is_the_cell_s(shell: InteractiveShell, device: str) -> None:
    with pytest.raises(overlapscope.OverlapscopeError, match="nowhere"):
        overlap(shell, f"--device {device}", "overlapscope.open_trace('nowhere')")


def test_what_cannot_be_written_is_said_and_the_cell_runs(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert overlap(shell, "--device cpu -o /nowhere/t.json", "answer = 6") is None
    assert shell.user_ns["answer"] == 6
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["--device tpu", "--nonsense", "-o 'open"])
def test_wrong_options_are_said_in_a_sentence(shell: InteractiveShell, line: str) -> None:
    with pytest.raises(UsageError, match=r"^%%overlap: "):
        overlap(shell, line, "pass")


def test_the_magic_explains_itself_and_understands_others(shell: InteractiveShell) -> None:
    shell.run_cell("%load_ext overlapscope")
    assert "--stacks" in (shell.find_cell_magic("overlap").__doc__ or "")
    overlap(shell, "--device cpu", "%env OVERLAPSCOPE_TEST_OF_MAGIC=1\nanswer = 5")
    assert shell.user_ns["answer"] == 5
