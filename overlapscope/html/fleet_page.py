"""One page about a job: the answer, a map of ranks and time, its average step, and the findings of its ranks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import quote

from overlapscope import __version__
from overlapscope.atomic_files import writing
from overlapscope.fleet.folding import Fold, fold_name, folded
from overlapscope.fleet.heading import about, table_has_all
from overlapscope.fleet.job import Job
from overlapscope.fleet.rank_map import RankRow, rank_rows, shown_step, with_runs
from overlapscope.fleet.ranks import Member, label
from overlapscope.fleet.summary_jobs import separation, title
from overlapscope.fleet.summary_stragglers import DEFINITION, alike, late_lines, saving_line
from overlapscope.formatting import counted, time
from overlapscope.html.colours import colour_rules
from overlapscope.html.document import asset, document
from overlapscope.html.fleet_map import RULES, Links, maps
from overlapscope.html.fleet_tables import average_table, definitions_table, late_table
from overlapscope.markup import Html, tag, together

_DRAWN = 256  # rows of the map; the tables have all ranks
_ANSWERED = 8  # causes of late ranks
_OPENED = 24  # rows with their findings


def save_fleet_page(
    jobs: Sequence[Job],
    folder: Path,
    path: Path,
    reports: Mapping[tuple[int, int], Path] | None = None,
    first: str = "",
) -> None:
    """Write the page about the jobs in a folder, with links to the reports of members: by the job's place and theirs.

    ``first`` says what to do before the tables are there, as in `table_has_all`.

    Raises:
        OutputError: it cannot be written.
    """
    links = {member: _relative(report, path.parent) for member, report in (reports or {}).items()}
    page = fleet_html(jobs, folder, links, first).encode()
    with writing(path) as file:
        file.write(page)


def fleet_html(jobs: Sequence[Job], folder: Path, links: Mapping[tuple[int, int], str], first: str = "") -> str:
    """The page about the jobs, mostly one."""
    heading = "Ranks of a job" if len(jobs) == 1 else "Ranks of several jobs"
    body = [tag("h1", heading), *(tag("p", line, class_="about") for line in separation(jobs))]
    for place, job in enumerate(jobs):
        mine = {member: link for (of, member), link in links.items() if of == place}
        body += [tag("h1", title(job, jobs), id=f"job-{job.number}", class_="job")] if len(jobs) > 1 else []
        body += _job(job, folder, mine, first)
    body.append(tag("footer", f"Made by overlapscope {__version__}."))
    return document(f"{heading}: overlapscope", body, [asset("page.css"), colour_rules(), RULES])


def _job(job: Job, folder: Path, links: Links, first: str) -> Iterator[Html]:
    folds = folded(job, rank_rows(job))
    drawn = with_runs(job, folder, [fold.first for fold in folds[:_DRAWN]])
    yield from (tag("p", line, class_="about") for line in about(job, first))
    yield from _answer(job, first)
    shown = [Fold((row, *fold.rows[1:])) for row, fold in zip(drawn, folds, strict=False)]
    yield from maps(job, shown, shown_step(job), links)
    yield from _more(folds, first)
    yield from average_table(job)
    yield from definitions_table(job)
    yield from _ranks(job, folds, links, first)


def _answer(job: Job, first: str) -> Iterator[Html]:
    for late in alike(job.late.ranks)[:_ANSWERED]:
        headline, *others = late_lines(job, late)
        yield tag("p", headline, class_="headline")
        yield from (tag("p", line) for line in others)
    if job.late.ranks:
        yield from (tag("p", line) for line in (saving_line(job), DEFINITION) if line)
    yield from late_table(job, first)


def _more(folds: Sequence[Fold], first: str) -> Iterator[Html]:
    left = sum(len(fold.rows) for fold in folds[_DRAWN:])
    if left:
        yield tag("p", f"{counted(left, 'more rank')}: {table_has_all('timeline', first)}.", class_="about")


def _ranks(job: Job, folds: Sequence[Fold], links: Links, first: str) -> Iterator[Html]:
    yield tag("h2", "Findings of the ranks, the latest first", id=f"ranks-{job.number}")
    for fold in folds[:_OPENED]:
        row = fold.first
        late = f", {time(row.late_ns)} late a step" if row.late_ns else ""
        found = job.findings[job.findings["member"] == row.member].sort_values("order", kind="stable")
        lines = (
            tag("li", tag("b", f"{one['code']} {one['name']}"), f" {one['kind']}: {one['message']}".replace(" :", ":"))
            for one in found.to_dict("records")
        )
        summary = tag("summary", f"{fold_name(job, fold)}{late}: {counted(len(found), 'finding')}")
        of = tag("p", f"Of {label(job.members[row.member])}:") if len(fold.rows) > 1 else Html("")
        reports = (_report(job.members[each.member], links.get(each.member)) for each in _linked(fold, links))
        yield tag("details", summary, together(of, tag("ul", *lines), *reports), class_="explain")
    left = sum(len(fold.rows) for fold in folds[_OPENED:])
    if left:
        yield tag("p", f"{counted(left, 'more rank')}: {table_has_all('findings', first)}.", class_="about")


def _linked(fold: Fold, links: Links) -> Sequence[RankRow]:
    """The ranks of a row that have a report; else the one that is drawn, for the command that makes it."""
    return [row for row in fold.rows if row.member in links] or [fold.first]


def _report(member: Member, link: str | None) -> Html:
    """The way to the report of a rank: the page itself, or the command that makes it."""
    if link is not None:
        return tag("p", tag("a", f"Report of {label(member)}", href=link))
    page = f"{PurePath(member.source).name.split('.')[0]}.html"
    return tag("pre", f"overlapscope report {shlex.quote(member.source)} -o {shlex.quote(page)}")


def _relative(path: Path, folder: Path) -> str:
    return quote(os.path.relpath(path.absolute(), folder.absolute()).replace(os.sep, "/"))
