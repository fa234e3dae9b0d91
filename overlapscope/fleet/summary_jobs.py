"""The answer about all jobs of a set of traces: mostly about one; where there are several, how they were told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import commonpath
from pathlib import PurePath

from overlapscope.fleet.heading import NOT_ALIGNED, size_line
from overlapscope.fleet.job import Job
from overlapscope.fleet.summary import NOBODY_LATE, summary, wrapped
from overlapscope.fleet.summary_stragglers import alike, late_lines, saving_line
from overlapscope.formatting import counted

_WHOLE, _SHORT = 3, 12  # jobs with their whole summary, and with a short one


def summaries(jobs: Sequence[Job]) -> str:
    """The summary of the only job; of several, each under its title, and short ones where there are many."""
    if len(jobs) == 1:
        return summary(jobs[0])
    parts = [wrapped(line) for line in separation(jobs)]
    for job in jobs[:_SHORT]:
        text = summary(job) if len(jobs) <= _WHOLE else "\n".join(map(wrapped, _short(job)))
        parts.append(f"{wrapped(f'== {title(job, jobs)}')}\n\n{text.rstrip()}")
    if len(jobs) > _SHORT:
        parts.append(f"{counted(len(jobs) - _SHORT, 'more job')}: stragglers.parquet has the late ranks of all.")
    return "\n\n".join(parts) + "\n"


def _short(job: Job) -> Iterator[str]:
    """How large a job is, its latest ranks, and what it would save."""
    yield size_line(job)
    for late in alike(job.late.ranks)[:1]:
        yield next(late_lines(job, late))
        yield saving_line(job)
    if not job.late.ranks:
        yield NOBODY_LATE if job.on_one_clock else NOT_ALIGNED


def separation(jobs: Sequence[Job]) -> Iterator[str]:
    """How several jobs were told apart; nothing for one."""
    if len(jobs) > 1:
        by = list(dict.fromkeys(each for job in jobs for each in job.by))
        traces = counted(sum(len(job.traces) for job in jobs), "trace")
        yield (
            f"{traces} of {len(jobs)} jobs, or of one at several times: told apart by {' and '.join(by)}. Each is "
            "compared by itself."
        )


def title(job: Job, jobs: Sequence[Job]) -> str:
    """What one of several jobs is called: its number, what tells it apart, and where its traces lie."""
    folder, whole = _folder([job]), _folder(jobs)
    where = "" if folder == whole or "://" in folder else f", in {PurePath(folder).relative_to(whole)}"
    return f"Job {job.number} of {len(jobs)}: {job.name}{where}"


def _folder(jobs: Sequence[Job]) -> str:
    folders = [str(PurePath(source).parent) for job in jobs for source in job.traces["source"]]
    return commonpath(folders) if len({"://" in folder for folder in folders}) == 1 else ""
