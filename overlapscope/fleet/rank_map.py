"""What each rank did when, on aligned clocks, as plain data: the rank and time map of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.fleet.figures import COLLECTIVES, STEP, TRANSFER, WAITING, read
from overlapscope.fleet.job import Job, member_column, with_base
from overlapscope.measure.spans import Spans, intersect, subtract, union
from overlapscope.model.columns import Int64

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Run:
    """A stretch of one step of a rank, and what its GPU did most of it: a figure's name, or the code of a rule."""

    step: int | None
    part: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class RankRow:
    """One rank; ``late_ns`` is its lateness in an average step, 0 where it is not late."""

    member: int
    late_ns: int
    runs: tuple[Run, ...] = ()


def rank_rows(job: Job) -> tuple[RankRow, ...]:
    """All ranks that are compared, without their runs: late ones first, then those that wait least in collectives."""
    late = job.late_ns
    place = {each.member: number for number, each in enumerate(job.late.ranks)}
    order_of = np.array([place.get(member, len(place)) for member in range(len(job.members))])
    used = np.flatnonzero(job.figures.steps > 0)
    share = job.figures.times[COLLECTIVES] / np.maximum(job.figures.times[STEP], 1)
    order = used[np.lexsort((used, share[used], order_of[used]))]
    return tuple(RankRow(member, int(late[member])) for member in order.tolist())


def with_runs(job: Job, folder: Path, rows: Sequence[RankRow]) -> tuple[RankRow, ...]:
    """The rows with their runs, of the first GPU of each rank, on the clock of the job where there is one."""
    wanted = {row.member for row in rows}
    traces = sorted({job.members[member].trace for member in wanted})
    frame = with_base(folder, read(folder, "timeline", filters=[("trace", "in", traces)]))
    frame = frame.assign(member=member_column(frame, job.members))
    runs = {member: mine for member, mine in frame.groupby("member", sort=True) if member in wanted}
    return tuple(
        RankRow(row.member, row.late_ns, tuple(_runs(job, row.member, runs[row.member]) if row.member in runs else ()))
        for row in rows
    )


def shown_step(job: Job) -> int | None:
    """The step to look at: one in which the latest rank is as late as it mostly is, else the middle one."""
    if job.late.ranks:
        rows = job.arrived.rows
        behind = job.arrived.behind_ns(rows.start_ns)
        mine = (rows.member == job.late.ranks[0].member) & (behind > 0)
        late = job.labels.iloc[rows.collective[mine]][["step"]].assign(late_ns=behind[mine]).dropna()
        by_step = late.groupby("step")["late_ns"].sum().sort_values(kind="stable")
        if len(by_step):
            return int(by_step.index[(len(by_step) - 1) // 2])
    steps = sorted(set(job.steps["step"].dropna().tolist()))
    return int(steps[len(steps) // 2]) if steps else None


def of_step(rows: Sequence[RankRow], step: int | None, *, one_clock: bool) -> tuple[RankRow, ...]:
    """What all ranks did while any of them was in a step, whose host may be far ahead of its GPU.

    Without a common clock, the step of each rank by itself, from 0 on.
    """
    mine = [[run for run in row.runs if run.step == step] for row in rows]
    if not one_clock:
        return tuple(_moved(row, runs) for row, runs in zip(rows, mine, strict=True))
    begin = min((run.begin_ns for runs in mine for run in runs), default=0)
    end = max((run.end_ns for runs in mine for run in runs), default=0)
    return tuple(RankRow(row.member, row.late_ns, tuple(_clipped(row.runs, begin, end))) for row in rows)


def _moved(row: RankRow, runs: Sequence[Run]) -> RankRow:
    zero = runs[0].begin_ns if runs else 0
    moved = (Run(run.step, run.part, run.begin_ns - zero, run.end_ns - zero) for run in runs)
    return RankRow(row.member, row.late_ns, tuple(moved))


def _clipped(runs: Sequence[Run], begin: int, end: int) -> Iterator[Run]:
    for run in runs:
        first, last = max(run.begin_ns, begin), min(run.end_ns, end)
        if first < last:
            yield Run(run.step, run.part, first, last)


def _runs(job: Job, member: int, frame: pandas.DataFrame) -> Iterator[Run]:
    first = frame[frame["device"].fillna(-1) == frame["device"].fillna(-1).min()].sort_values("start_ns", kind="stable")
    shift, waiting = int(job.clocks.offset_ns[member]), _waiting(job, member)
    for row in first[["step", "part", "start_ns", "end_ns"]].to_dict("records"):
        step = int(row["step"]) if isinstance(row["step"], int) else None
        begin, end = int(row["start_ns"]) - shift, int(row["end_ns"]) - shift
        if row["part"] != COLLECTIVES or TRANSFER not in job.figures.times:
            yield Run(step, str(row["part"]), begin, end)
            continue
        whole = Spans(np.array([begin]), np.array([end]))
        split = [(WAITING, intersect(whole, waiting)), (TRANSFER, subtract(whole, waiting))]
        pieces = [(at, until, name) for name, spans in split for at, until in _pairs(spans)]
        yield from (Run(step, name, at, until) for at, until, name in sorted(pieces))


def _waiting(job: Job, member: int) -> Spans:
    """When a member waited in collectives for the last rank."""
    rows = job.arrived.rows
    mine = np.flatnonzero((rows.member == member) & job.arrived.counts[rows.collective])
    arrival: Int64 = job.arrived.arrival_ns[rows.collective[mine]]
    return union(rows.start_ns[mine], np.maximum(arrival, rows.start_ns[mine]))


def _pairs(spans: Spans) -> list[tuple[int, int]]:
    return list(zip(spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True))
