"""The simulation of a fleet with more workers than there are here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.fleet_scale import Costs, simulate

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
