"""What is said of a job, sentence by sentence: its size, what is wrong with its traces, its clocks, its late ranks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from os.path import commonpath
from pathlib import PurePath
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd

from overlapscope.diagnosis.finding import Severity
from overlapscope.fleet.job import Job
from overlapscope.fleet.jobs import HOST
from overlapscope.fleet.ranks import distinct_paths, label, labels, number_list, rank_list
from overlapscope.fleet.schema import COLLECTIVES, KERNELS, NO_GPU_WORK, STEP
from overlapscope.fleet.stragglers import Cause, CopiesDiffer, Place, Straggler
from overlapscope.formatting import counted, numbers, safe, share, time

NOT_ALIGNED = (
    "Clocks are not aligned: too few collectives match. Ranks are compared by durations only, and nothing is said "
    "about who arrives last."
)
NOBODY_LATE = "No rank is late for 1 % of the time or more."
DEFINITION = "Late: after the arrival of the median rank; in a step, the sum over its collectives."
_NO_CAUSE = (
    "Nothing takes clearly longer in it than in the other ranks: it may have begun late, or what differs is not "
    "recorded."
)
_BAD = (
    ("failed", "cannot be used", "cannot be used"),
    (NO_GPU_WORK, "has no GPU work", "have no GPU work"),
    ("damaged", "is damaged", "are damaged"),
)
UNEVEN = 0.1
"""A difference in the share of time in exposed collectives, above which the others most likely wait for a rank.

It lies between the rank that waits least and the one that waits most, and counts where clocks are not aligned.
"""
_EXPOSED_COLLECTIVE = "OVL016"
_MOST = 6  # problems of a kind
_MOST_OTHERS = 2  # traces of a rank that do not count
_MOST_CAUSES = 2  # of a late rank
_MOST_NAMED, _MOST_FILES = 32, 8  # runs of late ranks, and files of ones without a number, in a list of all
_LONGEST, _LEAST, _LONGEST_NAME = 400, 100, 100  # characters of what is wrong with traces, and of a name
_NEXT_TO_NOTHING = 0.01  # of what fixing all late ranks saves


def table_has_all(table: str, first: str = "") -> str:
    """The words for a table that has the rest of a list; ``first`` says what to do before it is there."""
    return f"{first}{table}.parquet has all"


def separation(jobs: Sequence[Job]) -> Iterator[str]:
    """Sentences about how several jobs were told apart; none for one job."""
    if len(jobs) > 1:
        by = list(dict.fromkeys(each for job in jobs for each in job.by))
        traces = counted(sum(len(job.traces) for job in jobs), "trace")
        yield (
            f"{traces} of {len(jobs)} jobs, or of one at several times: told apart by {' and '.join(by)}. Each is "
            "compared by itself."
        )
        if HOST in by and any(job.ranks.missing for job in jobs):
            yield "! By host, a job of several hosts falls apart: give each job a folder of its own."


def title(job: Job, jobs: Sequence[Job]) -> str:
    """The title of one of several jobs: its number, what tells it apart, and where its traces lie."""
    folder, whole = _folder([job]), _folder(jobs)
    within = PurePath(folder).relative_to(whole) if whole else folder
    where = f", in {within}" if folder not in {"", whole} else ""
    return f"Job {job.number} of {len(jobs)}: {job.name}{where}"


def _folder(jobs: Sequence[Job]) -> str:
    """The folder that has all traces; empty where some lie at URLs."""
    sources = [source for job in jobs for source in job.traces["source"]]
    if any("://" in source for source in sources):
        return ""
    return commonpath([str(PurePath(source).parent) for source in sources])


def size_line(job: Job) -> str:
    """A sentence about how many traces, ranks and steps there are."""
    used = [member for member in job.members if member.used]
    of = f" of {job.ranks.world_size}" if job.ranks.world_size else ""
    text = counted(len(job.traces), "trace")
    text += f", {len(used)}{of} ranks" if any(member.rank is not None for member in used) else ""
    hosts = {member.host for member in used if member.host} or {member.node for member in used} - {None}
    text += f" on {counted(len(hosts), 'host')}" if hosts else ""
    steps = job.figures.steps[job.figures.used]
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


def bad_traces(rows: Sequence[Mapping[Hashable, Any]], first: str = "") -> Iterator[str]:
    """Traces that failed or lost data, by their rows in the table; ``first`` as in `table_has_all`."""
    for status, one, several in _BAD:
        bad = [row for row in rows if row["status"] == status]
        names: dict[str, list[str]] = {}
        for row in bad[:_MOST]:
            name, rank = safe(PurePath(row["source"]).name, _LONGEST_NAME), row.get("rank")
            reason = str(row["lost"] if status == "damaged" else row["error"])
            names.setdefault(reason, []).append(f"{name} (rank {rank})" if isinstance(rank, int) else name)
        for reason, called in names.items():
            room = max(_LONGEST - len(", ".join(called[1:])), _LEAST)
            words = one if len(called) == 1 else several
            yield f"{', '.join(called)} {words}: {shorten(safe(reason), room, placeholder=' …')}"
        if len(bad) > _MOST:
            yield f"and {len(bad) - _MOST} more {one}: {table_has_all('traces', first)}"


def _lacking(job: Job) -> Iterator[str]:
    """Ranks that begin to record later than others, or end earlier, by the steps that they lack."""
    members: dict[tuple[int, ...], list[int]] = {}
    for member, steps in job.common.lacking.items():
        members.setdefault(steps, []).append(member)
    for steps, lacking in list(members.items())[:_MOST]:
        ranks = [rank for member in lacking if (rank := job.members[member].rank) is not None]
        names = rank_list(ranks) if len(ranks) == len(lacking) else counted(len(lacking), "trace")
        lack, it = ("lacks", "it") if len(lacking) == 1 else ("lack", "them")
        which = f"{'step' if len(steps) == 1 else 'steps'} {number_list(steps)}"
        yield f"{names} {lack} {which}, in which the others may wait for {it}"
    if len(members) > _MOST:
        yield f"{len(members) - _MOST} more sets of ranks lack other steps: steps.parquet has all"


def _outside(job: Job) -> Iterator[str]:
    """Ranks whose record, without steps, begins later than those of others, or ends earlier."""
    counts = {member: int(outside.sum()) for member, outside in job.common.outside.items()}
    for member, count in sorted(counts.items(), key=lambda entry: -entry[1])[:_MOST]:
        lacks = f"{label(job.members[member])} lacks {counted(count, 'collective')}"
        yield f"{lacks} that others recorded before it began or after it ended: they may wait for it there"
    if len(counts) > _MOST:
        yield f"and {len(counts) - _MOST} more lack such collectives"


def _twice(job: Job) -> Iterator[str]:
    """Ranks with several traces, and which of these counts."""
    twice, used = job.ranks.twice, {member.source for member in job.members if member.used}
    for rank, sources in list(twice.items())[:_MOST]:
        first, *others = distinct_paths(sources)
        counts = f"{first} counts, not {', '.join(others[:_MOST_OTHERS])}" if sources[0] in used else "none can be used"
        yield f"rank {rank} has {len(sources)} traces: {counts}"
    if len(twice) > _MOST:
        yield f"several traces also for {rank_list(list(twice)[_MOST:])}"


def clock_lines(job: Job) -> Iterator[str]:
    """Sentences about how well clocks are aligned; none about traces that are no ranks and share no collectives."""
    if not job.on_one_clock and all(member.rank is None for member in job.members):
        return
    if not job.on_one_clock:
        yield NOT_ALIGNED
    else:
        judged = int((job.arrived.counts & job.absent.complete).sum())
        text = f"Clocks aligned on the ends of {counted(job.arrived.rows.collectives, 'matched collective')}, within "
        shown = f"{judged:,} of them show" if judged else "none of them shows"
        text += f"{time(job.clocks.error_ns[job.clocks.aligned].max(initial=0))}; {shown} who arrives last."
        left = sum(member.used and not aligned for member, aligned in zip(job.members, job.clocks.aligned, strict=True))
        yield text + (f" Not aligned, compared by durations only: {counted(left, 'rank')}." if left else "")
    absent = job.absent
    if absent.ranks and job.figures.times[COLLECTIVES].any():
        lack = "no whole trace" if absent.cut else "no trace"
        may = f"has {lack} and may be the one" if len(absent.ranks) == 1 else f"have {lack}; one of them may be the one"
        yield f"{rank_list(absent.ranks).capitalize()} {may} that the others wait for."


def cost_lines(job: Job) -> Iterator[str]:
    """Sentences about the finding with the most time without a kernel in most ranks, if late ranks cost less.

    Its time is that of the median rank, and so is what it says. Exposed collectives are left out: that time may be
    waiting for late ranks.
    """
    costs = _costs(job)
    if costs.empty or costs.iloc[0] <= job.late.saving_ns:
        return
    code, kind = costs.index[0]
    rows = job.findings[(job.findings["code"] == code) & (job.findings["kind"] == kind)]
    of_member = rows.groupby("member")["no_kernel_ns"].sum()
    median = int((of_member - costs.iloc[0]).abs().idxmin())
    here, having = rows[rows["member"] == median], len(of_member)
    row = here.loc[here["no_kernel_ns"].idxmax()]
    of = sum(member.used for member in job.members)
    who = f"all {of} ranks have it" if having == of else f"{having} of {of} ranks have it"
    cost, rank = time(int(costs.iloc[0])), label(job.members[median])
    yield f"Most costly: {finding_title(row)}, GPU without a kernel for {cost} in the median rank; {who}."
    message, *fix = _said_of(row)
    yield f"In {rank}: {message}" if of > 1 else message
    yield from fix


def _costs(job: Job) -> pd.Series[Any]:
    """The time without a kernel of each finding that costs any, by kind, in the median rank; the largest first."""
    used = [number for number, member in enumerate(job.members) if member.used]
    rows = job.findings[job.findings["member"].isin(used)]
    rows = rows[~rows["severity"].isin([str(Severity.HAZARD), str(Severity.INFO)])]
    rows = rows[rows["code"] != _EXPOSED_COLLECTIVE]
    keys = ["code", "kind"]
    idle = rows.pivot_table(index=keys, columns="member", values="no_kernel_ns", aggfunc="sum", fill_value=0)
    ordered = np.sort(idle.reindex(columns=used, fill_value=0).to_numpy(np.int64), axis=1)
    costs = pd.Series(ordered[:, (len(used) - 1) // 2] if used else [], idle.index, np.int64)
    return costs[costs > 0].sort_values(ascending=False, kind="stable")


def late_groups(job: Job) -> list[list[Straggler]]:
    """Late ranks of one round with the same cause together, the latest first."""
    groups: dict[tuple[int, tuple[str, str] | None], list[Straggler]] = {}
    for late in job.late.ranks:
        cause = (late.causes[0].code, late.causes[0].kind) if late.causes else None
        groups.setdefault((late.round, cause), []).append(late)
    return list(groups.values())


def late_lines(job: Job, group: Sequence[Straggler]) -> Iterator[str]:
    """Sentences about late ranks with one cause: who, where and why, then the details."""
    latest, members = group[0], [job.members[late.member] for late in group]
    worth = dict(zip(job.late.ranks, savings(job), strict=True))
    idle = [job.members[late.member] for late in group[1:] if not worth[late]]
    idle = idle if len(group) > len(idle) + (not worth[latest]) else []
    named = [member for member in members if member not in idle]
    who = labels(named)
    if latest.round > 1:
        who = f"Once these are fixed, {who}"
    elif job.absent.ranks and latest is job.late.ranks[0]:
        who = f"Of the recorded ranks, {who}"
    elif members[0].rank is not None:  # a file's name stays as it is
        who = who.capitalize()
    verb = "are up to" if len(named) > 1 else "is"
    yield f"{who} {verb} {time(latest.place.late_ns)} late at {_where(latest.place)}{_in_short(job, group)}."
    if idle:
        yield f"So {'is' if len(idle) == 1 else 'are'} {labels(idle)}, but a fix there saves nothing."
    if latest.began_late_ns:
        one = "It" if len(group) == 1 else label(members[0]).capitalize()
        began = f"{one} began its first step {time(latest.began_late_ns)} after the median rank"
        yield f"{began}; what came before is not in the trace."
    if not latest.causes:
        yield _NO_CAUSE
    for number, cause in enumerate(latest.causes[:_MOST_CAUSES]):
        yield f"{'Also' if number else 'Cause'}: {_why(job, latest, cause)}"
        yield from () if number else _finding_lines(job, latest, cause)


def _where(place: Place) -> str:
    if place.of <= 1:
        return place_name(place)
    every = "every step" if place.steps == place.of else f"{place.steps} of {place.of} steps"
    return f"{place_name(place)} of {every}"


def _in_short(job: Job, group: Sequence[Straggler]) -> str:
    """The cause in a few words: the memory of their copies where that differs, else what the finding is called."""
    kinds = [[(each.direction, each.memory) for each in late.copies] for late in group]
    if kinds[0] and all(each == kinds[0] for each in kinds):
        its = "its" if len(group) == 1 else "their"
        return ": " + "; ".join(_memory(each, its) for each in group[0].copies)
    return f": {cause_name(job, group[0])}" if group[0].causes else ""


def _memory(copies: CopiesDiffer, its: str) -> str:
    of = "" if copies.others == copies.of else f"{copies.others} of "
    others = f"those of {of}the other {copies.of} are" if copies.of > 1 else "those of the other rank are"
    return f"{its} {copies.direction} copies are {copies.memory}, {others} {copies.others_memory}"


def _why(job: Job, late: Straggler, cause: Cause) -> str:
    what = f"{_cause_name(job, late, cause)}, GPU without a kernel for" if cause.code else f"its {KERNELS} take"
    return f"{what} {time(cause.own_ns)} a step; median of the other ranks: {time(cause.others_ns)}."


def _finding_lines(job: Job, late: Straggler, cause: Cause) -> Iterator[str]:
    finding = _finding(job, late, cause)
    if finding is not None:
        yield from _said_of(finding)


def _said_of(finding: Any) -> Iterator[str]:
    """What a finding says, with its place, and its fix."""
    yield f"{finding['message']}" + (f" At {finding['where']}." if finding["where"] else "")
    fix = [line for line in str(finding["fix"]).splitlines() if line.strip()]
    yield from [f"Fix: {' / '.join(fix[:2])}"] if fix else []


def _finding(job: Job, late: Straggler, cause: Cause) -> Any:
    """The finding of the late rank that a cause is about; None where there is none."""
    rows = findings_of(job, late.member)
    rows = rows[(rows["code"] == cause.code) & (rows["kind"] == cause.kind)]
    return rows.iloc[0] if cause.code and len(rows) else None


def findings_of(job: Job, member: int) -> Any:
    """The findings of a member, in the order in which to look at them."""
    return job.findings[job.findings["member"] == member].sort_values("order", kind="stable")


def finding_title(row: Any) -> str:
    """The title of a finding, by its row."""
    return f"{row['code']} {row['name']}" + (f": {row['kind']}" if row["kind"] else "")


def cause_name(job: Job, late: Straggler) -> str:
    """The name of the cause of a late rank."""
    return _cause_name(job, late, late.causes[0]) if late.causes else "not recorded"


def _cause_name(job: Job, late: Straggler, cause: Cause) -> str:
    """The name of a cause: the finding's title where there is one."""
    if not cause.code:
        return f"slower {KERNELS}"
    finding = _finding(job, late, cause)
    return finding_title(finding) if finding is not None else cause.code + (f": {cause.kind}" if cause.kind else "")


def place_name(place: Place) -> str:
    """The collective at which a rank is latest."""
    return f"{place.op} {place.position}" if place.position else place.op


def late_list(job: Job) -> str:
    """All late ranks by their numbers, or by their files where these are not known."""
    members = [job.members[late.member] for late in job.late.ranks]
    ranks = [member.rank for member in members if member.rank is not None]
    if len(ranks) == len(members):
        return number_list(ranks, _MOST_NAMED)
    left = len(members) - _MOST_FILES
    return ", ".join(map(label, members[:_MOST_FILES])) + (f" and {left} more" if left > 0 else "")


def saved(job: Job) -> str:
    """The saving in a step from fixing all late ranks, in words; empty where it saves nothing."""
    if job.late.saving_ns <= 0:
        return ""
    a_step_ns = job.late.saving_ns / job.late.steps
    return f"{'up to ' if job.absent.ranks else ''}{time(a_step_ns)} a step ({share(a_step_ns, job.figures.step_ns)})"


def saving_line(job: Job) -> str:
    """A sentence about the saving from fixing all late ranks, and the latest alone; empty where it saves nothing."""
    late, text = job.late, saved(job)
    if not text:
        return ""
    which, latest = "that", late.ranks[0]
    if len(late.ranks) > 1:
        which = f"all {len(late.ranks)} late ranks ({late_list(job)})"
        if latest.saving_ns is not None:
            little = latest.saving_ns <= _NEXT_TO_NOTHING * late.saving_ns
            alone = "next to nothing" if little else time(latest.saving_ns / late.steps)
            text += f", {label(job.members[latest.member])} alone {alone}"
    steps = f"{counted(late.steps, 'step')} that all ranks have"
    steps = "time that all ranks recorded" if job.common.outside else steps
    of = "" if job.common.shared.all() else f" of the {steps}"
    return f"Fixing {which} would save the job {text}, simulated across the matched collectives{of}."


def waited_for_line(job: Job) -> str:
    """A sentence about the rank that the others most likely wait for, by durations alone; empty where there is none."""
    times, used = job.figures.times, np.flatnonzero((job.figures.steps > 0) & (job.figures.times[STEP] > 0))
    if job.on_one_clock or len(used) < 2 or not times[COLLECTIVES].any():  # noqa: PLR2004 - two, to compare them
        return ""
    shares = times[COLLECTIVES][used] / times[STEP][used]
    if shares.max() - shares.min() < UNEVEN:
        return ""
    member = int(used[np.argmin(shares)])
    text = f"{label(job.members[member])} is in exposed collectives for {100 * shares.min():.0f} % of its time, others "
    text += f"for up to {100 * shares.max():.0f} %: most likely they wait for it."
    rows = findings_of(job, member)
    return text if rows.empty else f"{text} Its first finding: {finding_title(rows.iloc[0])}."


def late_figures(late: Sequence[Straggler], unit: float) -> list[tuple[str, str, str]]:
    """Lateness in a step of each late rank, the saving from fixing it alone, and with all before it: texts, to a us."""
    rows = list[tuple[float | None, ...]]()
    for each in late:
        savings, steps = (each.saving_ns, each.with_earlier_ns), each.saving_steps or 1
        rows.append((each.late_a_step_ns, *(None if ns is None else max(round(ns, -3), 0) / steps for ns in savings)))
    return list(zip(*(numbers(column, unit) for column in zip(*rows, strict=True)), strict=True))


def most_worth(job: Job, most: int) -> list[int]:
    """The places of up to so many late ranks, in order: those whose fix saves most, alone or after those before."""
    worth = savings(job)
    return sorted(sorted(range(len(worth)), key=lambda place: (-worth[place], place))[:most])


def savings(job: Job) -> list[float]:
    """What the fix of each late rank saves, alone or after those before, in ns; 0 for next to nothing."""
    worth, before = list[float](), dict[int, int]()
    for late in job.late.ranks:
        part = int(job.clocks.part[late.member])
        alone, earlier = late.saving_ns or 0, late.with_earlier_ns or 0
        worth.append(round(max(alone, earlier - before.get(part, 0)), -3))  # to a us, as it is shown
        before[part] = max(earlier, before.get(part, 0))
    least_ns = _NEXT_TO_NOTHING * job.late.saving_ns
    return [each if each > least_ns else 0.0 for each in worth]
