"""Fleets of many ranks: made out of recorded ones, and the simulation of more workers than there are here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fleet_recorded import Copies, make
from benchmarks.fleet_scale import Costs, simulate
from overlapscope import open_fleet
from tests.test_fleet import fleet

FREE = Costs(0, 2, 1e-6, 0, 0, 0.01, 1)  # seconds; traces of a MB take 3


def test_workers_share_the_traces() -> None:
    found = simulate(FREE, 12, 4, 1e6)
    assert (found.map_s, found.workers_busy, found.reduce_s) == (9, 1, 1.12)
    assert simulate(FREE, 13, 4, 1e6).map_s == 12
    assert simulate(FREE, 2, 4, 1e6).map_s == 3
    assert simulate(replace(FREE, worker_start_s=5), 12, 4, 1e6).map_s == 14


def test_what_is_serial_limits_many_workers() -> None:
    """The first trace is given after half of the scheduler's cost, and the last comes back when all others have."""
    slow = simulate(replace(FREE, scheduler_task_s=0.1), 1000, 1000, 1e6)
    assert slow.map_s == pytest.approx(100, abs=3.1)
    assert slow.scheduler_busy > 0.96
    collected = simulate(replace(FREE, client_task_s=0.1), 1000, 1000, 1e6)
    assert collected.map_s == pytest.approx(103)


def test_a_job_made_of_recorded_ranks_gives_the_answer_that_is_known(tmp_path: Path) -> None:
    truth = make(tmp_path / "job", Copies(4, late=(2,), times=2))
    found = open_fleet(fleet(tmp_path / "job", tmp_path / "out"))
    (late,) = found.to_pandas("stragglers").to_dict("records")
    assert (late["rank"], late["code"]) == (2, truth["code"])
    assert late["late_ns"] / 1e3 == pytest.approx(2 * sum(truth["late_us"]), rel=0.01)
    ranks = found.to_pandas("ranks").set_index("rank")
    skews = {int(rank): skew - truth["clocks_ns"][0] for rank, skew in truth["clocks_ns"].items()}
    assert ranks["offset_ns"].to_dict() == pytest.approx(skews, abs=int(ranks["error_ns"].max()) + 100_000)
    assert ranks["host"].unique().tolist() == ["node-0"]
    assert ranks["steps"].tolist() == [8] * 4
