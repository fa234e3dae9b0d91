"""What a comparison says, as a document for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath

from overlapscope.comparison.figures import Figure, RangeChange, RangeTimes, Spread, by_key
from overlapscope.comparison.findings import FindingChange
from overlapscope.comparison.result import Comparison, percent
from overlapscope.comparison.side import Side
from overlapscope.comparison.work import OnlyOne
from overlapscope.diagnosis.causes import Cause
from overlapscope.document import nodes
from overlapscope.document.nodes import Bullets, Document, Medium, Node, Paragraph, Section, Tone, row_table
from overlapscope.formatting import counted, numbers, safe, share, size, time, time_unit
from overlapscope.measure.windows import window_title
from overlapscope.timeline.comparison import View, on_one_scale

_SHOWN_SHARE = 0.01
"""Times below this share of the window are left out; runs scatter by as much."""
_COPIES = ("count", "size_bytes", "total_ns", "hidden_ns", "blocked_ns")
_LISTED = 3  # findings of a kind, and kernels that one side has: a terminal shows no more
_NAME_WIDTH, _PAGE_NAME_WIDTH = 44, 80

Form = Callable[[float], str]


def comparison_document(comparison: Comparison) -> Document:
    """The sentence and the figures; on a page the reasons, both timelines, findings, ranges and work in full."""
    return Document(
        "Before and after",
        (
            _heading(comparison),
            _reasons(comparison),
            Section("Figures", (_figures(comparison),)),
            Section("Timeline", (nodes.Figure("timeline"),), medium=Medium.PAGE),
            _findings(comparison),
            _ranges(comparison),
            _work(comparison),
        ),
    )


def views_of(comparison: Comparison) -> list[View]:
    """The windows of the typical traces, to be drawn on one scale of time."""
    before, after = (
        (f"{label}: {time(side.typical.window.wall_ns)}, as recorded", side.typical.analysis)
        for label, side in {"before": comparison.before, "after": comparison.after}.items()
    )
    return on_one_scale(before, after)


def _heading(comparison: Comparison) -> Section:
    sides = {"before": comparison.before, "after": comparison.after}
    traces = (Paragraph(f"{label}: {_trace(side)}", Tone.ABOUT) for label, side in sides.items())
    remarks = tuple(Paragraph(remark.message, Tone.WARNING) for remark in comparison.remarks)
    parts = (Bullets(remarks), Paragraph(comparison.sentence, Tone.HEADLINE))
    return Section("", (Section("", tuple(traces), medium=Medium.PAGE), *parts))


def _trace(side: Side) -> str:
    run = side.typical
    several = f", the typical one of {counted(len(side.runs), 'trace')}" if len(side.runs) > 1 else ""
    name = PurePath(run.trace.metadata.path).name
    return f"{name}{several} · {run.trace.metadata.tool} · {window_title(run.window)}"


def _reasons(comparison: Comparison) -> Section:
    """The time that each part saves, and what is unexplained."""
    why = comparison.why
    if why is None:
        return Section("Why", (), medium=Medium.PAGE)
    parts = [(reason.words, reason.saved_ns) for reason in why.reasons] + [("unexplained", why.unexplained_ns)]
    length, unit = time_unit([why.saved_ns])
    amounts = numbers([saved for _, saved in parts], length)
    rows = [(words, amount, share(saved, why.saved_ns)) for (words, saved), amount in zip(parts, amounts, strict=True)]
    reasons = row_table("", ("name", f"time saved ({unit})", "of the change"), rows)
    orders = "all orders" if why.every_order else "one order and its reverse"
    how = (
        "Each part of the program after takes the place of that before in the simulation; shares are averages over "
        f"{orders} of the parts."
    )
    return Section("Why", (reasons, Paragraph(how, Tone.ABOUT)), medium=Medium.PAGE)


def _figures(comparison: Comparison) -> nodes.Table:
    """The figures that matter: before, after, and the change, ``same`` where it is none."""
    rows = [
        (name, _cell(figure.before, form), _cell(figure.after, form), _difference(figure))
        for name, figure, form in _shown_figures(comparison)
    ]
    return row_table("", ("name", "before", "after", "difference"), rows)


def _shown_figures(comparison: Comparison) -> Iterator[tuple[str, Figure, Form]]:
    """The figures with their names, in the order of a report."""
    figures = by_key(comparison.figures)
    walls = comparison.wall.before, comparison.wall.after
    least_ns = _SHOWN_SHARE * max(side.median for side in walls if side is not None)

    def matters(figure: Figure) -> bool:
        return any(side is None or side.median >= least_ns for side in (figure.before, figure.after))

    unprofiled = comparison.before.unprofiled
    yield f"time, {'without the profiler' if unprofiled else 'as recorded'}", figures["wall_ns"], time
    for key, name in {"busy_ns": "GPU busy", "kernel_busy_ns": "  kernels", "copy_busy_ns": "  copies"}.items():
        yield name, figures[key], time
    yield "  both at once", figures["hidden_ns"], time
    groups = [key.split(".")[1:3] for key in figures if key.startswith("copies.")]
    for direction, memory in dict.fromkeys(map(tuple, groups)):
        yield from _of_copies(direction, memory, figures, matters)
    yield "host blocked in CUDA calls", figures["blocked_ns"], time
    yield "GPU idle or only copying", figures["idle_or_copying_ns"], time
    yield "  only copying", figures["only_copying_ns"], time
    for cause in Cause:
        figure = figures[f"idle.{cause.name.lower()}_ns"]
        if matters(figure):
            yield f"  {cause.label}", figure, time
    if unprofiled:
        yield "time, as recorded", figures["recorded_ns"], time


def _of_copies(
    direction: str, memory: str, figures: Mapping[str, Figure], matters: Callable[[Figure], bool]
) -> Iterator[tuple[str, Figure, Form]]:
    """The number and bytes of copies of one direction and memory; their times, where these are not next to nothing."""
    count, amount, total, hidden, blocked = (figures[f"copies.{direction}.{memory}.{name}"] for name in _COPIES)
    yield f"{direction} copies, {memory}", count, _number
    yield "  bytes", amount, lambda value: size(round(value))
    for name, figure in {"time": total, "hidden": hidden, "host blocked": blocked}.items():
        if matters(figure):
            yield f"  {name}", figure, time


def _number(value: float) -> str:
    """A count, which is no whole number where it is one of several occurrences'."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _cell(spread: Spread | None, form: Form) -> str:
    """The median of one side, ``-`` for nothing."""
    if spread is None:
        return "?"
    return form(spread.median) if spread.median else "-"


def _difference(figure: Figure) -> str:
    """The change of a figure as a share; ``same`` where it is none, ``gone`` and ``new`` where one side has nothing."""
    if figure.before is None or figure.after is None:
        return "?"
    if not figure.changed:
        return "same"
    if not figure.after.median:
        return "gone"
    return percent(figure.share)


def _lines(lines: Iterator[str]) -> Section:
    """Lines for a terminal, each cut where it is too long."""
    return Section("", tuple(Paragraph(line, Tone.LINE) for line in lines), medium=Medium.TERMINAL)


def _findings(comparison: Comparison) -> Section:
    """The findings by what became of them: on a terminal the most expensive ones that are not the same."""
    rows = [
        (kind, entry.title, _idle(entry), _where(entry))
        for kind, entries in comparison.findings.by_kind.items()
        for entry in entries
    ]
    full: Node = row_table("", ("", "name", "cost", "where"), rows, {*nodes.TEXTS, "", "cost"})
    shown = full if rows else Paragraph("No findings on either side.")
    return Section("Findings", (_lines(_finding_lines(comparison)), Section("", (shown,), medium=Medium.PAGE)))


def _finding_lines(comparison: Comparison) -> Iterator[str]:
    for kind, entries in comparison.findings.by_kind.items():
        if kind != "same":
            yield from (f"{kind:8} {entry.title}: {_idle(entry)}" for entry in entries[:_LISTED])
            if len(entries) > _LISTED:
                yield f"{'':8} {counted(len(entries) - _LISTED, 'more finding')} {kind}"


def _idle(entry: FindingChange) -> str:
    """The time for which the GPU was idle or only copying because of a finding, on the sides that have it."""
    times = [time(side.idle_ns) for side in (entry.before, entry.after) if side is not None]
    return f"GPU idle or only copying for {' -> '.join(times)}"


def _where(entry: FindingChange) -> str:
    side = entry.after or entry.before
    return "" if side is None else side.finding.where.words


def _ranges(comparison: Comparison) -> Section:
    """The ranges with the median of their occurrences on each side, and by how much it differs."""
    rows = [
        (
            entry.name[:_PAGE_NAME_WIDTH],
            "on the host" if entry.on_host else "with its GPU work",
            _median(entry.before),
            _median(entry.after),
            _range_difference(entry),
        )
        for entry in comparison.ranges
    ]
    table = row_table(
        "", ("range", "median time", "before", "after", "difference"), rows, {*nodes.TEXTS, "median time"}
    )
    return Section("Ranges", (table,), medium=Medium.PAGE)


def _median(times: RangeTimes | None) -> str:
    return "-" if times is None else f"{times.occurrences} x {time(times.median_ns)}"


def _range_difference(entry: RangeChange) -> str:
    if entry.before is None or entry.after is None:
        return "new" if entry.before is None else "gone"
    return percent(entry.after.median_ns / entry.before.median_ns - 1) if entry.before.median_ns else "?"


def _work(comparison: Comparison) -> Section:
    """The kernels and copies that one side has, by name."""
    only = comparison.work.only
    rows = [
        (
            entry.kind,
            entry.name[:_PAGE_NAME_WIDTH],
            *(f"{count} ({time(took)})" if count else "-" for count, took in entry.sides),
        )
        for entry in only
    ]
    table = row_table("", ("", "name", "more before", "more after"), rows, {*nodes.TEXTS, ""})
    full = Section("", (table,), medium=Medium.PAGE)
    return Section("Kernels and copies on one side", (_lines(_work_lines(only)), full))


def _work_lines(only: tuple[OnlyOne, ...]) -> Iterator[str]:
    yield from map(_only_one, only[:_LISTED])
    if len(only) > _LISTED:
        yield f"{'':8} {counted(len(only) - _LISTED, 'more name')} on one side; --format json lists them"


def _only_one(entry: OnlyOne) -> str:
    """How often work of one name is on one side only, or more often there."""
    sides = zip(("before", "after"), entry.sides, strict=True)
    counts = [f"{count:,} more {side} ({time(took)})" for side, (count, took) in sides if count]
    return f"{entry.kind:8} {safe(entry.name, _NAME_WIDTH)}: {', '.join(counts)}"
