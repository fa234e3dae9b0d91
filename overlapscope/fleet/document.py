"""What is said of jobs, as documents: a summary of a screen for the terminal, and a page that has room for all."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePath

import numpy as np

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.finding import Severity
from overlapscope.document.nodes import Bullets, Code, Column, Figure, Node, Paragraph, Section, Table, Tone, row_table
from overlapscope.document.text import plain_text
from overlapscope.fleet import figures, sentences
from overlapscope.fleet.job import Fold, Job, shown_step
from overlapscope.fleet.ranks import Member, label, labels, number_list, short_names
from overlapscope.fleet.schema import COLLECTIVES, STEP, STEP_TIMES
from overlapscope.formatting import counted, numbers, safe, share, time, time_unit

DRAWN = 256
"""Rows of the map on a page; the tables have all ranks."""
_WIDTH, _HANG = 80, 2  # of the summary, and what lines of a paragraph after its first are indented by
_WHOLE, _SHORT, _NAMED = 3, 12, 36  # jobs with their whole summary, up to which with a short one, and with a line
_MOST_LINES, _SAID_OF_LEFT_OUT = 46, 3
_LEFT_OUT = {
    "exposed collectives and copies": "definitions",
    "findings": "findings",
    "the latest ranks": "ranks",
    "the spread of an average step": "spread",
}
"""What is left out where a summary is longer than a screen, in this order, and the table that has it."""
_MOST_CAUSES, _MOST_RANKS, _MOST_FINDINGS = 3, 4, 4  # in the summary
_CAUSES_ON_PAGE, _LATE_ON_PAGE, _OPENED = 8, 32, 24  # causes of late ranks, these ranks, and ranks with their findings
_IN_SHORT = ("Fix:",)  # what is said of all causes but the first
_NAME_WIDTH, _COLUMN_WIDTH, _FILE_WIDTH = 23, 8, 9
_COUNTED = {
    "overlapscope": "collectives without another kernel at the time; copies without a kernel or a memset",
    "HTA": "kernels named nccl…; copies and memsets without a kernel; without the last of several steps",
    "TraceLens": "kernels with nccl in their name; copies without a kernel, a memset or a collective",
}
_CALLED = {"HTA": "HTA's definition, which drops the last step,", "TraceLens": "TraceLens'"}
_RULE_NAMES = {rule.code: rule.name for rule in RULES}


def summaries(jobs: Sequence[Job], first: str = "") -> str:
    """The summary of the only job; of several, each under its title, and short ones where there are many.

    ``first`` says what to do before the tables are there, as in `sentences.table_has_all`.
    """
    if len(jobs) == 1:
        return summary(jobs[0], first)
    parts = [_text([Paragraph(line)]) for line in sentences.separation(jobs)]
    for job in jobs[:_SHORT]:
        text = summary(job, first).rstrip() if len(jobs) <= _WHOLE else _text(_short(job, first))
        parts.append(_text([Paragraph(f"== {sentences.title(job, jobs)}")]) + f"\n\n{text}")
    if len(jobs) > _SHORT:
        parts.append(_text(_in_lines(jobs, first)))
    return "\n\n".join(parts) + "\n"


def summary(job: Job, first: str = "") -> str:
    """The summary of a job: a screen of lines of at most 80 characters; ``first`` as in `sentences.table_has_all`.

    Where much is to be said of late ranks and bad traces, the last parts are only named, with their tables.
    """
    sections = {
        "heading": _heading(job, first),
        "what costs most": _cost(job),
        "late ranks": _late(job, _MOST_CAUSES, in_short=True),
        "savings": _late_table(job, first, page=False),
        "the spread of an average step": _spread(job),
        "the latest ranks": _latest(job),
        "exposed collectives and copies": _exposed(job),
        "findings": _findings(job, first),
    }
    texts = {name: text for name, parts in sections.items() if (text := _text(parts))}
    left_out = list[str]()
    for name, table in _LEFT_OUT.items():
        lines = sum(text.count("\n") + 1 for text in texts.values()) + len(texts) - 1
        if lines + (_SAID_OF_LEFT_OUT if left_out else 0) > _MOST_LINES and texts.pop(name, ""):
            left_out.append(f"{name} ({table}.parquet)")
    if left_out:
        texts["left out"] = _text([Paragraph(f"Not shown here, but {first}in tables: {', '.join(left_out)}.")])
    return "\n\n".join(texts.values()) + "\n"


def page_sections(job: Job, folds: Sequence[Fold], reports: Collection[int], first: str = "") -> tuple[Section, ...]:
    """The sections of a page about a job.

    Its figures are the map, ``map-`` and the job's number, and links to the ``reports`` of members, ``report-``, the
    number of the job, ``-`` and that of the member.
    """
    step = shown_step(job)
    recorded = "the recorded time" if step is None else f"the time of step {step}"
    key = f"map-{job.number}"
    return (
        Section("", tuple(_heading(job, first))),
        Section("", tuple(_cost(job))),
        Section("", (*_late(job, _CAUSES_ON_PAGE), *_late_table(job, first, page=True))),
        Section(f"What the GPU of each rank did in {recorded}", (Figure(key),), key),
        Section("", tuple(_more(folds[DRAWN:], "timeline", first))),
        Section("Average step", tuple(_average(job))),
        Section("Exposed communication and copies, as each tool defines them", tuple(_definitions(job))),
        Section(
            "Findings of the ranks, the latest first",
            (*(_fold(job, fold, reports) for fold in folds[:_OPENED]), *_more(folds[_OPENED:], "findings", first)),
            f"ranks-{job.number}",
        ),
    )


def _text(parts: Iterable[Node]) -> str:
    return plain_text(list(parts), _WIDTH, _HANG).rstrip("\n")


def _short(job: Job, first: str) -> Iterator[Node]:
    """A short summary: the size of a job, what is wrong with its traces, its latest ranks, and what all would save."""
    yield Paragraph(sentences.size_line(job))
    yield from _problems(job, first)
    for group in sentences.late_groups(job)[:1]:
        yield Paragraph(next(sentences.late_lines(job, group)))
        yield Paragraph(sentences.saving_line(job) or f"All late ranks: {sentences.late_list(job)}.")
    if not job.late.ranks:
        yield Paragraph(sentences.NOBODY_LATE if job.on_one_clock else sentences.NOT_ALIGNED)


def _in_lines(jobs: Sequence[Job], first: str) -> Iterator[Node]:
    """One line for each further job: its late ranks, and what is wrong with its traces."""
    for job in jobs[_SHORT:_NAMED]:
        nobody = "nobody is late" if job.on_one_clock else "clocks are not aligned"
        ranks = f"late {'ranks' if len(job.late.ranks) > 1 else 'rank'} {sentences.late_list(job)}"
        saving = f"; fixing all would save {sentences.saved(job)}" if sentences.saved(job) else ""
        yield Paragraph(f"{sentences.title(job, jobs)}: {ranks if job.late.ranks else nobody}{saving}")
        yield from _problems(job, first)
    left = jobs[_NAMED:]
    if left:
        lagging, wrong = sum(bool(job.late.ranks) for job in left), sum(any(sentences.problems(job)) for job in left)
        text = f"{counted(len(left), 'more job')}, {lagging} with late ranks, {wrong} with traces that are unusable, "
        tables = f"{first}stragglers.parquet, traces.parquet and ranks.parquet have all"
        yield Paragraph(f"{text}damaged, missing or there twice: {tables}")


def _problems(job: Job, first: str) -> Iterator[Node]:
    return (Paragraph(problem, Tone.PROBLEM) for problem in sentences.problems(job, first))


def _heading(job: Job, first: str) -> Iterator[Node]:
    yield Paragraph(sentences.size_line(job), Tone.ABOUT)
    yield from _problems(job, first)
    yield from (Paragraph(line, Tone.ABOUT) for line in sentences.clock_lines(job))


def _cost(job: Job) -> Iterator[Node]:
    """The finding that costs the job most, where late ranks do not."""
    for place, line in enumerate(sentences.cost_lines(job)):
        yield Paragraph(line, Tone.DETAIL if place else Tone.HEADLINE)


def _late(job: Job, most: int, *, in_short: bool = False) -> Iterator[Node]:
    """Sentences about late ranks: who, where and why; ``in_short`` gives details of the first cause only."""
    groups = sentences.late_groups(job)
    for place, group in enumerate(groups[:most]):
        headline, *details = sentences.late_lines(job, group)
        yield Paragraph(headline, Tone.HEADLINE)
        shown = [line for line in details if not (in_short and place) or line.startswith(_IN_SHORT)]
        yield from (Paragraph(line, Tone.DETAIL) for line in shown)
    if groups:
        yield Paragraph(f"{sentences.saving_line(job)} {sentences.DEFINITION}".strip())
    elif job.on_one_clock:
        nobody = sentences.NOBODY_LATE
        yield Paragraph(nobody.replace("rank", "recorded rank") if job.absent.ranks else nobody)
    yield from [Paragraph(line)] if (line := sentences.waited_for_line(job)) else []


def _late_table(job: Job, first: str, *, page: bool) -> Iterator[Node]:
    """The late ranks with the cause of each, and what fixing it would save, alone and with those above."""
    late, most = job.late.ranks, _LATE_ON_PAGE if page else _MOST_RANKS
    if len(late) < 2:  # noqa: PLR2004 - of one rank the sentence says it all
        return
    unit, word = time_unit([int(each.late_a_step_ns) for each in late])
    places, savings = sentences.most_worth(job, most), sentences.savings(job)
    if any(savings) and not page:  # a screen has no room for ranks whose fix saves nothing
        places = [place for place in places if savings[place]]
    shown, rows = [late[place] for place in places], list[tuple[str, ...]]()
    times = sentences.late_figures(shown, unit)
    for row, (each, (lateness, alone, earlier)) in enumerate(zip(shown, times, strict=True)):
        name, cause = label(job.members[each.member]), sentences.cause_name(job, each)
        of_page = (name, lateness, sentences.place_name(each.place), cause, alone, earlier)
        cells = of_page if page else (f"  {safe(name, _NAME_WIDTH)}", lateness, alone, earlier, cause)
        if places[row] > (places[row - 1] + 1 if row else 0):
            rows.append(("…" if page else "  …", *[""] * (len(cells) - 1)))
        rows.append(cells)
    if page:
        heading = f"Late ranks, in the order in which they bound the step ({word} a step)"
        heads = ("rank", "late", "most at", "cause", "fixed alone saves", "with those above")
        yield row_table(heading, heads, rows, {"rank", "most at", "cause"})
    else:
        heading = f"Late ({word} a step)"
        ranks = Column(heading, text=True, least=max(len(heading), *(len(row[0]) for row in rows)))
        columns = ranks, Column("late", least=6), Column("saves alone", least=11), Column("with above", least=10)
        room = _WIDTH - sum(column.least + 2 for column in columns)  # two spaces between columns
        cut = ((*row[:-1], safe(row[-1], room)) for row in rows)
        yield Table("", (*columns, Column("cause", text=True)), tuple(cut))
    if len(late) > len(shown):
        left = f"{counted(len(late) - len(shown), 'more late rank')}: {sentences.table_has_all('stragglers', first)}"
        yield Paragraph(f"{left}.", Tone.ABOUT) if page else Paragraph(f"and {left}", Tone.DETAIL)


def _spread(job: Job) -> Iterator[Node]:
    """The average step: the median of all ranks, the minimum and the maximum with their ranks."""
    used = job.figures.used
    if len(used) < 2:  # noqa: PLR2004 - one rank has no spread
        return
    times = list(figures.average_times(job))
    unit, word = time_unit([int(each.median_ns) for each in times])
    step = max(times[0].median_ns / unit, 1)
    decimals = min(max(3 - int(np.log10(step) + 1), 0) + 1, 3)  # as many as show a thousandth of a step
    called = _in_column(job.members, used.tolist())
    which = "rank" if any(job.members[member].rank is not None for member in used.tolist()) else "trace"
    rows = []
    for each in times:
        cells = [f"{value / unit:,.{decimals}f}" for value in (each.median_ns, each.least_ns, each.most_ns)]
        rows.append((f"  {each.name}", *cells[:2], called[each.least_member], cells[2], called[each.most_member]))
    median, least, most = (Column(name, least=_COLUMN_WIDTH) for name in ("median", "min", "max"))
    ranks = Column(which, least=5)
    name = Column(f"Average step ({word})", text=True, least=28)
    yield Table("", (name, median, least, ranks, most, ranks), tuple(rows))


def _in_column(members: Sequence[Member], used: Sequence[int]) -> dict[int, str]:
    """The name of each member in a narrow column: the number of its rank, or what differs in the name of its file."""
    files = {member: label(members[member]) for member in used if members[member].rank is None}
    short = dict(zip(files, short_names(list(files.values()), _FILE_WIDTH), strict=True)) if files else {}
    return {member: safe(short.get(member, str(members[member].rank)), _FILE_WIDTH) for member in used}


def _latest(job: Job) -> Iterator[Node]:
    """A table of the late rank and others; of the ranks that are least in collectives where nobody is late."""
    used, times, late = job.figures.used, job.figures.times, job.late_ns
    if len(used) < 2 or len(job.late.ranks) > 1:  # noqa: PLR2004 - several late ranks have a table of their own
        return
    order = used[np.lexsort((times[COLLECTIVES][used], -late[used]))][:_MOST_RANKS].tolist()
    unit, word = time_unit([int(value) for value in times[STEP][used]])
    columns = ({"late": late} if late.any() else {}) | {
        name.removeprefix("exposed "): times[name] for name in STEP_TIMES
    }
    names = short_names([label(job.members[member]) for member in order], _NAME_WIDTH - 1)
    heading = Column(f"{'Latest' if late.any() else 'Each'} ({word} a step)", text=True, least=_NAME_WIDTH + 2)
    cells = [[f"  {safe(name, _NAME_WIDTH - 1)}" for name in names]]
    cells += [numbers(values[order].tolist(), unit) for values in columns.values()]
    others = (Column(name, least=_COLUMN_WIDTH) for name in columns)
    yield Table("", (heading, *others), tuple(zip(*cells, strict=True)))


def _exposed(job: Job) -> Iterator[Node]:
    """Exposed collectives beside exposed copies, by our definition and by those of other tools."""
    ours, *theirs = job.exposed
    if any(each.collectives_ns or each.copies_ns for each in job.exposed):
        text = f"collectives {time(ours.collectives_ns)}, copies {time(ours.copies_ns)}"
        others = (f"{_CALLED[one.definition]} {time(one.collectives_ns)} and {time(one.copies_ns)}" for one in theirs)
        yield Paragraph(f"Exposed in the whole trace, median rank: {text}; by {', by '.join(others)}.")


def _findings(job: Job, first: str) -> Iterator[Node]:
    """Lines with each finding once, by what it costs in the rank with the most, and the ranks that have it."""
    rows = job.findings[job.findings["member"] >= 0]
    rows = rows[(rows["no_kernel_ns"] > 0) | (rows["severity"] == str(Severity.HAZARD))]
    if rows.empty:
        return
    each = rows.groupby(["code", "name", "kind", "member"], sort=True)["no_kernel_ns"].max().reset_index()
    shared = each.groupby(["code", "name", "kind"])["no_kernel_ns"].max().sort_values(ascending=False, kind="stable")
    yield Paragraph("Findings, by the time without a kernel that they cost in the rank with the most")
    for code, name, kind in list(shared.index)[:_MOST_FINDINGS]:
        having = each[(each["code"] == code) & (each["kind"] == kind)]
        most = int(having["no_kernel_ns"].max())
        cost = f"up to {time(most)}" if most > 0 else "costs no time"
        called = sentences.finding_title({"code": code, "name": name, "kind": kind})
        yield Paragraph(f"{called}: {cost}, {_who(job, having['member'].tolist())}", Tone.DETAIL)
    if len(shared) > _MOST_FINDINGS:
        left = f"and {len(shared) - _MOST_FINDINGS} more: {sentences.table_has_all('findings', first)}"
        yield Paragraph(left, Tone.DETAIL)


def _who(job: Job, members: Sequence[int]) -> str:
    of = sum(member.used for member in job.members)
    if len(members) == of:
        return f"all {of} ranks" if of > 1 else "the only rank"
    ranks = [rank for member in members if (rank := job.members[member].rank) is not None]
    names = f" ({number_list(ranks)})" if len(ranks) == len(members) else ""
    return f"{len(members)} of {of} ranks{names}"


def _average(job: Job) -> Iterator[Node]:
    """The average step: compute, exposed collectives and copies, and idle time by what explains it."""
    times = list(figures.average_step(job))
    if not times:
        return
    unit, word = time_unit([int(each.median_ns) for each in times])
    by_step = any(each.by_step_ns for each in times)
    note = "Each row by itself over the ranks; idle time by finding is a part of the idle time."
    note += " In steps: the median rank in the step with the least and in that with the most." if by_step else ""
    yield Paragraph(note, Tone.ABOUT)
    heads = ("", "median rank", "of the step", "least", "rank", "most", "rank", "in steps")
    rows = (_average_row(job, each, unit, times[0].median_ns) for each in times)
    yield row_table(f"Time of a rank in {word}", heads, rows, {""})


def _average_row(job: Job, each: figures.AverageTime, unit: float, step: float) -> tuple[str, ...]:
    decimals = 0 if step >= 1000 * unit else 1 if step >= 100 * unit else 2  # as many as show a thousandth of the step
    times = (each.median_ns, each.least_ns, each.most_ns, *(each.by_step_ns or ()))
    median, least, most, *steps = (f"{value / unit:,.{decimals}f}" for value in times)
    idle = sentences.finding_title({"code": each.code, "name": _RULE_NAMES.get(each.code, ""), "kind": each.name})
    ranks = [label(job.members[member]).removeprefix("rank ") for member in (each.least_member, each.most_member)]
    shown = f"idle: {idle}" if each.code else each.name
    return (shown, median, share(each.median_ns, step), least, ranks[0], most, ranks[1], " to ".join(steps))


def _definitions(job: Job) -> Iterator[Node]:
    """Exposed collectives and copies by our definition, HTA's and TraceLens'."""
    if any(each.collectives_ns or each.copies_ns for each in job.exposed):
        heads = ("by", "exposed collectives", "most", "rank", "exposed copies", "most", "rank", "what counts")
        rows = (_definition_row(job, each) for each in job.exposed)
        yield row_table("Whole trace, median rank and the rank with the most", heads, rows, {"by", "what counts"})


def _definition_row(job: Job, each: figures.Exposed) -> tuple[str, ...]:
    extremes = [
        ("", "") if most is None else (time(most[1]), label(job.members[most[0]]).removeprefix("rank "))
        for most in (each.most_collectives, each.most_copies)
    ]
    medians = time(each.collectives_ns), time(each.copies_ns)
    return (each.definition, medians[0], *extremes[0], medians[1], *extremes[1], _COUNTED[each.definition])


def _fold(job: Job, fold: Fold, reports: Collection[int]) -> Section:
    """The findings of ranks that are one row, and the reports of these: links, or the command that makes one."""
    members, row = [job.members[each.member] for each in fold], fold[0]
    late = f", {time(row.late_ns)} late a step" if row.late_ns else ""
    findings = sentences.findings_of(job, row.member).to_dict("records")
    links: list[Node] = [Figure(f"report-{job.number}-{each.member}") for each in fold if each.member in reports]
    page = f"{PurePath(members[0].source).name.split('.')[0]}.html"
    command = f"overlapscope report {shlex.quote(members[0].source)} -o {shlex.quote(page)}"
    return Section(
        f"{labels(members)}{late}: {counted(len(findings), 'finding')}",
        (
            *([Paragraph(f"Of {label(members[0])}:")] if len(members) > 1 else []),
            Bullets(tuple(Paragraph(str(each["message"]), label=sentences.finding_title(each)) for each in findings)),
            *(links or [Code(command)]),
        ),
        folded=True,
    )


def _more(folds: Sequence[Fold], table: str, first: str) -> Iterator[Node]:
    left = sum(len(fold) for fold in folds)
    if left:
        yield Paragraph(f"{counted(left, 'more rank')}: {sentences.table_has_all(table, first)}.", Tone.ABOUT)
