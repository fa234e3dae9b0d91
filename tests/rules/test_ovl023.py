"""The rule OVL023, copies-beside-collectives."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import Config, analyse, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.diagnosis.finding import Confidence, Finding
from tests import kineto_maker as make
from tests.conftest import CASES
from tests.rules import RuleTests, finding_of, program
from tests.rules.traces import reducing


class TestOvl023(RuleTests):
    code = "OVL023"
    reports = (program(*reducing(collective_us=4000, beside_us=3600, alone_us=1200)),)
    silent = (program(*reducing(collective_us=4000, beside_us=1200, alone_us=1200)),)


def beside(tmp_path: Path, *events: make.Event) -> Finding | None:
    return finding_of(diagnose(open_trace(make.write(tmp_path / "t.json", *events))), "OVL023")


def test_copies_that_take_longer_beside_collectives_are_told(tmp_path: Path) -> None:
    finding = beside(tmp_path, *reducing(collective_us=4000, beside_us=3600, alone_us=1200))
    assert finding is not None
    assert (finding.confidence, len(finding.copies)) == (Confidence.MEDIUM, 6)
    assert {name: value for name, value in finding.evidence.items() if value is not None} == {
        "copies_beside": 6,
        "copies_alone": 6,
        "copy_beside_ns": 3_600_000,
        "copy_alone_ns": 1_200_000,
        "lost_ns": 6 * 2_400_000,
    }
    assert finding.idle_ns == 6 * 2_400_000


@pytest.mark.parametrize(
    ("beside_us", "rounds"),
    [(1300, 6), (3600, 4)],
    ids=["hardly slower", "too few"],
)
def test_copies_that_are_not_clearly_slower_are_not_told(beside_us: float, rounds: int, tmp_path: Path) -> None:
    assert beside(tmp_path, *reducing(collective_us=4000, beside_us=beside_us, alone_us=1200, rounds=rounds)) is None


def test_copies_that_the_other_direction_slows_are_not_told(tmp_path: Path) -> None:
    events = reducing(collective_us=4000, beside_us=3600, alone_us=1200)
    for number in range(6):
        up = make.copy(10_000 * number + 12, 3600, kinds="HtoD (Pinned -> Device)", size=2**20, stream=14)
        events.append(up)
    assert beside(tmp_path, *events) is None


def test_copies_that_cost_nothing_are_not_told(tmp_path: Path) -> None:
    """Kernels run beside the collectives all the time."""
    events = reducing(collective_us=4000, beside_us=3600, alone_us=1200)
    kernels = [make.kernel(10_000 * number, 9_000, name="gemm") for number in range(6)]
    assert beside(tmp_path, *events, *kernels) is None


def test_collectives_through_host_memory_slow_copies_and_those_over_nvlink_do_not() -> None:
    """It is 4.4 % of the pass, so the least share of a finding is lowered."""
    config = Config(report_share=0.02)

    def told(way: str) -> Finding | None:
        trace = open_trace(CASES / f"collective_copies_beside_{way}.json.gz")
        return finding_of(analyse(trace, "pass", config=config).diagnosis, "OVL023")

    finding = told("shm")
    assert finding is not None
    assert (finding.evidence["copies_beside"], finding.evidence["copies_alone"]) == (8, 8)
    assert told("nvlink") is None
