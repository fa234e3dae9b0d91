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


def write_reports(job: Job, asked: Sequence[str], folder: Path) -> tuple[dict[int, Path], list[str]]:
    """Write the reports that are asked for, ranks by number or the late ones, each once.

    Returns:
        Where the report of each member is, and a sentence for each that cannot be made.

    Raises:
        OutputError: a report cannot be written.
    """
    used = {str(member.rank): number for number, member in enumerate(job.members) if member.used}
    late = [each.member for each in job.late.ranks[:_MOST_LATE]]
    without = [text for text in asked if text != LATE and text not in used]
    lacking = [f"no report of rank {text}: it has no trace that can be used" for text in without]
    wanted = [number for text in asked for number in (late if text == LATE else [used[text]] if text in used else [])]
    written: dict[int, Path] = {}
    for number in dict.fromkeys(wanted):
        try:
            written[number] = _written(job.members[number], folder)
        except TraceError as error:  # it was there for the map
            lacking.append(f"no report of {label(job.members[number])}: {error}")
    return written, lacking


def _written(member: Member, folder: Path) -> Path:
    target = folder / f"{_file_name(label(member))}.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror or error})") from error
    with local_file(member.source) as file:
        save_report(audit(open_trace(file.path)), target)
    return target


def _file_name(text: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in text)
