"""Times of each rank that can be compared between ranks: in a step, on average, and exposed by several definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from overlapscope.fleet.clocks import Arrivals, total
from overlapscope.fleet.schema import COLLECTIVES, COPIES, IDLE, KERNELS, STEP, STEP_TIMES, TRANSFER, WAITING
from overlapscope.model.columns import Bool, Int64

if TYPE_CHECKING:
    from overlapscope.fleet.job import Job

_ORDER = (STEP, KERNELS, COLLECTIVES, WAITING, TRANSFER, COPIES, IDLE)
_LEAST_IDLE = 0.01  # of the step, in the rank with the most: less explains nothing
Times = Mapping[str, Int64]
"""A time of each member, or of each row, by what it is."""
OURS = "overlapscope"
OTHER_TOOLS = {"hta": "HTA", "tracelens": "TraceLens"}
"""The other tools that define exposed time, by the name of their definition in the tables."""


@dataclass(frozen=True, eq=False)
class Figures:
    """Times of each member in its average step; ``steps`` is how many it has, 0 for one that is not used.

    ``idle`` is its idle time by rule and kind. Where a trace has no steps, all of it counts as one. Of a rank with
    several GPUs it is the average of these.
    """

    steps: Int64
    times: Times
    idle: Mapping[tuple[str, str], Int64]

    @property
    def used(self) -> Int64:
        """The members that have a step."""
        return np.flatnonzero(self.steps > 0)

    @property
    def step_ns(self) -> int:
        """The average step of the median rank; 0 where no rank has one."""
        return int(np.median(self.times[STEP][self.used])) if len(self.used) else 0


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


@dataclass(frozen=True)
class Exposed:
    """Exposed time in the whole trace, as one definition has it: of the median rank, and the most with its member.

    A collective is exposed without another kernel at the time, for all three. A copy is exposed without a kernel or a
    memset; for HTA, whose memory time has memsets too, without a kernel; for TraceLens, without a kernel, a memset or
    a collective.
    """

    definition: str
    collectives_ns: float
    copies_ns: float
    most_collectives: tuple[int, float] | None = None
    most_copies: tuple[int, float] | None = None


def figures(steps: pd.DataFrame, idle: pd.DataFrame, members: int) -> Figures:
    """The figures of all members; both tables have a column ``member``."""
    steps, idle = steps[steps["member"] >= 0], idle[idle["member"] >= 0]
    member = steps["member"].to_numpy(np.int64)
    count = np.bincount(member, minlength=members)  # of steps, once for each GPU of the rank
    alone = steps.drop_duplicates(["member", "step"])["member"].to_numpy(np.int64)
    times = {name: _mean(values, member, count) for name, values in step_times(steps).items()}
    return Figures(np.bincount(alone, minlength=members), times, _by_rule(idle, idle["no_kernel_ns"], count))


def numbered(steps: pd.DataFrame) -> pd.DataFrame:
    """The rows of the table of steps that are of a member, and of a step of the profiler."""
    return steps[(steps["member"] >= 0) & steps["step"].notna()]


def step_times(steps: pd.DataFrame) -> Times:
    """The times of each row of the table of steps."""
    columns = {STEP: steps["end_ns"] - steps["start_ns"]} | {name: steps[column] for name, column in STEP_TIMES.items()}
    return {name: values.to_numpy(np.int64) for name, values in columns.items()}


def collective_times(arrived: Arrivals, shared: Bool, steps: Int64) -> Times:
    """How long each member waits in collectives for the last rank, and for the transfer, in an average shared step."""
    rows, judged = arrived.rows, (arrived.counts & shared)[arrived.rows.collective]
    arrival = arrived.arrival_ns[rows.collective]
    waits = np.where(judged, np.maximum(arrival - rows.start_ns, 0), 0)
    moves = np.where(judged, np.maximum(rows.end_ns - arrival, 0), 0)
    return {WAITING: _mean(waits, rows.member, steps), TRANSFER: _mean(moves, rows.member, steps)}


def _by_rule(idle: pd.DataFrame, times: pd.Series, count: Int64) -> Mapping[tuple[str, str], Int64]:
    """The idle time of each member in its average step, by rule and kind, from the ``times`` of rows."""
    return {
        (str(code), str(kind)): _mean(rows["time_ns"].to_numpy(np.int64), rows["member"].to_numpy(np.int64), count)
        for (code, kind), rows in idle.assign(time_ns=times).groupby(["code", "kind"], sort=True)
    }


def _mean(values: Int64, member: Int64, count: Int64) -> Int64:
    result: Int64 = total(values, member, len(count)) // np.maximum(count, 1)
    return result


def average_step(job: Job) -> Iterator[AverageTime]:
    """The times of an average step, idle time also by what explains most; nothing where no rank has a whole step."""
    yield from average_times(job)
    used, least = job.figures.used, _LEAST_IDLE * job.figures.step_ns
    steps, idle = job.steps["member"][job.steps["member"] >= 0], job.idle[job.idle["member"] >= 0]
    count = np.bincount(steps.to_numpy(np.int64), minlength=len(job.members))
    by_rule = _by_rule(idle, idle["no_kernel_ns"] - idle["copying_ns"], count) if len(used) else {}
    causes = [(*cause, values[used]) for cause, values in by_rule.items() if values[used].max() >= least]
    for code, kind, values in sorted(causes, key=lambda cause: (-np.median(cause[2]), -cause[2].max())):
        yield _spread(kind, code, values, used)


def average_times(job: Job) -> Iterator[AverageTime]:
    """The times of an average step, without what explains idle time."""
    used = job.figures.used
    by_step = _by_step(job) if len(used) else {}
    for name in _ORDER if len(used) else ():
        if name in job.figures.times and (name == STEP or job.figures.times[name][used].any()):
            yield _spread(name, "", job.figures.times[name][used], used, by_step.get(name))


def _spread(
    name: str, code: str, values: Int64, used: Int64, by_step_ns: tuple[float, float] | None = None
) -> AverageTime:
    least, most = int(np.argmin(values)), int(np.argmax(values))
    extremes = (int(values[least]), int(used[least]), int(values[most]), int(used[most]))
    return AverageTime(name, code, float(np.median(values)), *extremes, by_step_ns)


def _by_step(job: Job) -> dict[str, tuple[float, float]]:
    medians: dict[str, list[float]] = {}
    for _, rows in numbered(job.steps).groupby("step", sort=True):
        for name, values in step_times(rows).items():
            medians.setdefault(name, []).append(float(np.median(values)))
    return {name: (min(values), max(values)) for name, values in medians.items() if len(values) > 1}


def exposed(devices: pd.DataFrame, definitions: pd.DataFrame) -> tuple[Exposed, ...]:
    """The exposed times by each definition; both tables have a column ``member``."""
    ours = _of_definition(OURS, devices, ["exposed_collectives_ns", "exposed_copies_ns"])
    columns = ["exposed_communication_ns", "exposed_memory_ns"]
    theirs = (
        _of_definition(name, definitions[definitions["definition"] == code], columns)
        for code, name in OTHER_TOOLS.items()
    )
    return (ours, *theirs)


def _of_definition(name: str, rows: pd.DataFrame, columns: list[str]) -> Exposed:
    """Exposed times by one definition, over members; of a member with several GPUs the sum counts."""
    sums = rows[rows["member"] >= 0].groupby("member")[columns].sum()
    if sums.empty:
        return Exposed(name, 0.0, 0.0)
    median = np.median(sums.to_numpy(np.float64), axis=0)
    most = [(int(sums.index.to_numpy(np.int64)[sums[each].argmax()]), float(sums[each].max())) for each in columns]
    return Exposed(name, float(median[0]), float(median[1]), *most)
