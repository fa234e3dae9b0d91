"""Documents that are made from code are up to date, and the README's commands exist."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import overlapscope
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


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_use_public_names_only(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    tree = ast.parse(re.sub(r"^%.*", "", code, flags=re.MULTILINE))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        module
        for node in imports
        for module in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    packages = {str(module).partition(".")[0] for module in modules}
    assert packages <= {"overlapscope", "numpy", "pandas", "matplotlib", *sys.stdlib_module_names}
    assert not {module for module in modules if str(module).startswith("overlapscope.")}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "overlapscope"
    }
    assert used
    assert used <= set(overlapscope.__all__)
