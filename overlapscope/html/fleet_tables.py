"""The tables on the page about a job: its late ranks, its average step, and exposed time by each definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.fleet.average import AverageTime, average_step
from overlapscope.fleet.exposed import Exposed
from overlapscope.fleet.heading import table_has_all
from overlapscope.fleet.job import Job
from overlapscope.fleet.ranks import label
from overlapscope.fleet.summary_stragglers import cause_name, late_figures, most_worth, place_name
from overlapscope.formatting import counted, share, time, time_unit
from overlapscope.markup import Html, tag

_MOST_LATE = 32  # rows; stragglers.parquet has all
_COUNTED = {
    "overlapscope": "collectives without another kernel at the time; copies without a kernel or a memset",
    "HTA": "kernels named nccl…; copies and memsets without a kernel; without the last of several steps",
    "TraceLens": "kernels with nccl in their name; copies without a kernel, a memset or a collective",
}
_NAMES = {rule.code: rule.name for rule in RULES}


def late_table(job: Job, first: str) -> Iterator[Html]:
    """The late ranks with the cause of each, and what fixing it would save; ``first`` as in `table_has_all`."""
    late = job.late.ranks
    if len(late) < 2:  # noqa: PLR2004 - of one rank the sentences say it all
        return
    unit, word = time_unit([int(each.late_a_step_ns) for each in late])
    heads = ("rank", "late", "most at", "cause", "fixed alone saves", "with those above")
    rows, places = list[Sequence[str]](), most_worth(job, _MOST_LATE)
    shown = [late[place] for place in places]
    for row, (each, cells) in enumerate(zip(shown, late_figures(shown, unit), strict=True)):
        if places[row] > (places[row - 1] + 1 if row else 0):
            rows.append(("…", *[""] * (len(heads) - 1)))
        what = (label(job.members[each.member]), cells[0], place_name(each.place), cause_name(job, each))
        rows.append((*what, *cells[1:]))
    yield _table(f"Late ranks, in the order in which they bound the step ({word} a step)", heads, rows, (1, 4, 5))
    if len(late) > _MOST_LATE:
        left = counted(len(late) - _MOST_LATE, "more late rank")
        yield tag("p", f"{left}: {table_has_all('stragglers', first)}.", class_="about")


def average_table(job: Job) -> Iterator[Html]:
    """The average step: compute, exposed collectives and copies, and idle time by what explains it."""
    found = list(average_step(job))
    if not found:
        return
    unit, word = time_unit([int(each.median_ns) for each in found])
    step = found[0].median_ns
    by_step = any(each.by_step_ns for each in found)
    heads = ("", "median rank", "of the step", "least", "rank", "most", "rank", *(["in steps"] if by_step else []))
    rows = [_average_row(job, each, unit, step, by_step=by_step) for each in found]
    yield tag("h2", "Average step")
    note = "Each row by itself over the ranks; idle time by finding is a part of the idle time."
    note += " In steps: the median rank in the step with the least and in that with the most." if by_step else ""
    yield tag("p", note, class_="about")
    yield _table(f"Time of a rank in {word}", heads, rows, tuple(range(1, len(heads))))


def definitions_table(job: Job) -> Iterator[Html]:
    """Exposed collectives and copies by our definition, HTA's and TraceLens'."""
    if not any(each.collectives_ns or each.copies_ns for each in job.exposed):
        return
    heads = ("by", "exposed collectives", "most", "rank", "exposed copies", "most", "rank", "what counts")
    rows = [_definition_row(job, each) for each in job.exposed]
    yield tag("h2", "Exposed communication and copies, as each tool defines them")
    yield _table("Whole trace, median rank and the rank with the most", heads, rows, tuple(range(1, 7)))


def _average_row(job: Job, each: AverageTime, unit: float, step: float, *, by_step: bool) -> Sequence[str]:
    name = f"{each.code} {_NAMES.get(each.code, '')}" + (f": {each.name}" if each.name else "")
    least, most = (label(job.members[member]).removeprefix("rank ") for member in (each.least_member, each.most_member))
    cells = [_figure(value, unit, step) for value in (each.median_ns, each.least_ns, each.most_ns)]
    steps = [" to ".join(_figure(value, unit, step) for value in each.by_step_ns) if each.by_step_ns else ""]
    shown = f"idle: {name}" if each.code else each.name
    return (shown, cells[0], share(each.median_ns, step), cells[1], least, cells[2], most, *(steps if by_step else []))


def _definition_row(job: Job, each: Exposed) -> Sequence[str]:
    most = [
        (time(value), label(job.members[member]).removeprefix("rank "))
        for member, value in (found for found in (each.most_collectives, each.most_copies) if found)
    ] or [("", "")] * 2
    medians = (time(each.collectives_ns), time(each.copies_ns))
    return (each.definition, medians[0], *most[0], medians[1], *most[1], _COUNTED[each.definition])


def _figure(value: float, unit: float, step: float) -> str:
    """With as many decimals as show a thousandth of the step."""
    return f"{value / unit:,.{0 if step >= 1000 * unit else 1 if step >= 100 * unit else 2}f}"


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], of_numbers: Sequence[int]) -> Html:
    def cells(name: str, row: Sequence[str]) -> Html:
        return tag(
            "tr",
            *(tag(name, cell, class_="number") if at in of_numbers else tag(name, cell) for at, cell in enumerate(row)),
        )

    body = (tag("caption", caption), cells("th", heads), *(cells("td", row) for row in rows))
    return tag("div", tag("table", *body), class_="scroll")
