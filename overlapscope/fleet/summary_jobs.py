"""The answer about all jobs of a set of traces: mostly about one; where there are several, how they were told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import commonpath
from pathlib import PurePath

from overlapscope.fleet.heading import NOT_ALIGNED, problems, size_line
from overlapscope.fleet.job import Job
from overlapscope.fleet.jobs import HOST
from overlapscope.fleet.summary import NOBODY_LATE, summary, wrapped
from overlapscope.fleet.summary_stragglers import alike, late_lines, late_list, saved, saving_line
from overlapscope.formatting import counted

_WHOLE, _SHORT, _NAMED = 3, 12, 36  # jobs with their whole summary, up to which with a short one, and with a line


def summaries(jobs: Sequence[Job], first: str = "") -> str:
    """The summary of the only job; of several, each under its title, and short ones where there are many.

    ``first`` says what to do before the tables are there, as in `table_has_all`.
    """
    if len(jobs) == 1:
        return summary(jobs[0], first)
    parts = [wrapped(line) for line in separation(jobs)]
    for job in jobs[:_SHORT]:
        text = summary(job, first) if len(jobs) <= _WHOLE else "\n".join(_short(job, first))
        parts.append(f"{wrapped(f'== {title(job, jobs)}')}\n\n{text.rstrip()}")
    if len(jobs) > _SHORT:
        parts.append("\n".join(_in_lines(jobs, first)))
    return "\n\n".join(parts) + "\n"


def _short(job: Job, first: str) -> Iterator[str]:
    """How large a job is, what is wrong with its traces, its latest ranks, and what all late ones would save."""
    yield wrapped(size_line(job))
    yield from _problems(job, first)
    for late in alike(job.late.ranks)[:1]:
        yield wrapped(next(late_lines(job, late)))
        yield wrapped(saving_line(job) or f"All late ranks: {late_list(job)}.")
    if not job.late.ranks:
        yield wrapped(NOBODY_LATE if job.on_one_clock else NOT_ALIGNED)


def _in_lines(jobs: Sequence[Job], first: str) -> Iterator[str]:
    """The late ranks of each further job, and what is wrong with its traces."""
    for job in jobs[_SHORT:_NAMED]:
        nobody = "nobody is late" if job.on_one_clock else "clocks are not aligned"
        late = f"late {'ranks' if len(job.late.ranks) > 1 else 'rank'} {late_list(job)}" if job.late.ranks else nobody
        saving = f"; fixing all would save {saved(job)}" if saved(job) else ""
        yield wrapped(f"{title(job, jobs)}: {late}{saving}")
        yield from _problems(job, first)
    left = jobs[_NAMED:]
    if left:
        lagging, wrong = sum(bool(job.late.ranks) for job in left), sum(any(problems(job)) for job in left)
        text = f"{counted(len(left), 'more job')}, {lagging} with late ranks, {wrong} with traces that are unusable, "
        tables = f"{first}stragglers.parquet, traces.parquet and ranks.parquet have all"
        yield wrapped(f"{text}damaged, missing or there twice: {tables}")


def _problems(job: Job, first: str) -> Iterator[str]:
    return (wrapped(problem, "! ") for problem in problems(job, first))


def separation(jobs: Sequence[Job]) -> Iterator[str]:
    """How several jobs were told apart; nothing for one."""
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
    """What one of several jobs is called: its number, what tells it apart, and where its traces lie."""
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
