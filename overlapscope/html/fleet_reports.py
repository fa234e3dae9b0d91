"""Reports of single ranks, made on demand and linked from the page about their job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from overlapscope.errors import OutputError
from overlapscope.fleet.job import Job
from overlapscope.fleet.ranks import label
from overlapscope.fleet.sources import local_file
from overlapscope.html.page import save_report
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit

LATE = "late"
"""Stands for the ranks that the answer names."""
_MOST_LATE = 3


def asked_members(job: Job, asked: Sequence[str]) -> list[int]:
    """The members that ``--report`` asks for: ranks by number, or the late ones.

    Raises:
        OutputError: there is no such rank.
    """
    numbers = {str(member.rank): number for number, member in enumerate(job.members) if member.used}
    found: list[int] = []
    for text in asked:
        if text != LATE and text not in numbers:
            raise OutputError(f"--report {text}: no rank with this number, and with a trace that can be used")
        found += [each.member for each in job.late.ranks[:_MOST_LATE]] if text == LATE else [numbers[text]]
    return list(dict.fromkeys(found))


def write_reports(job: Job, members: Sequence[int], folder: Path) -> Mapping[int, Path]:
    """Write the report of each of these members, and say where it is.

    Raises:
        TraceError: a trace cannot be read any more.
        OutputError: a report cannot be written.
    """
    written = {}
    for member in members:
        source = job.members[member].source
        target = folder / f"{_file_name(label(job.members[member]))}.html"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written ({error.strerror or error})") from error
        with local_file(source) as file:
            save_report(audit(open_trace(file.path)), target)
        written[member] = target
    return written


def _file_name(text: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in text)
