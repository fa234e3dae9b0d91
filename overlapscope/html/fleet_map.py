"""The map of ranks and time on the page about a job: a row for each rank, and what its GPU did when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from overlapscope.fleet.figures import COLLECTIVES, COPIES, KERNELS, TRANSFER, WAITING
from overlapscope.fleet.folding import Fold, alike_rule, counted_ranks, fold_name
from overlapscope.fleet.job import Job
from overlapscope.fleet.rank_map import RankRow, Run, of_step
from overlapscope.fleet.slots import OTHER
from overlapscope.formatting import counted, time
from overlapscope.html.colours import colour_of, swatch
from overlapscope.markup import Html, tag
from overlapscope.timeline.bars import Style

_WIDTH, _HEIGHT = 1000, 14
_SHOWN = 48  # ranks without unfolding
_STYLES = {
    KERNELS: Style.KERNEL,
    WAITING: Style.BLOCKED_BY_SYNC,
    TRANSFER: Style.COLLECTIVE,
    COLLECTIVES: Style.COLLECTIVE,
    COPIES: Style.EXPOSED,
    OTHER: Style.KERNELS_ONLY,
}
RULES = """.map { width: 100%; } .map td { border: 0; padding: .05rem .6rem .05rem 0; white-space: nowrap; }
.map .ranks { max-width: 16rem; overflow: hidden; text-overflow: ellipsis; } .job { margin-top: 3rem; }
.map td:last-child { padding: 0; width: 100%; }
.map svg { background: var(--soft); display: block; height: 14px; width: 100%; }
"""
Links = Mapping[int, str]
"""Where the report of a member lies, beside the page."""


def maps(job: Job, folds: Sequence[Fold], step: int | None, links: Links) -> Iterator[Html]:
    """The map of one step, and that of all steps folded."""
    rows = [fold.first for fold in folds]
    one = of_step(rows, step, one_clock=job.on_one_clock)
    if not any(row.runs for row in one):
        return
    named = "the recorded time" if step is None else f"the time of step {step}"
    yield tag("h2", f"What the GPU of each rank did in {named}", id=f"map-{job.number}")
    begin, end = _extent(one)
    clocks = "on aligned clocks" if job.on_one_clock else "each rank from its own begin, since clocks are not aligned"
    about = f"{time(end - begin)} from left to right, {clocks}, to a two-hundredth of a step."
    if any(len(fold.rows) > 1 for fold in folds):
        about += f" {alike_rule()}"
    yield tag("p", about, class_="about")
    yield _legend(rows)
    lines = [_line(job, fold, row.runs, (begin, end), links) for fold, row in zip(folds, one, strict=True)]
    yield tag("table", *lines[:_SHOWN], class_="map")
    if lines[_SHOWN:]:
        more = tag("summary", counted(len(lines) - _SHOWN, "more row"))
        yield tag("details", more, tag("table", *lines[_SHOWN:], class_="map"))
    if len({run.step for row in rows for run in row.runs}) > 1 and job.on_one_clock:
        lines = [_line(job, fold, fold.first.runs, _extent(rows), links) for fold in folds[:_SHOWN]]
        yield tag("details", tag("summary", "All steps"), tag("table", *lines, class_="map"))


def _extent(rows: Sequence[RankRow]) -> tuple[int, int]:
    runs = [run for row in rows for run in row.runs]
    return min(run.begin_ns for run in runs), max(run.end_ns for run in runs)


def _line(job: Job, fold: Fold, runs: Sequence[Run], extent: tuple[int, int], links: Links) -> Html:
    name, member = fold_name(job, fold), fold.first.member
    bars = (_rect(run, extent) for run in runs)
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    bar = tag("svg", *bars, viewBox=box, preserveAspectRatio="none", role="img", aria_label=name)
    late = f"{time(fold.first.late_ns)} late" if fold.first.late_ns else ""
    shown = tag("a", name, href=links[member]) if member in links else name
    cells = (tag("td", text, class_="number") for text in (counted_ranks(fold), late))
    return tag("tr", tag("td", shown, class_="ranks", title=name), *cells, tag("td", bar))


def _rect(run: Run, extent: tuple[int, int]) -> Html:
    scale = _WIDTH / max(extent[1] - extent[0], 1)
    step = "" if run.step is None else f"step {run.step}, "
    title = tag("title", f"{step}{_called(run.part)}: {time(run.end_ns - run.begin_ns)}")
    place = {"x": f"{(run.begin_ns - extent[0]) * scale:.2f}", "width": f"{(run.end_ns - run.begin_ns) * scale:.2f}"}
    return tag("rect", title, **place, height=_HEIGHT, class_=_colour(run.part))


def _legend(rows: Sequence[RankRow]) -> Html:
    parts = {run.part for row in rows for run in row.runs}
    order = sorted(parts, key=lambda part: (list(_STYLES).index(part) if part in _STYLES else len(_STYLES), part))
    return tag("ul", *(tag("li", swatch(_colour(part)), _called(part)) for part in order), class_="legend")


def _called(part: str) -> str:
    if part == OTHER:
        return "memsets, or before the first work"
    return part if part in _STYLES else f"idle: {Style.__members__.get(part, part)}"


def _colour(part: str) -> str:
    return colour_of(_STYLES.get(part) or Style.__members__.get(part, Style.IDLE))
