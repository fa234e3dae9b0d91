"""Documents that are made from code are up to date, and the README's commands exist."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks import prediction
from benchmarks.outcomes import FILE, Outcomes
from overlapscope.cli.main import app
from tests.conftest import ROOT, SAMPLES


@pytest.mark.parametrize("maker", sorted(path.name for path in (ROOT / "docs").glob("make_*.py")))
def test_what_is_made_from_code_is_up_to_date(maker: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / maker), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_readme_names_commands_and_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= set(re.findall(r"^make ([a-z]+)", text, re.MULTILINE)) <= targets
    for path in re.findall(r"\]\((?!https?:)([\w./-]+)(?:#\w+)?\)", text):
        assert (ROOT / path).exists(), path


def test_documents_link_to_files_that_exist() -> None:
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "sample_traces" / "README.md"):
        for path in re.findall(r"\]\((?!https?:|#)([\w./-]+)\)", document.read_text()):
            assert (document.parent / path).exists(), (document.name, path)


def test_the_readme_shows_what_the_audit_prints() -> None:
    """Whatever the width of the terminal; ``...`` stands for what is left out."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"```\n\$ overlapscope (audit .*?)\n(.*?)```", text, re.DOTALL)
    assert block is not None
    result = CliRunner().invoke(app, [argument.replace("sample_traces", str(SAMPLES)) for argument in block[1].split()])
    printed = " ".join(result.stdout.split())
    for part in block[2].split("..."):
        assert " ".join(part.split()) in printed


def test_the_file_of_predictions_has_every_pair() -> None:
    """Its page is made from it; tests/test_predictions.py compares its figures with what is predicted."""
    written = Outcomes.from_json(FILE.read_text())
    assert written.recordings == prediction.RECORDINGS
    assert [(row.traces, row.group, row.faulty, row.fixed, row.changes) for row in written.rows] == [
        (traces, group, pair.faulty, pair.fixed, pair.changes)
        for traces in prediction.SUFFIXES
        for group in prediction.SETS
        for pair in prediction.traced(group, traces)
    ]


def test_how_to_get_all_recordings_is_said_alike() -> None:
    for text in (prediction.__doc__ or "", (ROOT / "benchmarks" / "README.md").read_text()):
        assert f"    {prediction.RESTORE}\n" in text
        assert f"`git fetch --depth 1 origin {prediction.RECORDINGS}`" in text
