"""The GitHub Action: its steps run in a shell as they would there, with stand-ins for what GitHub provides."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, SAMPLES

FILE = ROOT / ".github" / "actions" / "check" / "action.yml"
ACTION: dict[str, Any] = yaml.safe_load(FILE.read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
UNPINNED = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
PINNED = SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz"


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A folder as a runner has it: the command where the first step installs it, and files for the results."""
    binaries = tmp_path / "overlapscope" / "bin"
    binaries.mkdir(parents=True)
    script(binaries / "overlapscope", f'exec {sys.executable} -m overlapscope "$@"')
    (tmp_path / "limits.toml").write_text("[check]\npageable_bytes = 0\n")
    for name in ("output", "summary"):
        (tmp_path / name).touch()
    return tmp_path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def step(name: str, runner: Path, **environment: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does: bash that stops at the first error."""
    known = {
        "PATH": f"{runner}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(runner),
        "GITHUB_OUTPUT": str(runner / "output"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary"),
        "GITHUB_REPOSITORY": "owner/name",
        **{key: str(value) for key, value in environment.items()},
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
    return subprocess.run(command, cwd=runner, env=known, capture_output=True, text=True, check=False)


def outputs(runner: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (runner / "output").read_text().splitlines())


@pytest.mark.parametrize(("trace", "status"), [(PINNED, 0), (UNPINNED, 3)])
def test_the_check_leaves_its_results_and_the_last_step_fails_with_its_status(
    trace: Path, status: int, runner: Path
) -> None:
    done = step("Check", runner, TRACE=trace, CONFIG="limits.toml", BASELINE="")
    assert done.returncode == 0, done.stderr
    found = outputs(runner)
    assert found["status"] == str(status)
    assert json.loads(Path(found["json"]).read_text())["passed"] == (status == 0)
    assert Path(found["junit"]).read_text().startswith("<?xml")
    assert (runner / "summary").read_text() == Path(found["summary"]).read_text()
    assert ("::error title=" in done.stdout) == (status == 3)
    assert step("Result", runner, STATUS=found["status"]).returncode == status


def test_where_the_check_could_not_run_the_summary_and_the_comment_say_so(runner: Path) -> None:
    """An older comment may say that the limits are kept."""
    done = step("Check", runner, TRACE=PINNED, CONFIG="nowhere.toml", BASELINE="")
    found = outputs(runner)
    assert (done.returncode, found["status"]) == (0, "2")
    assert "nowhere.toml: cannot be read" in done.stderr
    said = (runner / "summary").read_text()
    assert said.startswith("### overlapscope check could not run\n")
    script(runner / "gh", "true")
    for summary in (found["summary"], ""):  # the step before may not have run either
        assert step("Comment", runner, SUMMARY=summary, NUMBER="7").returncode == 0
        assert (runner / "overlapscope-comment.md").read_text() == f"<!-- overlapscope check -->\n{said}"


@pytest.mark.parametrize(("status", "words"), [(1, "some data of the trace was lost"), (2, "could not run")])
def test_a_status_that_no_limit_explains_is_explained(status: int, words: str, runner: Path) -> None:
    done = step("Result", runner, STATUS=str(status))
    assert done.returncode == status
    assert words in done.stdout


def test_a_trace_is_never_an_option(runner: Path) -> None:
    done = step("Check", runner, TRACE="--help", CONFIG="limits.toml", BASELINE="")
    assert outputs(runner)["status"] == "2"
    assert "--help: no such file" in done.stderr


def test_a_baseline_is_compared(runner: Path) -> None:
    code = [sys.executable, "-m", "overlapscope", "check", str(PINNED), "--baseline", "b.json", "--update-baseline"]
    subprocess.run(code, cwd=runner, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    step("Check", runner, TRACE=UNPINNED, CONFIG="", BASELINE="b.json")
    assert outputs(runner)["status"] == "3"


@pytest.mark.parametrize(("known", "request_line"), [("", "POST repos/owner/name/issues/7/comments"), ("42", "PATCH")])
def test_there_is_one_comment_that_is_changed_later(known: str, request_line: str, runner: Path) -> None:
    (runner / "check.md").write_text("### result\n")
    script(runner / "gh", f'echo $* >> calls; case "$*" in *--jq*) echo "{known}";; esac')
    done = step("Comment", runner, SUMMARY=runner / "check.md", NUMBER="7")
    assert done.returncode == 0, done.stderr
    first, second = (runner / "calls").read_text().splitlines()
    assert "owner=owner -f name=name -F number=7 --jq" in first
    assert "select(.viewerDidAuthor and (.body | startswith(" in first
    assert request_line in second
    assert (runner / "overlapscope-comment.md").read_text() == "<!-- overlapscope check -->\n### result\n"


def test_nothing_of_the_workflow_is_pasted_into_a_script() -> None:
    for each in STEPS.values():
        assert "${{" not in each["run"]
        assert each["shell"] == "bash"


def test_every_input_is_used_and_every_output_is_made() -> None:
    text = FILE.read_text()
    used = set(re.findall(r"inputs\.(\w+)", text))
    assert used == set(ACTION["inputs"])
    made = set(re.findall(r'echo "(\w+)=', STEPS["Check"]["run"]))
    assert set(ACTION["outputs"]) <= made
    assert all(entry["description"] for entry in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


def test_the_version_that_comes_with_the_action_is_installed(runner: Path) -> None:
    """Where nothing else is asked for: the repository that the file of the action lies in."""
    assert (FILE.parent / "../../.." / "pyproject.toml").resolve() == ROOT / "pyproject.toml"
    script(
        runner / "python3",
        'mkdir -p "$3/bin"; printf \'#!/bin/bash\\necho "$*" >> pip\\n\' > "$3/bin/python"; chmod +x "$3/bin/python"',
    )
    for wanted, installed in (("", f"{FILE.parent}/../../.."), ("overlapscope==1", "overlapscope==1")):
        done = step("Install", runner, INSTALL=wanted, GITHUB_ACTION_PATH=FILE.parent)
        assert done.returncode == 0, done.stderr
        assert (runner / "pip").read_text().splitlines()[-1] == f"-m pip install --quiet {installed}"
