"""What there is to say about a job before its answer: its size, what is wrong with its traces, and its clocks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import PurePath
from textwrap import shorten
from typing import Any

import numpy as np

from overlapscope.fleet.figures import COLLECTIVES
from overlapscope.fleet.job import Job
from overlapscope.fleet.numbers import distinct_paths, number_list, rank_list
from overlapscope.fleet.ranks import label
from overlapscope.fleet.schema import NO_GPU_WORK
from overlapscope.formatting import counted, safe, time

_MOST = 6  # problems of a kind
_MOST_OTHERS = 2  # traces of a rank that do not count
_LONGEST, _LEAST, _LONGEST_NAME = 400, 100, 100  # characters of what is wrong with traces, and of a name
KEEP, REDUCE = "with -o FOLDER, ", "after overlapscope fleet reduce, "
"""What to do first where no folder keeps the tables, and where shards still write to it."""
NOT_ALIGNED = (
    "Clocks are not aligned: too few collectives match. Ranks are compared by durations only, and nothing is said "
    "about who arrives last."
)


def table_has_all(table: str, first: str = "") -> str:
    """Where the rest of a list is; ``first`` says what to do before the table is there."""
    return f"{first}{table}.parquet has all"


def about(job: Job, first: str = "") -> Iterator[str]:
    """All of it."""
    yield size_line(job)
    yield from problems(job, first)
    yield from clock_lines(job)


def size_line(job: Job) -> str:
    """How many traces, ranks and steps there are."""
    used = [member for member in job.members if member.used]
    of = f" of {job.ranks.world_size}" if job.ranks.world_size else ""
    text = counted(len(job.traces), "trace")
    text += f", {len(used)}{of} ranks" if any(member.rank is not None for member in used) else ""
    hosts = {member.host for member in used if member.host} or {member.node for member in used} - {None}
    text += f" on {counted(len(hosts), 'host')}" if hosts else ""
    steps = job.figures.steps[job.figures.steps > 0]
    if len(steps):
        text += f", {counted(int(np.median(steps)), 'step')} of {time(job.figures.step_ns)}"
    return text + "."


def problems(job: Job, first: str = "") -> Iterator[str]:
    """Traces that failed or lost data, and ranks that are missing or there twice; ``first`` as in `table_has_all`."""
    yield from bad_traces(job.traces.to_dict("records"), first)
    if job.ranks.missing:
        yield f"no trace of {rank_list(job.ranks.missing)}"
    used = [number for number, member in enumerate(job.members) if member.used]
    without = [job.members[number] for number in used if not job.figures.steps[number]]
    if 0 < len(without) < len(used):
        ranks = [member.rank for member in without if member.rank is not None]
        yield f"no whole step of {rank_list(ranks) if ranks else counted(len(without), 'trace')}: in no average"
    yield from _lacking(job)
    yield from _outside(job)
    yield from _twice(job)


def _lacking(job: Job) -> Iterator[str]:
    """Ranks that begin to record later than others, or end earlier, by the steps that they lack."""
    members: dict[tuple[int, ...], list[int]] = {}
    for member, steps in job.common.lacking.items():
        members.setdefault(steps, []).append(member)
    for steps, lacking in list(members.items())[:_MOST]:
        names = _names([job.members[member].rank for member in lacking], len(lacking))
        lack, it = ("lacks", "it") if len(lacking) == 1 else ("lack", "them")
        which = f"{'step' if len(steps) == 1 else 'steps'} {number_list(steps)}"
        yield f"{names} {lack} {which}, in which the others may wait for {it}"
    if len(members) > _MOST:
        yield f"{len(members) - _MOST} more sets of ranks lack other steps: steps.parquet has all"


def _outside(job: Job) -> Iterator[str]:
    """Ranks whose record, without steps, begins later than those of others, or ends earlier."""
    found = sorted(job.common.outside.items(), key=lambda entry: -int(entry[1].sum()))
    for member, mine in found[:_MOST]:
        count = counted(int(mine.sum()), "collective")
        who = label(job.members[member])
        yield f"{who} lacks {count} that others recorded before it began or after it ended: they may wait for it there"
    if len(found) > _MOST:
        yield f"and {len(found) - _MOST} more lack such collectives"


def _names(ranks: Sequence[int | None], traces: int) -> str:
    known = [rank for rank in ranks if rank is not None]
    return rank_list(known) if len(known) == traces else counted(traces, "trace")


def _twice(job: Job) -> Iterator[str]:
    """Ranks with several traces, and which of these counts."""
    twice, used = job.ranks.twice, {member.source for member in job.members if member.used}
    for rank, sources in list(twice.items())[:_MOST]:
        first, *others = distinct_paths(sources)
        counts = f"{first} counts, not {', '.join(others[:_MOST_OTHERS])}" if sources[0] in used else "none can be used"
        yield f"rank {rank} has {len(sources)} traces: {counts}"
    if len(twice) > _MOST:
        yield f"several traces also for {rank_list(list(twice)[_MOST:])}"


_BAD = (
    ("failed", "cannot be used", "cannot be used"),
    (NO_GPU_WORK, "has no GPU work", "have no GPU work"),
    ("damaged", "is damaged", "are damaged"),
)


def bad_traces(rows: Sequence[Mapping[Hashable, Any]], first: str = "") -> Iterator[str]:
    """Traces that failed or lost data, by their rows in the table; ``first`` as in `table_has_all`."""
    for status, one, several in _BAD:
        found = [row for row in rows if row["status"] == status]
        names: dict[str, list[str]] = {}
        for row in found[:_MOST]:
            names.setdefault(str(row["lost"] if status == "damaged" else row["error"]), []).append(_called(row))
        for why, called in names.items():
            words = one if len(called) == 1 else several
            room = max(_LONGEST - len(", ".join(called[1:])), _LEAST)
            yield f"{', '.join(called)} {words}: {shorten(safe(why), room, placeholder=' …')}"
        if len(found) > _MOST:
            yield f"and {len(found) - _MOST} more {one}: {table_has_all('traces', first)}"


def _called(row: Mapping[Hashable, Any]) -> str:
    name, rank = safe(PurePath(row["source"]).name, _LONGEST_NAME), row.get("rank")
    return f"{name} (rank {rank})" if isinstance(rank, int) else name


def clock_lines(job: Job) -> Iterator[str]:
    """How well clocks are aligned; nothing about traces that are no ranks and share no collectives."""
    used = np.array([member.used for member in job.members], np.bool_)
    aligned = job.clocks.aligned & used
    if not job.on_one_clock and all(member.rank is None for member in job.members):
        return
    if not job.on_one_clock:
        yield NOT_ALIGNED
        yield from _who_may_be_last(job)
        return
    judged = int(job.judged.sum())
    text = f"Clocks aligned on the ends of {counted(job.arrived.rows.collectives, 'matched collective')}, within "
    shown = f"{judged:,} of them show" if judged else "none of them shows"
    text += f"{time(job.clocks.largest_error_ns)}; {shown} who arrives last."
    left = [member.rank for member, one in zip(job.members, aligned, strict=True) if member.used and not one]
    if left:
        text += f" Not aligned, compared by durations only: {counted(len(left), 'rank')}."
    yield text
    yield from _who_may_be_last(job)


def _who_may_be_last(job: Job) -> Iterator[str]:
    """The ranks without a whole trace, for which the others may wait."""
    absent = job.absent
    if not absent.ranks or not job.figures.times[COLLECTIVES].any():
        return
    lack = "no whole trace" if absent.cut else "no trace"
    may = f"has {lack} and may be the one" if len(absent.ranks) == 1 else f"have {lack}; one of them may be the one"
    yield f"{rank_list(absent.ranks).capitalize()} {may} that the others wait for."
