"""A job as plain data: everything that the reduce finds out about its ranks together, and what each rank did when."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from overlapscope.fleet import tables
from overlapscope.fleet.absent import Absent, Groups, SharedSteps, absent, shared_steps, within_records, without_steps
from overlapscope.fleet.clocks import Arrivals, Clocks, Matched, align, arrivals, shared
from overlapscope.fleet.figures import Exposed, Figures, collective_times, exposed, figures, numbered
from overlapscope.fleet.jobs import JobTraces
from overlapscope.fleet.ranks import Member, Ranks, ranks_of, unranked
from overlapscope.fleet.rows import part_of
from overlapscope.fleet.schema import COLLECTIVES, STEP, TRANSFER, WAITING
from overlapscope.fleet.store import Outcome, write_part
from overlapscope.fleet.stragglers import Late, stragglers
from overlapscope.measure.spans import Spans, intersect, subtract, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.report.data import Audit

ALIKE = 0.02
"""Of the step, up to which ranks with the same findings are one row of a map: less is not seen in it."""


@dataclass(frozen=True, eq=False)
class Job:
    """The ranks of a job, their clocks, and the collectives that they have in common.

    ``absent`` says in which matched collectives a rank without a whole trace may be the last; where one may, nobody
    knows which part of a collective is waiting. ``labels`` has for each matched collective its operation, group, step
    and place; ``common`` says which are of steps that all ranks have. ``steps``, ``idle``, ``findings`` and ``copies``
    have the rows of all ranks, with the number of the member. ``begin_ns`` is when each member begins what is replayed,
    ``beside_ns`` the time of other kernels beside the collective of each row. ``exposed`` has exposed times by each
    definition. ``number`` is 1 for the only job of its traces; where there are several, ``by`` says what tells them
    apart and ``name`` which one this is.
    """

    number: int
    by: tuple[str, ...]
    name: str
    traces: pd.DataFrame
    ranks: Ranks
    clocks: Clocks
    arrived: Arrivals
    absent: Absent
    labels: pd.DataFrame
    common: SharedSteps
    figures: Figures
    steps: pd.DataFrame
    idle: pd.DataFrame
    findings: pd.DataFrame
    copies: pd.DataFrame
    begin_ns: Int64
    beside_ns: Int64
    exposed: tuple[Exposed, ...]

    @cached_property
    def late(self) -> Late:
        """The late ranks, and what the job would save without their lateness."""
        return stragglers(self)

    @property
    def members(self) -> Sequence[Member]:
        """All processes of all traces, by rank."""
        return self.ranks.members

    @property
    def late_ns(self) -> Int64:
        """The lateness of each member in an average step; 0 for one that is not late."""
        late = np.zeros(len(self.members), np.int64)
        late[[each.member for each in self.late.ranks]] = [each.late_ns // each.steps for each in self.late.ranks]
        return late

    @property
    def on_one_clock(self) -> bool:
        """Whether there are collectives by whose begins ranks can be compared."""
        return bool(self.arrived.counts.any())


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


Fold = tuple[RankRow, ...]
"""Ranks with the same findings whose times differ by little; the first stands for them."""


def job_of(folder: Path, ranks: Ranks, number: int = 1, traces: JobTraces | None = None) -> Job:
    """Compare the ranks of the job with this number in the tables of a folder."""

    def rows(table: str) -> pd.DataFrame:
        return tables.with_member(tables.read(folder, table, filters=[("job", "=", number)]), ranks.members)

    matched = _matched(folder, ranks.members)
    clocks = align(matched)
    arrived = arrivals(matched, clocks)
    labels = _labels(folder, matched)
    del matched
    columns = ["trace", "rank", "source", "status", "code", "error", "lost", "content", "world_size"]
    table = tables.read(folder, "traces", columns, [("job", "=", number)])
    steps, idle = tables.with_base(folder, rows("steps")), rows("idle")
    groups = Groups(labels["group"].fillna("").tolist())
    of_steps = figures(steps, idle, len(ranks.members))
    step_numbers = labels["step"].fillna(NO_ID).to_numpy(np.int64)
    common = shared_steps(steps, arrived, step_numbers, clocks.part, of_steps.steps)
    common = within_records(common, steps, arrived, clocks, ranks, groups)
    damaged = set(table.loc[table["status"] == "damaged", "trace"].tolist())
    traced = absent(ranks, damaged, arrived.rows, groups)
    unknown = without_steps(traced, ranks, groups, common)
    complete = unknown.complete | (traced.complete & ~common.shared)  # of what times are told
    if complete[arrived.counts].all():
        of_steps = replace(of_steps, times={**of_steps.times, **collective_times(arrived, common.shared, common.steps)})
    return Job(
        number=number,
        by=traces.by if traces else (),
        name=traces.name if traces else "",
        traces=table,
        ranks=ranks,
        clocks=clocks,
        arrived=arrived,
        absent=unknown,
        labels=labels,
        common=common,
        figures=of_steps,
        steps=steps,
        idle=idle,
        findings=rows("findings"),
        copies=rows("copies"),
        begin_ns=_begins(steps, arrived, clocks, common.shared),
        beside_ns=tables.integers(folder, "collectives", "kernels_ns")[0][arrived.rows.row],
        exposed=exposed(rows("devices"), rows("definitions")),
    )


def job_of_audits(audits: Sequence[Audit]) -> Job:
    """Compare the traces as ranks of a job; without ranks where several are of the same one, as before and after a fix.

    Raises:
        OutputError: there is no room for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="overlapscope-") as name:
        folder, outcomes = Path(name), []
        (folder / "parts").mkdir()
        for number, audited in enumerate(audits):
            outcomes.append(Outcome(audited.trace.metadata.path, f"{number:08}"))
            write_part(folder, outcomes[-1].key, part_of(audited, ""))
        infos = tables.trace_infos(folder, outcomes)
        ranks = ranks_of(infos)
        ranks = unranked(infos) if ranks.twice else ranks
        tables.gather(folder, outcomes, [ranks.members])
        return job_of(folder, ranks)


def _matched(folder: Path, members: Sequence[Member]) -> Matched:
    """The matched collectives; each column is read when it is needed, since there may be millions of rows."""
    trace, _ = tables.integers(folder, "collectives", "trace")
    member = tables.members_of(trace, *tables.integers(folder, "collectives", "process"), members)
    collective, rows = shared(*tables.integers(folder, "collectives", "match"), member)
    shift = tables.integers(folder, "traces", "base_time_ns")[0][trace[rows]]
    start, end = (tables.integers(folder, "collectives", name)[0][rows] + shift for name in ("start_ns", "end_ns"))
    count = int(collective[-1]) + 1 if len(collective) else 0
    return Matched(collective, member[rows], rows, start, end, count, len(members))


def _labels(folder: Path, matched: Matched) -> pd.DataFrame:
    """Operation, group, sequence number, step and place of each matched collective, from its first rank."""
    _, first = np.unique(matched.collective, return_index=True)
    return tables.rows_of(folder, "collectives", ["op", "group", "sequence", "step", "position"], matched.row[first])


def _begins(steps: pd.DataFrame, arrived: Arrivals, clocks: Clocks, shared: Bool) -> Int64:
    """The begin of each member's replayed work, on aligned clocks.

    With its first step, or its first collective, or where its last collective before the first shared one ends.
    """
    rows, replayed = arrived.rows, shared[arrived.rows.collective]
    begin = np.full(rows.members, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(begin, rows.member[replayed], rows.start_ns[replayed])
    before = ~replayed & (rows.end_ns <= begin[rows.member])
    first = numbered(steps).groupby("member")["start_ns"].min()
    members = first.index.to_numpy(np.int64)
    begin[members] = np.minimum(begin[members], first.to_numpy(np.int64) - clocks.offset_ns[members])
    np.maximum.at(begin, rows.member[before], rows.end_ns[before])
    return begin


def rank_rows(job: Job) -> tuple[RankRow, ...]:
    """All ranks that are compared, without their runs: late ones first, then those that wait least in collectives."""
    late_ns, used = job.late_ns, job.figures.used
    place = {each.member: number for number, each in enumerate(job.late.ranks)}
    places = np.array([place.get(member, len(place)) for member in used.tolist()])
    share = (job.figures.times[COLLECTIVES] / np.maximum(job.figures.times[STEP], 1))[used]
    return tuple(RankRow(member, int(late_ns[member])) for member in used[np.lexsort((used, share, places))].tolist())


def folded(job: Job, rows: Sequence[RankRow]) -> tuple[Fold, ...]:
    """The rows in their order, each with those after it that are alike.

    Alike are ranks with the same findings whose lateness and whose every time in an average step, that of kernels, of
    collectives, of copies and idle, differ from those of the first by less than a share of its step.
    """
    findings = {
        int(str(member)): frozenset(zip(of_member["code"], of_member["kind"], strict=True))
        for member, of_member in job.findings[["member", "code", "kind"]].groupby("member")
    }
    folds: dict[object, list[list[RankRow]]] = {}
    for row in rows:
        same_findings = folds.setdefault((findings.get(row.member), bool(row.late_ns)), [])
        if same_findings and _alike(job, same_findings[-1][0], row):
            same_findings[-1].append(row)
        else:
            same_findings.append([row])
    place = {row.member: number for number, row in enumerate(rows)}
    every = (tuple(alike) for same_findings in folds.values() for alike in same_findings)
    return tuple(sorted(every, key=lambda fold: place[fold[0].member]))


def _alike(job: Job, one: RankRow, other: RankRow) -> bool:
    times = job.figures.times
    distances = [abs(int(values[one.member]) - int(values[other.member])) for values in times.values()]
    return max(*distances, abs(one.late_ns - other.late_ns)) <= ALIKE * int(times[STEP][one.member])


def with_runs(job: Job, folder: Path, rows: Sequence[RankRow]) -> tuple[RankRow, ...]:
    """The rows with their runs, of the first GPU of each rank, on the clock of the job where there is one."""
    traces = sorted({job.members[row.member].trace for row in rows})
    frame = tables.with_base(folder, tables.read(folder, "timeline", filters=[("trace", "in", traces)]))
    by_member = dict(iter(tables.with_member(frame, job.members).groupby("member", sort=True)))
    return tuple(
        replace(row, runs=tuple(_runs(job, row.member, by_member[row.member]))) if row.member in by_member else row
        for row in rows
    )


def shown_step(job: Job) -> int | None:
    """The step to look at: one in which the latest rank is as late as it mostly is, else the middle one."""
    if job.late.ranks:
        rows = job.arrived.rows
        behind = job.arrived.behind_ns(rows.start_ns)
        latest = (rows.member == job.late.ranks[0].member) & (behind > 0)
        late = job.labels.iloc[rows.collective[latest]][["step"]].assign(late_ns=behind[latest]).dropna()
        by_step = late.groupby("step")["late_ns"].sum().sort_values(kind="stable")
        if len(by_step):
            return int(by_step.index[(len(by_step) - 1) // 2])
    steps = sorted(set(job.steps["step"].dropna().tolist()))
    return int(steps[len(steps) // 2]) if steps else None


def of_step(rows: Sequence[RankRow], step: int | None, *, one_clock: bool) -> tuple[RankRow, ...]:
    """The runs of all ranks while any of them was in a step, whose host may be far ahead of its GPU.

    Without a common clock, the step of each rank by itself, from 0 on.
    """
    runs_of_step = [[run for run in row.runs if run.step == step] for row in rows]
    if one_clock:
        begin = min((run.begin_ns for runs in runs_of_step for run in runs), default=0)
        end = max((run.end_ns for runs in runs_of_step for run in runs), default=0)
        return tuple(replace(row, runs=tuple(_clipped(row.runs, begin, end))) for row in rows)
    return tuple(
        replace(row, runs=tuple(_clipped(runs, runs[0].begin_ns, runs[-1].end_ns, runs[0].begin_ns)) if runs else ())
        for row, runs in zip(rows, runs_of_step, strict=True)
    )


def _clipped(runs: Sequence[Run], begin: int, end: int, zero: int = 0) -> Iterator[Run]:
    """The parts of runs between two times, in times from ``zero`` on."""
    for run in runs:
        first, last = max(run.begin_ns, begin), min(run.end_ns, end)
        if first < last:
            yield Run(run.step, run.part, first - zero, last - zero)


def _runs(job: Job, member: int, frame: pd.DataFrame) -> Iterator[Run]:
    devices = frame["device"].fillna(-1)
    first = frame[devices == devices.min()].sort_values("start_ns", kind="stable")
    shift, waiting = int(job.clocks.offset_ns[member]), _waiting(job, member)
    for row in first[["step", "part", "start_ns", "end_ns"]].to_dict("records"):
        step = int(row["step"]) if isinstance(row["step"], int) else None
        begin, end = int(row["start_ns"]) - shift, int(row["end_ns"]) - shift
        if row["part"] != COLLECTIVES or TRANSFER not in job.figures.times:
            yield Run(step, str(row["part"]), begin, end)
            continue
        whole = Spans(np.array([begin]), np.array([end]))
        pieces = [
            Run(step, name, at, until)
            for name, spans in ((WAITING, intersect(whole, waiting)), (TRANSFER, subtract(whole, waiting)))
            for at, until in zip(spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True)
        ]
        yield from sorted(pieces, key=lambda run: run.begin_ns)


def _waiting(job: Job, member: int) -> Spans:
    """When a member waited in collectives for the last rank."""
    rows = job.arrived.rows
    judged = np.flatnonzero((rows.member == member) & job.arrived.counts[rows.collective])
    arrival = job.arrived.arrival_ns[rows.collective[judged]]
    return union(rows.start_ns[judged], np.maximum(arrival, rows.start_ns[judged]))
