"""Documents that are made from code are up to date, and the README's commands exist."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

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


README = (ROOT / "README.md").read_text()
PICTURE_BYTES = 200_000


def test_the_readme_names_commands_options_and_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    documents = README + (ROOT / "CONTRIBUTING.md").read_text()
    assert {"demo", "test", "site"} <= set(re.findall(r"(?:^ *|`)make ([a-z-]+)", documents, re.MULTILINE)) <= targets
    group: Any = typer.main.get_command(app)
    lines = re.findall(r"(?:^|`)overlapscope ([a-z-]+)(.*)", README, re.MULTILINE)
    assert len(lines) > 5
    for name, rest in lines:
        options = {flag for entry in group.commands[name].params for flag in entry.opts}
        assert set(re.findall(r"(?<= )--?[a-z][a-z-]*", rest.split("`")[0])) <= options, name


def test_the_pages_name_commands_and_options_that_exist() -> None:
    """Of commands in code; those whose output a page quotes are run when the page is made."""
    group: Any = typer.main.get_command(app)
    seen = set()
    for page in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md")):
        text = page.read_text().replace("\\\n", " ")
        for name, rest in re.findall(r"^(?: {4}|\$ )overlapscope ([a-z-]+)(.*)", text, re.MULTILINE):
            options = {flag for entry in group.commands[name].params for flag in entry.opts}
            given = re.findall(r"(?<= )--?[a-z][a-z-]*", rest.split("#")[0])
            assert not options or name == "record" or set(given) <= options, (page.name, name)
            seen.add(name)
    assert len(seen) > 8


def test_the_readme_links_to_files_that_exist() -> None:
    paths = re.findall(r"\]\((?!https?:)([\w./-]+)(?:#\w+)?\)", README)
    assert len(paths) > 20
    for path in paths:
        assert (ROOT / path).exists(), path


def test_the_readme_shows_what_the_audit_prints() -> None:
    """The picture of the terminal is compared with the command's output by its maker; the text's times are here."""
    pictures = re.findall(r"!\[.+\]\((.+)\)", README)
    assert pictures == ["docs/images/audit.svg", "docs/images/report.png"]
    for path in pictures:
        assert (ROOT / path).stat().st_size < PICTURE_BYTES
    svg = (ROOT / pictures[0]).read_text()
    assert "url(http" not in svg
    printed = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg)).replace("&#160;", " ")
    walls = json.loads((SAMPLES / "truth.json").read_text())["unprofiled_wall"]
    names = [f"gemm_copy-{memory}-kernels-first-non-blocking-side" for memory in ("pageable", "pinned")]
    measured = {f"{walls[name]['median_ms']:.1f}" for name in names}
    told = set(re.findall(r"([\d.]+) ms", README))
    assert measured < told
    for time in told - measured:
        assert f"{time} ms" in printed or f"most likely {time} " in printed
    for share in re.findall(r"\d+ %", README):
        assert share in printed


def test_documents_link_to_files_that_exist() -> None:
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "sample_traces" / "README.md"):
        for path in re.findall(r"\]\((?!https?:|#)([\w./-]+)\)", document.read_text()):
            assert (document.parent / path).exists(), (document.name, path)


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


def test_measured_times_are_filled_in_and_not_typed() -> None:
    pages = {path for folder in ("", "howto") for path in (ROOT / "docs" / folder).glob("*.in.md")}
    assert len(pages) > 5
    plain = {path for path in (ROOT / "docs" / "howto").glob("*.md") if not path.with_suffix(".in.md").exists()}
    for path in pages | (plain - pages):
        assert not re.findall(r"[\d.]+ ms\b", path.read_text()), path.name


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
