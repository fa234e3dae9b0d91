"""One page about jobs: what is said of each, the map of ranks and time, and reports of single ranks beside it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from overlapscope.atomic_files import output_errors, writing
from overlapscope.document.html import Surroundings, colour_class, html_of, swatch
from overlapscope.document.nodes import Paragraph, Tone
from overlapscope.errors import TraceError
from overlapscope.fleet.document import DRAWN, page_sections
from overlapscope.fleet.job import ALIKE, Fold, Job, Run, folded, of_step, rank_rows, shown_step, with_runs
from overlapscope.fleet.ranks import label, labels, rank_list
from overlapscope.fleet.rows import OTHER
from overlapscope.fleet.schema import COLLECTIVES, COPIES, KERNELS, TRANSFER, WAITING
from overlapscope.fleet.sentences import most_worth, separation, title
from overlapscope.fleet.sources import local_file
from overlapscope.formatting import counted, time
from overlapscope.html.frame import framed
from overlapscope.html.page import save_report
from overlapscope.markup import Html, tag, together
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit
from overlapscope.timeline.bars import Style

LATE = "late"
"""Stands for the late ranks whose fix saves most, where reports are asked for."""
_MOST_LATE = 4  # reports of a job: each takes as long as `overlapscope report`
_WIDTH, _HEIGHT = 1000, 14  # of the row of a rank, in its own units
_SHOWN = 48  # ranks without unfolding
_AT_A_GLANCE = 4  # ranks that nobody has to count
_STYLES = {
    KERNELS: Style.KERNEL,
    WAITING: Style.BLOCKED_BY_SYNC,
    TRANSFER: Style.COLLECTIVE,
    COLLECTIVES: Style.COLLECTIVE,
    COPIES: Style.EXPOSED,
    OTHER: Style.KERNELS_ONLY,
}
_RULES = """.map { width: 100%; } .map td { border: 0; padding: .05rem .6rem .05rem 0; white-space: nowrap; }
.map .ranks { max-width: 16rem; overflow: hidden; text-overflow: ellipsis; } .job { margin-top: 3rem; }
.map td:last-child { padding: 0; width: 100%; } .problem { color: var(--dim); }
.map svg { background: var(--soft); display: block; height: 14px; width: 100%; }
"""
Links = Mapping[int, str]
"""Where the report of a member lies, beside the page."""


def save_fleet_page(
    jobs: Sequence[Job],
    folder: Path,
    path: Path,
    reports: Mapping[tuple[int, int], Path] | None = None,
    first: str = "",
) -> None:
    """Write the page about the jobs in a folder, with links to the reports of members: by the job's number and theirs.

    ``first`` says what to do before the tables are there, as in `table_has_all`.

    Raises:
        OutputError: it cannot be written.
    """
    place = path.parent.absolute()
    relative = {key: os.path.relpath(report.absolute(), place) for key, report in (reports or {}).items()}
    links = {key: quote(report.replace(os.sep, "/")) for key, report in relative.items()}
    page = fleet_html(jobs, folder, links, first).encode()
    with writing(path) as file:
        file.write(page)


def fleet_html(jobs: Sequence[Job], folder: Path, links: Mapping[tuple[int, int], str], first: str = "") -> str:
    """The page about the jobs, mostly one."""
    heading = "Ranks of a job" if len(jobs) == 1 else "Ranks of several jobs"
    body = [tag("h1", heading), html_of([Paragraph(line, Tone.ABOUT) for line in separation(jobs)])]
    for job in jobs:
        of_job = {member: link for (number, member), link in links.items() if number == job.number}
        body += [tag("h1", title(job, jobs), id=f"job-{job.number}", class_="job")] if len(jobs) > 1 else []
        folds = folded(job, rank_rows(job))
        figures = {
            f"report-{job.number}-{member}": tag("p", tag("a", f"Report of {label(job.members[member])}", href=link))
            for member, link in of_job.items()
        }
        figures |= {f"map-{job.number}": _map(job, folder, folds[:DRAWN], of_job)}
        body.append(html_of(page_sections(job, folds, of_job.keys(), first), Surroundings(figures)))
    return framed(heading, body, [_RULES])


def _map(job: Job, folder: Path, folds: Sequence[Fold], links: Links) -> Html:
    """The map of one step, and that of all steps folded: a row for each rank, and what its GPU did when."""
    rows = with_runs(job, folder, [fold[0] for fold in folds])
    one = of_step(rows, shown_step(job), one_clock=job.on_one_clock)
    if not any(row.runs for row in one):
        return Html("")
    begin, end = extent = _extent([row.runs for row in one])
    clocks = "on aligned clocks" if job.on_one_clock else "each rank from its own begin, since clocks are not aligned"
    caption = f"{time(end - begin)} from left to right, {clocks}, to a two-hundredth of a step."
    if any(len(fold) > 1 for fold in folds):
        caption += (
            " Ranks with the same findings whose times in an average step are within "
            f"{100 * ALIKE:.0f} % of the step are one row, drawn as its first."
        )
    lines = [_line(job, fold, row.runs, extent, links) for fold, row in zip(folds, one, strict=True)]
    parts = [tag("p", caption, class_="about"), _legend({run.part for row in rows for run in row.runs})]
    parts.append(tag("table", *lines[:_SHOWN], class_="map"))
    if lines[_SHOWN:]:
        parts.append(_unfolding(counted(len(lines) - _SHOWN, "more row"), lines[_SHOWN:]))
    if len({run.step for row in rows for run in row.runs}) > 1 and job.on_one_clock:
        whole, shown = _extent([row.runs for row in rows]), zip(folds[:_SHOWN], rows, strict=False)
        parts.append(_unfolding("All steps", [_line(job, fold, row.runs, whole, links) for fold, row in shown]))
    return together(*parts)


def _unfolding(heading: str, lines: Sequence[Html]) -> Html:
    return tag("details", tag("summary", heading), tag("table", *lines, class_="map"))


def _extent(runs: Sequence[Sequence[Run]]) -> tuple[int, int]:
    every = [run for of_rank in runs for run in of_rank]
    return min(run.begin_ns for run in every), max(run.end_ns for run in every)


def _line(job: Job, fold: Fold, runs: Sequence[Run], extent: tuple[int, int], links: Links) -> Html:
    name, member = labels([job.members[row.member] for row in fold]), fold[0].member
    bars = (_rect(run, extent) for run in runs)
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    bar = tag("svg", *bars, viewBox=box, preserveAspectRatio="none", role="img", aria_label=name)
    late = f"{time(fold[0].late_ns)} late" if fold[0].late_ns else ""
    ranks = counted(len(fold), "rank") if len(fold) > _AT_A_GLANCE else ""
    shown = tag("a", name, href=links[member]) if member in links else name
    cells = (tag("td", text, class_="number") for text in (ranks, late))
    return tag("tr", tag("td", shown, class_="ranks", title=name), *cells, tag("td", bar))


def _rect(run: Run, extent: tuple[int, int]) -> Html:
    scale = _WIDTH / max(extent[1] - extent[0], 1)
    step = "" if run.step is None else f"step {run.step}, "
    title = tag("title", f"{step}{_called(run.part)}: {time(run.end_ns - run.begin_ns)}")
    place = {"x": f"{(run.begin_ns - extent[0]) * scale:.2f}", "width": f"{(run.end_ns - run.begin_ns) * scale:.2f}"}
    return tag("rect", title, **place, height=_HEIGHT, class_=colour_class(_kind(run.part)))


def _legend(parts: set[str]) -> Html:
    order = [*(part for part in _STYLES if part in parts), *sorted(parts - _STYLES.keys())]
    return tag("ul", *(tag("li", swatch(_kind(part)), _called(part)) for part in order), class_="legend")


def _called(part: str) -> str:
    if part == OTHER:
        return "memsets, or before the first work"
    return part if part in _STYLES else f"idle: {Style.__members__.get(part, part)}"


def _kind(part: str) -> str:
    return (_STYLES.get(part) or Style.__members__.get(part, Style.IDLE)).value


def write_reports(
    jobs: Sequence[Job], asked: Sequence[str], folder: Path
) -> tuple[dict[tuple[int, int], Path], list[str], list[str]]:
    """Write the reports that are asked for, ranks by number or the late ones, each once.

    It gives the report of each member by the numbers of its job and of the member, a sentence for each report that
    cannot be made, and one for each job with more late ranks.

    Raises:
        OutputError: a report cannot be written.
    """
    wanted = {text: [(job, member) for job in jobs for member in _asked(job, text)] for text in asked}
    without = [text for text, pairs in wanted.items() if text != LATE and not pairs]
    lacking = [f"no report of rank {text}: it has no trace that can be used" for text in without]
    written: dict[tuple[int, int], Path] = {}
    for job, number in dict.fromkeys(pair for pairs in wanted.values() for pair in pairs):
        name = f"job {job.number} " * (len(jobs) > 1) + label(job.members[number])
        target = folder / "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in f"{name}.html")
        with output_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            with local_file(job.members[number].source) as (path, _):
                save_report(audit(open_trace(path)), target)
        except TraceError as error:  # it was there for the map
            lacking.append(f"no report of {name}: {error}")
        else:
            written[job.number, number] = target
    return written, lacking, [*_left_out(jobs, written)] if LATE in asked else []


def _asked(job: Job, text: str) -> list[int]:
    if text == LATE:
        return [job.late.ranks[place].member for place in most_worth(job, _MOST_LATE)]
    return [number for number, member in enumerate(job.members) if member.used and str(member.rank) == text]


def _left_out(jobs: Sequence[Job], written: Collection[tuple[int, int]]) -> Iterator[str]:
    """The late ranks without a report, and how to get it."""
    for job in jobs:
        late = [job.members[each.member] for each in job.late.ranks if (job.number, each.member) not in written]
        late = [] if len(job.late.ranks) <= _MOST_LATE else late
        which = f" of job {job.number}" * (len(jobs) > 1)
        ranks = [member.rank for member in late if member.rank is not None]
        if ranks:
            yield f"no report of the late {rank_list(ranks)}{which}: add --report with the number of each"
        if len(ranks) < len(late):
            files = counted(len(late) - len(ranks), "more late trace")
            yield f"no report of {files}{which}: make it with overlapscope report"
