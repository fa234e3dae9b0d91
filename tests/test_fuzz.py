"""The mutation fuzzer finds nothing in a short run, and finds what is wrong; ``make fuzz`` is the long one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.fuzz import judge
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
