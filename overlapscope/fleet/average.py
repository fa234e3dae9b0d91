"""The average step of the ranks: each time with its spread over ranks and steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from overlapscope.fleet.figures import COLLECTIVES, COPIES, IDLE, KERNELS, STEP, TRANSFER, WAITING, step_times
from overlapscope.fleet.groups import total
from overlapscope.fleet.job import Job
from overlapscope.model.columns import Int64

_LEAST_IDLE = 0.01  # of the step, in the rank with the most: less explains nothing
_ORDER = (STEP, KERNELS, COLLECTIVES, WAITING, TRANSFER, COPIES, IDLE)


@dataclass(frozen=True)
class AverageTime:
    """One time of an average step: the median over ranks, the extremes with their members, and those over steps.

    ``code`` is that of the rule which explains a part of the idle time, empty for the rest. ``by_step_ns`` has the
    median rank in the step with the least and in that with the most; None where it is not known by step.
    """

    name: str
    code: str
    median_ns: float
    least_ns: int
    least_member: int
    most_ns: int
    most_member: int
    by_step_ns: tuple[float, float] | None = None


def average_step(job: Job) -> Iterator[AverageTime]:
    """The times of an average step, idle time also by what explains most; nothing where no rank has a whole step."""
    yield from average_times(job)
    used = np.flatnonzero(job.figures.steps > 0)
    if not len(used):
        return
    least = _LEAST_IDLE * job.figures.step_ns
    causes = [(code, kind, values) for (code, kind), values in _idle(job).items() if values[used].max() >= least]
    for code, kind, values in sorted(causes, key=lambda cause: (-np.median(cause[2][used]), -cause[2][used].max())):
        yield _spread(kind, code, values, used)


def average_times(job: Job) -> Iterator[AverageTime]:
    """The same without what explains idle time."""
    used = np.flatnonzero(job.figures.steps > 0)
    by_step = _by_step(job) if len(used) else {}
    for name in _ORDER if len(used) else ():
        if name in job.figures.times and (name == STEP or job.figures.times[name][used].any()):
            yield _spread(name, "", job.figures.times[name], used, by_step.get(name))


def _spread(
    name: str, code: str, values: Int64, used: Int64, by_step_ns: tuple[float, float] | None = None
) -> AverageTime:
    mine = values[used]
    least, most = int(np.argmin(mine)), int(np.argmax(mine))
    extremes = (int(mine[least]), int(used[least]), int(mine[most]), int(used[most]))
    return AverageTime(name, code, float(np.median(mine)), *extremes, by_step_ns)


def _by_step(job: Job) -> dict[str, tuple[float, float]]:
    steps = job.steps[(job.steps["member"] >= 0) & job.steps["step"].notna()]
    medians: dict[str, list[float]] = {}
    for _, rows in steps.groupby("step", sort=True):
        for name, values in step_times(rows).items():
            medians.setdefault(name, []).append(float(np.median(values)))
    return {name: (min(found), max(found)) for name, found in medians.items() if len(found) > 1}


def _idle(job: Job) -> Mapping[tuple[str, str], Int64]:
    """The time without a kernel and a copy of each member in its average step, by rule and kind."""
    size = len(job.members)
    count = np.maximum(np.bincount(job.steps["member"][job.steps["member"] >= 0].to_numpy(np.int64), minlength=size), 1)
    rows = job.idle[job.idle["member"] >= 0]
    found = {}
    for (code, kind), mine in rows.groupby(["code", "kind"], sort=True):
        idle = (mine["idle_ns"] - mine["copying_ns"]).to_numpy(np.int64)
        found[str(code), str(kind)] = total(idle, mine["member"].to_numpy(np.int64), size) // count
    return found
