"""Reports of single ranks, made on demand and linked from the page about their job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from overlapscope.errors import OutputError, TraceError
from overlapscope.fleet.job import Job
from overlapscope.fleet.ranks import Member, label
from overlapscope.fleet.sources import local_file
from overlapscope.html.page import save_report
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit

LATE = "late"
"""Stands for the ranks that the answer names."""
_MOST_LATE = 3


def write_reports(
    jobs: Sequence[Job], asked: Sequence[str], folder: Path
) -> tuple[dict[tuple[int, int], Path], list[str]]:
    """Write the reports that are asked for, ranks by number or the late ones, each once.

    Returns:
        Where the report of each member is, by the place of its job and its own, and a sentence for each that cannot be
        made.

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
    return written, lacking


def _asked(job: Job, text: str) -> list[int]:
    if text == LATE:
        return [each.member for each in job.late.ranks[:_MOST_LATE]]
    return [number for number, member in enumerate(job.members) if member.used and str(member.rank) == text]


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
