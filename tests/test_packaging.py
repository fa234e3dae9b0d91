"""What is in the wheel and in the source distribution, and that the demo works from the wheel alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_wheel_holds_the_package_with_its_one_trace_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"overlapscope", names[-1].split("/")[0]}
    assert [name for name in names if name.endswith(".gz")] == ["overlapscope/cli/demo.json.gz"]
    assert wheel.stat().st_size < 1_000_000


def test_the_source_distribution_holds_no_more(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"README.md", "pyproject.toml", "overlapscope/py.typed"} <= set(names)
    assert [name for name in names if name.endswith(".gz")] == ["overlapscope/cli/demo.json.gz"]
    assert source.stat().st_size < 1_000_000


def test_the_demo_works_from_the_wheel_alone(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")  # noqa: S202 - made above
    code = "import sys, overlapscope; from overlapscope.cli.main import main; print(overlapscope.__file__); main()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-P", "-c", code, "demo", "-o", str(tmp_path / "out")]
    result = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert result.stdout.startswith(str(tmp_path / "site"))
    assert "6 pageable copies (384 MiB) blocked the host" in " ".join(result.stdout.split())
    assert (tmp_path / "out" / "timeline.png").stat().st_size > 10_000
