"""The mutation fuzzer finds nothing in a short run, and finds what is wrong; ``make fuzz`` is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from overlapscope.cli.main import app
from tests import kineto_maker as make
from tests.conftest import ROOT
from tests.fuzz import judge, odd, results
from tests.fuzz.mutants import mutant, samples
from tests.fuzz.uses import leaves


def test_a_short_run_finds_nothing() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--count", "5", "--minutes", "1", "--share", "0.4"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_mutants_are_the_same_each_time() -> None:
    originals = samples()
    assert [mutant(3, number, originals) for number in range(5)] == [
        mutant(3, number, originals) for number in range(5)
    ]


def test_every_command_that_reads_traces_is_put_to_use() -> None:
    names = {name for name, _ in leaves()}
    assert {"audit", "what-if", "compare", "check", "scrub", "report", "timeline", "export", "fleet map"} <= names


@pytest.mark.parametrize(
    "wrong",
    [
        {"size_bytes": -1},
        {"share": 1.5},
        {"total_ns": float("nan")},
        {"hidden_ns": 5, "total_ns": 4},
        {"idle_ns": 3, "idle_causes": {"a_ns": 1}},
        {"devices": [{"busy_ns": 9, "span_ns": 8}]},
    ],
)
def test_figures_that_cannot_be_are_found(wrong: dict[str, object]) -> None:
    assert judge.complaints(wrong)
    assert not judge.complaints({"start_ns": -5, "end_ns": 4, "hidden_ns": 4, "total_ns": 4, "share": 1.0})


def hostile_trace(path: Path) -> Path:
    """A pageable copy and a kernel in ranges and frames whose names mean something elsewhere."""
    events = []
    for number, name in enumerate((*odd.HOSTILE, *odd.TEXTS)):
        at = 100 * number
        pageable = make.copy(at + 5, 30, kinds="HtoD (Pageable -> Device)", size=10_000_000, correlation=2 * number + 1)
        events += [
            make.annotation(name, at, 95),
            make.annotation(f"/x/{name}.py(3): {name}", at + 1, 90) | {"cat": "python_function"},
            make.call(at + 2, 40, name="cudaMemcpyAsync", correlation=2 * number + 1),
            pageable,
            make.call(at + 45, 5, correlation=2 * number + 2),
            make.kernel(at + 60, 20, correlation=2 * number + 2) | {"name": name},
        ]
    return make.write(path, *events)


@pytest.mark.parametrize(
    "command",
    [
        "audit IN", "check IN --config OUT/limits.toml --annotations --junit OUT/o.xml --summary OUT/o.md",
        "ranges IN --top 99", "report IN -o OUT/o.html", "timeline IN -o OUT/o.svg", "fleet IN --page OUT/o.html",
    ],
)  # fmt: skip
def test_names_reach_no_terminal_page_or_table_as_more_than_text(command: str, tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text("[check]\npageable_bytes = 0\n")
    source = hostile_trace(tmp_path / "\x1b[31m\n<b>\u202e.json")
    words = command.replace("OUT", str(tmp_path)).split()
    result = CliRunner().invoke(app, [str(source) if word == "IN" else word for word in words])
    assert result.exit_code in {0, 3}, result.output
    assert results.of_text(result.output) == results.of_folder(tmp_path) == []
    assert sum(line.startswith("::") for line in result.stdout.splitlines()) == ("--annotations" in command)
