"""One page about a job: the answer, a map of ranks and steps, and each rank folded, the worst first."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import quote

from overlapscope import __version__
from overlapscope.atomic_files import writing
from overlapscope.fleet.heading import about
from overlapscope.fleet.job import Job
from overlapscope.fleet.rank_map import RankRow, rank_rows, shown_step, with_runs
from overlapscope.fleet.ranks import Member, label
from overlapscope.fleet.summary_stragglers import DEFINITION, alike, late_lines, saving_line
from overlapscope.formatting import counted, time
from overlapscope.html.colours import colour_rules
from overlapscope.html.document import asset, document
from overlapscope.html.fleet_map import RULES, Links, maps
from overlapscope.markup import Html, tag, together

_DRAWN = 256  # ranks of the map; the tables have all
_ANSWERED = 8  # causes of late ranks
_OPENED = 24  # ranks with their findings


def save_fleet_page(job: Job, folder: Path, path: Path, reports: Mapping[int, Path] | None = None) -> None:
    """Write the page about the job in a folder, with links to the reports of some of its members.

    Raises:
        OutputError: it cannot be written.
    """
    links = {member: _relative(report, path.parent) for member, report in (reports or {}).items()}
    page = fleet_html(job, folder, links).encode()
    with writing(path) as file:
        file.write(page)


def fleet_html(job: Job, folder: Path, links: Links) -> str:
    """The page about a job."""
    rows = rank_rows(job)
    drawn = with_runs(job, folder, rows[:_DRAWN])
    body = (
        tag("h1", "Ranks of a job"),
        *(tag("p", line, class_="about") for line in about(job)),
        *_answer(job),
        *maps(job, drawn, shown_step(job), links),
        *_more(rows),
        *_ranks(job, rows, links),
        tag("footer", f"Made by overlapscope {__version__}."),
    )
    return document("Ranks of a job: overlapscope", body, [asset("page.css"), colour_rules(), RULES])


def _answer(job: Job) -> Iterator[Html]:
    for late in alike(job.late.ranks)[:_ANSWERED]:
        first, *others = late_lines(job, late)
        yield tag("p", first, class_="headline")
        yield from (tag("p", line) for line in others)
    if job.late.ranks:
        yield from (tag("p", line) for line in (saving_line(job), DEFINITION) if line)


def _more(rows: Sequence[RankRow]) -> Iterator[Html]:
    if len(rows) > _DRAWN:
        yield tag("p", f"{len(rows) - _DRAWN:,} more ranks are in timeline.parquet.", class_="about")


def _ranks(job: Job, rows: Sequence[RankRow], links: Links) -> Iterator[Html]:
    yield tag("h2", "Ranks, the latest first", id="ranks")
    for row in rows[:_OPENED]:
        member = job.members[row.member]
        late = f", {time(row.late_ns)} late a step" if row.late_ns else ""
        found = job.findings[job.findings["member"] == row.member].sort_values("order", kind="stable")
        lines = (
            tag("li", tag("b", f"{one['code']} {one['name']}"), f" {one['kind']}: {one['message']}".replace(" :", ":"))
            for one in found.to_dict("records")
        )
        summary = tag("summary", f"{label(member)}{late}: {counted(len(found), 'finding')}")
        report = _report(member, links.get(row.member))
        yield tag("details", summary, together(tag("ul", *lines), report), class_="explain")
    if len(rows) > _OPENED:
        yield tag("p", f"{counted(len(rows) - _OPENED, 'more rank')}: findings.parquet has all.", class_="about")


def _report(member: Member, link: str | None) -> Html:
    """The way to the report of a rank: the page itself, or the command that makes it."""
    if link is not None:
        return tag("p", tag("a", f"Report of {label(member)}", href=link))
    page = f"{PurePath(member.source).name.split('.')[0]}.html"
    return tag("pre", f"overlapscope report {shlex.quote(member.source)} -o {shlex.quote(page)}")


def _relative(path: Path, folder: Path) -> str:
    return quote(os.path.relpath(path.absolute(), folder.absolute()).replace(os.sep, "/"))
