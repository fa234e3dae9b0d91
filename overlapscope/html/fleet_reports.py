"""Reports of single ranks, made on demand and linked from the page about their job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlapscope.errors import OutputError, TraceError
from overlapscope.fleet.job import Job
from overlapscope.fleet.numbers import rank_list
from overlapscope.fleet.ranks import Member, label
from overlapscope.fleet.sources import local_file
from overlapscope.fleet.summary_stragglers import most_worth
from overlapscope.formatting import counted
from overlapscope.html.page import save_report
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit

LATE = "late"
"""Stands for the late ranks whose fix saves most."""
_MOST_LATE = 4  # of a job: each takes as long as `overlapscope report`


@dataclass(frozen=True)
class Reports:
    """Where the report of each member is, by the place of its job and its own.

    ``lacking`` has a sentence for each that cannot be made, ``left_out`` one for each job with more late ranks.
    """

    paths: dict[tuple[int, int], Path]
    lacking: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def write_reports(jobs: Sequence[Job], asked: Sequence[str], folder: Path) -> Reports:
    """Write the reports that are asked for, ranks by number or the late ones, each once.

    Raises:
        OutputError: a report cannot be written.
    """
    found = {text: [(place, each) for place, job in enumerate(jobs) for each in _asked(job, text)] for text in asked}
    without = [text for text, members in found.items() if text != LATE and not members]
    lacking = [f"no report of rank {text}: it has no trace that can be used" for text in without]
    written: dict[tuple[int, int], Path] = {}
    for place, number in dict.fromkeys(pair for members in found.values() for pair in members):
        job = jobs[place]
        name = f"job {job.number} " * (len(jobs) > 1) + label(job.members[number])
        try:
            written[place, number] = _written(job.members[number], folder / f"{_file_name(name)}.html")
        except TraceError as error:  # it was there for the map
            lacking.append(f"no report of {name}: {error}")
    return Reports(written, tuple(lacking), tuple(_left_out(jobs, written)) if LATE in asked else ())


def _asked(job: Job, text: str) -> list[int]:
    if text == LATE:
        return [job.late.ranks[place].member for place in most_worth(job, _MOST_LATE)]
    return [number for number, member in enumerate(job.members) if member.used and str(member.rank) == text]


def _left_out(jobs: Sequence[Job], written: Collection[tuple[int, int]]) -> Iterator[str]:
    """The late ranks without a report, and how to get it."""
    for place, job in enumerate(jobs):
        late = [job.members[each.member] for each in job.late.ranks if (place, each.member) not in written]
        late = [] if len(job.late.ranks) <= _MOST_LATE else late
        which = f" of job {job.number}" * (len(jobs) > 1)
        ranks = [member.rank for member in late if member.rank is not None]
        if ranks:
            yield f"no report of the late {rank_list(ranks)}{which}: add --report with the number of each"
        if len(ranks) < len(late):
            files = counted(len(late) - len(ranks), "more late trace")
            yield f"no report of {files}{which}: make it with overlapscope report"


def _written(member: Member, target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target.parent}: cannot be written ({error.strerror or error})") from error
    with local_file(member.source) as file:
        save_report(audit(open_trace(file.path)), target)
    return target


def _file_name(text: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in text)
