"""One page about a job: the answer, a map of ranks and steps, and each rank folded, the worst first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from overlapscope import __version__
from overlapscope.atomic_files import writing
from overlapscope.fleet.figures import COPIES, KERNELS, MOVING, WAITING
from overlapscope.fleet.heading import about
from overlapscope.fleet.job import Job
from overlapscope.fleet.ranks import label
from overlapscope.fleet.step_map import OTHER, Cell, RankRow, rank_rows
from overlapscope.fleet.summary_stragglers import straggler_lines
from overlapscope.formatting import counted, time
from overlapscope.html.colours import colour_of, colour_rules, swatch
from overlapscope.html.document import asset, document
from overlapscope.markup import Html, tag, together
from overlapscope.timeline.bars import Style

_WIDTH, _HEIGHT = 1000, 14
_SHOWN, _MOST = 48, 1000  # ranks of the map: at once, and at all
_OPENED = 24  # ranks with their findings
_STYLES = {
    KERNELS: Style.KERNEL,
    WAITING: Style.BLOCKED_BY_SYNC,
    MOVING: Style.COLLECTIVE,
    COPIES: Style.EXPOSED,
    OTHER: Style.KERNELS_ONLY,
}
_RULES = """.map { width: 100%; } .map td { border: 0; padding: .05rem .6rem .05rem 0; white-space: nowrap; }
.map td:last-child { padding: 0; width: 100%; }
.map svg { background: var(--soft); display: block; height: 14px; width: 100%; }
"""


def save_fleet_page(job: Job, path: Path) -> None:
    """Write the page about a job.

    Raises:
        OutputError: it cannot be written.
    """
    page = fleet_html(job).encode()
    with writing(path) as file:
        file.write(page)


def fleet_html(job: Job) -> str:
    """The page about a job."""
    rows = rank_rows(job)
    body = (
        tag("h1", "Ranks of a job"),
        *(tag("p", line, class_="about") for line in about(job)),
        *_answer(job),
        *_map(job, rows),
        *_ranks(job, rows),
        tag("footer", f"Made by overlapscope {__version__}."),
    )
    return document("Ranks of a job: overlapscope", body, [asset("page.css"), colour_rules(), _RULES])


def _answer(job: Job) -> Iterator[Html]:
    for straggler in job.stragglers[:3]:
        first, *others = straggler_lines(job, straggler)
        yield tag("p", first, class_="headline")
        yield from (tag("p", line) for line in others)


def _map(job: Job, rows: Sequence[RankRow]) -> Iterator[Html]:
    cells = [cell for row in rows for cell in row.cells]
    if not cells:
        return
    begin, end = min(cell.begin_ns for cell in cells), max(cell.end_ns for cell in cells)
    yield tag("h2", "What each step of each rank went to", id="map")
    clocks = "aligned clocks" if job.on_one_clock else "the clocks of the files"
    text = f"{time(end - begin)} from left to right, on {clocks}; the parts of a step stand side by side, not when they"
    yield tag("p", f"{text} were.", class_="about")
    yield _legend(cells)
    lines = [_line(job, row, begin, end) for row in rows[:_MOST]]
    yield tag("table", *lines[:_SHOWN], class_="map")
    if lines[_SHOWN:]:
        folded = tag("summary", f"{counted(len(lines) - _SHOWN, 'more rank')}")
        yield tag("details", folded, tag("table", *lines[_SHOWN:], class_="map"))
    if len(rows) > _MOST:
        yield tag("p", f"{len(rows) - _MOST:,} more ranks are in the tables.")


def _line(job: Job, row: RankRow, begin: int, end: int) -> Html:
    bars = (rect for cell in row.cells for rect in _rects(cell, begin, end))
    name = label(job.members[row.member])
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    bar = tag("svg", *bars, viewBox=box, preserveAspectRatio="none", role="img", aria_label=name)
    late = f"{time(row.late_ns)} late" if row.late_ns else ""
    return tag("tr", tag("td", name), tag("td", late, class_="number"), tag("td", bar))


def _rects(cell: Cell, begin: int, end: int) -> Iterator[Html]:
    scale, at = _WIDTH / max(end - begin, 1), float(cell.begin_ns - begin)
    fits = min(1.0, (cell.end_ns - cell.begin_ns) / max(sum(cell.parts.values()), 1))
    for name, ns in cell.parts.items():
        step = "" if cell.step is None else f"step {cell.step}, "
        title, width = tag("title", f"{step}{_called(name)}: {time(ns)}"), ns * fits
        place = {"x": f"{at * scale:.2f}", "width": f"{width * scale:.2f}"}
        yield tag("rect", title, **place, height=_HEIGHT, class_=_colour(name))
        at += width


def _legend(cells: Sequence[Cell]) -> Html:
    names = dict.fromkeys(name for cell in cells for name in cell.parts)
    order = sorted(names, key=lambda name: (list(_STYLES).index(name) if name in _STYLES else len(_STYLES), name))
    return tag("ul", *(tag("li", swatch(_colour(name)), _called(name)) for name in order), class_="legend")


def _called(part: str) -> str:
    return part if part in _STYLES else f"idle: {Style.__members__.get(part, part)}"


def _colour(part: str) -> str:
    return colour_of(_STYLES.get(part) or Style.__members__.get(part, Style.IDLE))


def _ranks(job: Job, rows: Sequence[RankRow]) -> Iterator[Html]:
    yield tag("h2", "Ranks, the latest first", id="ranks")
    for row in rows[:_OPENED]:
        member = job.members[row.member]
        late = f", {time(row.late_ns)} late a step" if row.late_ns else ""
        found = job.findings[job.findings["member"] == row.member].sort_values("order", kind="stable")
        lines = (
            tag("li", tag("b", f"{one['code']} {one['name']}"), f" {one['kind']}: {one['message']}".replace(" :", ":"))
            for one in found.to_dict("records")
        )
        page = f"{PurePath(member.source).name.split('.')[0]}.html"
        command = f"overlapscope report {shlex.quote(member.source)} -o {shlex.quote(page)}"
        summary = tag("summary", f"{label(member)}{late}: {counted(len(found), 'finding')}")
        yield tag("details", summary, together(tag("ul", *lines), tag("pre", command)), class_="explain")
    if len(rows) > _OPENED:
        yield tag("p", f"{counted(len(rows) - _OPENED, 'more rank')}: findings.parquet has all.", class_="about")
