"""A job: everything that the reduce finds out about its ranks together, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.fleet.absent import Absent, absent, may_take_part, without_steps
from overlapscope.fleet.clocks import Clocks, align
from overlapscope.fleet.columns import integers, some_rows
from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.exposed import Exposed, exposed
from overlapscope.fleet.figures import COLLECTIVES, STEP, Figures, Times, collective_times, figures, read
from overlapscope.fleet.jobs import JobTraces
from overlapscope.fleet.late_ranks import Compared
from overlapscope.fleet.lateness import Arrivals, arrivals
from overlapscope.fleet.matching import Matched, shared
from overlapscope.fleet.ranks import Member, Ranks
from overlapscope.fleet.record_ends import within_records
from overlapscope.fleet.shared_steps import SharedSteps, shared_steps
from overlapscope.fleet.stragglers import Late, stragglers
from overlapscope.model.columns import NO_ID, Bool, Int64

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Job:
    """The ranks of a job, their clocks, the collectives that they have in common, and who is late.

    ``absent`` says in which matched collectives a rank without a whole trace may be the last; where one may, nobody
    knows which part of a collective is waiting. ``labels`` has for each matched collective its operation, group, step
    and place; ``common`` says which are of steps that all ranks have. ``steps``, ``idle`` and ``findings`` have the
    rows of all ranks, with the number of the member.
    ``waited_for`` is the rank that the others most likely wait for where clocks are not aligned; None where they are,
    or where ranks are even. ``exposed`` has exposed times by each definition. ``number`` is 1 for the only job of its
    traces; where there are several, ``by`` says what tells them apart and ``name`` which one this is.
    """

    number: int
    by: tuple[str, ...]
    name: str
    traces: pandas.DataFrame
    ranks: Ranks
    clocks: Clocks
    arrived: Arrivals
    absent: Absent
    labels: pandas.DataFrame
    common: SharedSteps
    figures: Figures
    steps: pandas.DataFrame
    idle: pandas.DataFrame
    findings: pandas.DataFrame
    late: Late
    waited_for: int | None
    exposed: tuple[Exposed, ...]

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
    def judged(self) -> Bool:
        """The collectives of which it is known who arrives last."""
        return self.arrived.counts & self.absent.complete

    @property
    def on_one_clock(self) -> bool:
        """Whether there are collectives by whose begins ranks can be compared."""
        return bool(self.arrived.counts.any())


@dataclass(frozen=True)
class _Tables:
    """The rows of one job in the tables of a folder."""

    folder: Path
    number: int
    members: Sequence[Member]

    def read(self, table: str, columns: list[str] | None = None) -> pandas.DataFrame:
        return read(self.folder, table, columns, [("job", "=", self.number)])

    def of_members(self, table: str, columns: list[str] | None = None) -> pandas.DataFrame:
        """A table with a column ``member``: -1 for rows of traces that are not used."""
        frame = self.read(table, columns)
        return frame.assign(member=member_column(frame, self.members))


def job_of(folder: Path, ranks: Ranks, config: FleetConfig, number: int = 1, found: JobTraces | None = None) -> Job:
    """Compare the ranks of the job with this number in the tables of a folder."""
    tables = _Tables(folder, number, ranks.members)
    matched = _matched(tables)
    clocks = align(matched, config)
    arrived = arrivals(matched, clocks, config)
    labels = _labels(tables.folder, matched)
    del matched
    traces = tables.read(
        "traces", ["trace", "rank", "source", "status", "code", "error", "lost", "content", "world_size"]
    )
    damaged = set(traces.loc[traces["status"] == "damaged", "trace"].tolist())
    steps, idle = with_base(folder, tables.of_members("steps")), tables.of_members("idle")
    of_steps = figures(steps, idle, len(ranks.members))
    numbers = labels["step"].fillna(NO_ID).to_numpy(np.int64)
    common = shared_steps(steps, arrived, numbers, clocks.part, of_steps.steps)
    groups = labels["group"].fillna("").tolist()
    common = within_records(
        common, steps, arrived, clocks, lambda number: may_take_part(ranks.members[number].rank, groups), config
    )
    traced = absent(ranks, damaged, arrived.rows, groups)
    unknown = without_steps(traced, ranks.members, groups, common)
    times = dict(of_steps.times)
    complete = unknown.complete | (traced.complete & ~common.shared)  # of what times are told
    if complete[arrived.counts].all():
        times |= collective_times(arrived, common.shared, common.steps)
    of_steps = Figures(of_steps.steps, times, of_steps.idle)
    copies, findings, devices, definitions = map(tables.of_members, ("copies", "findings", "devices", "definitions"))
    beside = integers(folder, "collectives", "kernels_ns")[0][arrived.rows.row]
    begins = _begins(steps, arrived, clocks, common.shared)
    compared = Compared(arrived, of_steps, copies, labels, begins, beside, clocks.part, common)
    return Job(
        number=number,
        by=found.by if found else (),
        name=found.name if found else "",
        traces=traces,
        ranks=ranks,
        clocks=clocks,
        arrived=arrived,
        absent=unknown,
        labels=labels,
        common=common,
        figures=of_steps,
        steps=steps,
        idle=idle,
        findings=findings,
        late=stragglers(compared, config) if arrived.counts.any() else Late(),
        waited_for=None if arrived.counts.any() else _waited_for(of_steps, config),
        exposed=exposed(devices, definitions),
    )


def member_column(frame: pandas.DataFrame, members: Sequence[Member]) -> Int64:
    """The number of the member that each row of a table is of; -1 for a trace that is not used."""
    process = frame["process"]
    known = process.notna().to_numpy(np.bool_)
    return members_of(frame["trace"].to_numpy(np.int64), process.fillna(0).to_numpy(np.int64), known, members)


def members_of(trace: Int64, process: Int64, known: Bool, members: Sequence[Member]) -> Int64:
    """The number of the member of each row, by its trace and its process where this is known; -1 for one not used."""
    numbers = {(member.trace, member.process): number for number, member in enumerate(members) if member.used}
    other = (trace[1:] != trace[:-1]) | (process[1:] != process[:-1]) | (known[1:] != known[:-1])
    first = np.append(np.flatnonzero(np.append(len(trace) > 0, other)), len(trace))  # of the rows of one process
    found = [
        numbers.get((int(trace[row]), int(process[row]) if known[row] else None), -1) for row in first[:-1].tolist()
    ]
    return np.repeat(np.array(found, np.int64), np.diff(first))


def _matched(tables: _Tables) -> Matched:
    """The matched collectives; each column is read when it is needed, since there may be millions of rows."""
    folder, members = tables.folder, tables.members
    trace, _ = integers(folder, "collectives", "trace")
    member = members_of(trace, *integers(folder, "collectives", "process"), members)
    collective, rows = shared(*integers(folder, "collectives", "match"), member)
    shift = integers(folder, "traces", "base_time_ns")[0][trace[rows]]
    start, end = (integers(folder, "collectives", name)[0][rows] + shift for name in ("start_ns", "end_ns"))
    found = int(collective[-1]) + 1 if len(collective) else 0
    return Matched(collective, member[rows], rows, start, end, found, len(members))


def with_base(folder: Path, frame: pandas.DataFrame) -> pandas.DataFrame:
    """The table with Unix times, where a trace says which time its clock begins at."""
    base = read(folder, "traces", ["trace", "base_time_ns"]).set_index("trace")["base_time_ns"].fillna(0)
    shift = base.reindex(frame["trace"]).to_numpy(np.int64)
    return frame.assign(start_ns=frame["start_ns"] + shift, end_ns=frame["end_ns"] + shift)


def _labels(folder: Path, matched: Matched) -> pandas.DataFrame:
    """Operation, group, sequence number, step and place of each matched collective, from its first rank."""
    _, first = np.unique(matched.collective, return_index=True)
    return some_rows(folder, "collectives", ["op", "group", "sequence", "step", "position"], matched.row[first])


def _begins(steps: pandas.DataFrame, arrived: Arrivals, clocks: Clocks, shared: Bool) -> Int64:
    """When each member begins what is replayed, on aligned clocks.

    With its first step, or its first collective, or where its last collective before the first shared one ends.
    """
    rows, replayed = arrived.rows, shared[arrived.rows.collective]
    begin = np.full(rows.members, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(begin, rows.member[replayed], rows.start_ns[replayed])
    before = ~replayed & (rows.end_ns <= begin[rows.member])
    numbered = steps[(steps["member"] >= 0) & steps["step"].notna()]
    first = numbered.groupby("member")["start_ns"].min()
    members = first.index.to_numpy(np.int64)
    begin[members] = np.minimum(begin[members], first.to_numpy(np.int64) - clocks.offset_ns[members])
    np.maximum.at(begin, rows.member[before], rows.end_ns[before])
    return begin


def _waited_for(of_steps: Figures, config: FleetConfig) -> int | None:
    """The member that waits least in collectives, where others wait for a much larger share of their time."""
    times: Times = of_steps.times
    used = np.flatnonzero((of_steps.steps > 0) & (times[STEP] > 0))
    if len(used) < 2 or not times[COLLECTIVES].any():  # noqa: PLR2004 - two ranks, to compare them
        return None
    share = times[COLLECTIVES][used] / times[STEP][used]
    return int(used[np.argmin(share)]) if share.max() - share.min() >= config.uneven else None
