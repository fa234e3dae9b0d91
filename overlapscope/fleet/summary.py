"""The answer about a job as text: which ranks are late and why, within a screen."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.diagnosis.finding import Severity
from overlapscope.fleet.average import average_times
from overlapscope.fleet.figures import COLLECTIVES, COPIES, IDLE, KERNELS, STEP
from overlapscope.fleet.heading import clock_lines, problems, size_line, table_has_all
from overlapscope.fleet.job import Job
from overlapscope.fleet.numbers import number_list, short_names
from overlapscope.fleet.ranks import label
from overlapscope.fleet.summary_stragglers import (
    DEFINITION,
    alike,
    cause_name,
    late_figures,
    late_lines,
    most_worth,
    saving_line,
)
from overlapscope.formatting import counted, numbers, safe, time, time_unit
from overlapscope.model.columns import Int64

if TYPE_CHECKING:
    import pandas

NOBODY_LATE = "No rank is late for 1 % of the time or more."
_WIDTH = 80
_MOST_CAUSES = 3
_MOST_RANKS = 4
_MOST_FINDINGS = 4
_IN_SHORT = ("Fix:",)  # what is said of all causes but the first
_MOST_LINES, _SAID_OF_LEFT_OUT = 46, 3
_LEFT_OUT = {
    "exposed collectives and copies": "definitions",
    "findings": "findings",
    "the latest ranks": "ranks",
    "the spread of an average step": "spread",
}
"""What is left out where a summary is longer than a screen, in this order, and the table that has it."""
_NAME_WIDTH, _COLUMN_WIDTH, _FILE_WIDTH = 23, 10, 9
_SAVING_COLUMNS = (("late", 8), ("saves alone", 13), ("with above", 12))
_RANK_COLUMNS = {"kernels": KERNELS, "collectives": COLLECTIVES, "copies": COPIES, "idle": IDLE}


def summary(job: Job, first: str = "") -> str:
    """The summary of a job: a screen of lines of at most 80 characters; ``first`` as in `table_has_all`.

    Where much is to be said of late ranks and bad traces, the last parts are only named, with their tables.
    """
    parts = {
        "heading": list(_heading(job, first)),
        "late ranks": list(_late(job)),
        "savings": list(_savings(job, first)),
        "the spread of an average step": list(_steps(job)),
        "the latest ranks": list(_rank_rows(job)),
        "exposed collectives and copies": list(_exposed(job)),
        "findings": list(_findings(job, first)),
    }
    parts, left_out = {name: part for name, part in parts.items() if part}, dict[str, str]()
    for name, table in _LEFT_OUT.items():
        said = _SAID_OF_LEFT_OUT if left_out else 0
        if _length(parts.values()) + said > _MOST_LINES and parts.pop(name, []):
            left_out[name] = f"{table}.parquet"
    if left_out:
        shown = (f"{name} ({table})" for name, table in left_out.items())
        parts["left out"] = [wrapped(f"Not shown here, but {first}in tables: {', '.join(shown)}.")]
    return "\n\n".join("\n".join(part) for part in parts.values()) + "\n"


def _length(parts: Collection[Sequence[str]]) -> int:
    """The lines of all parts with those between them."""
    return sum(line.count("\n") + 1 for part in parts for line in part) + len(parts) - 1


def wrapped(text: str, indent: str = "") -> str:
    """Text in lines of the summary's width, from the second on indented."""
    return textwrap.fill(
        safe(text), _WIDTH, initial_indent=indent, subsequent_indent=" " * (len(indent) + 2), break_on_hyphens=False
    )


def _heading(job: Job, first: str) -> Iterator[str]:
    yield wrapped(size_line(job))
    yield from (wrapped(problem, "! ") for problem in problems(job, first))
    yield from (wrapped(line) for line in clock_lines(job))


def _late(job: Job) -> Iterator[str]:
    groups = alike(job.late.ranks)
    for place, late in enumerate(groups[:_MOST_CAUSES]):
        first, *others = late_lines(job, late)
        yield wrapped(first)
        yield from (wrapped(line, "  ") for line in others if not place or line.startswith(_IN_SHORT))
    if groups:
        yield wrapped(f"{saving_line(job)} {DEFINITION}".strip())
    elif job.on_one_clock:
        yield NOBODY_LATE.replace("rank", "recorded rank") if job.absent.ranks else NOBODY_LATE
    if job.waited_for is not None:
        yield wrapped(_by_durations(job, job.waited_for))


def _savings(job: Job, first: str) -> Iterator[str]:
    """The late ranks with what fixing each would save, alone and with those above."""
    late = job.late.ranks
    if len(late) < 2:  # noqa: PLR2004 - of one rank the sentence says it all
        return
    unit, word = time_unit([int(each.late_a_step_ns) for each in late])
    places = most_worth(job, _MOST_RANKS)
    shown = [late[place] for place in places]
    names = [safe(label(job.members[each.member]), _NAME_WIDTH) for each in shown]
    title = f"Late ({word} a step)"
    width = max(map(len, [title, *(f"  {name}" for name in names)]))
    head, *lines = _columns(_SAVING_COLUMNS, late_figures(shown, unit))
    yield f"{title:<{width}}{head}  cause"
    for row, (name, each, cells) in enumerate(zip(names, shown, lines, strict=True)):
        if places[row] > (places[row - 1] + 1 if row else 0):
            yield "  …"
        line = f"{f'  {name}':<{width}}{cells}  {cause_name(job, each)}"
        yield safe(line, _WIDTH)
    if len(late) > _MOST_RANKS:
        left = counted(len(late) - _MOST_RANKS, "more late rank")
        yield wrapped(f"and {left}: {table_has_all('stragglers', first)}", "  ")


def _by_durations(job: Job, member: int) -> str:
    used = job.figures.steps > 0
    percent = 100 * job.figures.times[COLLECTIVES] / np.maximum(job.figures.times[STEP], 1)
    text = f"{label(job.members[member])} is in exposed collectives for {percent[member]:.0f} % of its time, others "
    text += f"for up to {percent[used].max():.0f} %: most likely they wait for it."
    found = job.findings[job.findings["member"] == member].sort_values("order", kind="stable")
    return text if found.empty else f"{text} Its first finding: {_title(found.iloc[0])}."


def _steps(job: Job) -> Iterator[str]:
    used = np.flatnonzero(job.figures.steps > 0)
    if len(used) < 2:  # noqa: PLR2004 - one rank has no spread
        return
    times = list(average_times(job))
    unit, word = time_unit([int(each.median_ns) for each in times])
    rows, called = [], _in_column(job, used)
    decimals = _decimals(times[0].median_ns / unit)
    for each in times:
        median, least, most = (
            f"{value / unit:,.{decimals}f}" for value in (each.median_ns, each.least_ns, each.most_ns)
        )
        rows.append((median, least, called[each.least_member], most, called[each.most_member]))
    whose = "rank" if any(job.members[member].rank is not None for member in used.tolist()) else "trace"
    columns = (("median", 10), ("min", 10), (whose, 7), ("max", 10), (whose, 7))
    titles = (f"Average step ({word})", *(f"  {each.name}" for each in times))
    for title, line in zip(titles, _columns(columns, rows), strict=True):
        yield f"{title:<28}{line}"


def _decimals(step: float) -> int:
    """As many as show a thousandth of a step."""
    return min(max(3 - int(np.log10(max(step, 1)) + 1), 0) + 1, 3)


def _rank_rows(job: Job) -> Iterator[str]:
    """The late rank and others, else those that are least in collectives: the others may wait for them."""
    used = np.flatnonzero(job.figures.steps > 0)
    if len(used) < 2 or len(job.late.ranks) > 1:  # noqa: PLR2004 - several late ranks have a table of their own
        return
    times = job.figures.times
    late = job.late_ns
    order = used[np.lexsort((times[COLLECTIVES][used], -late[used]))][:_MOST_RANKS]
    unit, word = time_unit([int(value) for value in times[STEP][used]])
    first = {"late": late} if late.any() else {}
    columns = {**first, **{heading: times[name] for heading, name in _RANK_COLUMNS.items()}}
    cells = {heading: numbers(values[order].tolist(), unit) for heading, values in columns.items()}
    head, *lines = _columns([(heading, _COLUMN_WIDTH) for heading in cells], list(zip(*cells.values(), strict=True)))
    title = f"{'Latest' if late.any() else 'Each'} ({word} a step)"
    yield f"{title:<{_NAME_WIDTH + 2}}{head}"
    names = short_names([label(job.members[member]) for member in order.tolist()], _NAME_WIDTH - 1)
    for name, line in zip(names, lines, strict=True):
        yield f"  {safe(name, _NAME_WIDTH - 1):<{_NAME_WIDTH}}{line}"


def _columns(headings: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> list[str]:
    """Headings with their least widths and rows below them as lines; two spaces apart, however long a number is."""
    lines = [[heading for heading, _ in headings], *rows]
    longest = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    widths = [max(least, most + 2) for (_, least), most in zip(headings, longest, strict=True)]
    return ["".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines]


def _exposed(job: Job) -> Iterator[str]:
    """Exposed collectives beside exposed copies, by our definition and by those of other tools."""
    ours, *theirs = job.exposed
    if not any(each.collectives_ns or each.copies_ns for each in job.exposed):
        return
    called = {"HTA": "HTA's definition, which drops the last step,", "TraceLens": "TraceLens'"}
    text = f"collectives {time(ours.collectives_ns)}, copies {time(ours.copies_ns)}"
    others = (f"{called[each.definition]} {time(each.collectives_ns)} and {time(each.copies_ns)}" for each in theirs)
    yield wrapped(f"Exposed in the whole trace, median rank: {text}; by {', by '.join(others)}.")


def _findings(job: Job, first: str) -> Iterator[str]:
    found = job.findings[job.findings["member"] >= 0]
    found = found[(found["idle_ns"] > 0) | (found["severity"] == str(Severity.HAZARD))]
    if found.empty:
        return
    each = found.groupby(["code", "name", "kind", "member"], sort=True)["idle_ns"].max().reset_index()
    shared = each.groupby(["code", "name", "kind"])["idle_ns"].max().sort_values(ascending=False, kind="stable")
    yield "Findings, by GPU idle time in the rank with the most"
    for code, name, kind in list(shared.index)[:_MOST_FINDINGS]:
        mine = each[(each["code"] == code) & (each["kind"] == kind)]
        title = f"{code} {name}" + (f": {kind}" if kind else "")
        cost = f"up to {time(int(mine['idle_ns'].max()))}" if mine["idle_ns"].max() > 0 else "no idle time"
        yield wrapped(f"{title}: {cost}, {_who(job, mine['member'].tolist())}", "  ")
    if len(shared) > _MOST_FINDINGS:
        yield f"  and {len(shared) - _MOST_FINDINGS} more: {table_has_all('findings', first)}"


def _who(job: Job, members: Sequence[int]) -> str:
    of = sum(member.used for member in job.members)
    if len(members) == of:
        return f"all {of} ranks" if of > 1 else "the only rank"
    ranks = [rank for member in members if (rank := job.members[member].rank) is not None]
    names = f" ({number_list(ranks)})" if len(ranks) == len(members) else ""
    return f"{len(members)} of {of} ranks{names}"


def _in_column(job: Job, used: Int64) -> dict[int, str]:
    """What a narrow column calls each member: the number of its rank, or what tells its file from others."""
    files = {member: label(job.members[member]) for member in used.tolist() if job.members[member].rank is None}
    short = dict(zip(files, short_names(list(files.values()), _FILE_WIDTH), strict=True)) if files else {}
    return {member: safe(short.get(member, str(job.members[member].rank)), _FILE_WIDTH) for member in used.tolist()}


def _title(row: pandas.Series) -> str:
    return f"{row['code']} {row['name']}" + (f": {row['kind']}" if row["kind"] else "")
