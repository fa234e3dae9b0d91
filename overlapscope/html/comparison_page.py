"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from overlapscope.atomic_files import writing
from overlapscope.comparison.findings import FindingChange
from overlapscope.comparison.ranges import RangeChange
from overlapscope.comparison.result import Comparison
from overlapscope.comparison.rows import figure_rows
from overlapscope.comparison.sentences import percent
from overlapscope.comparison.side import Side
from overlapscope.comparison.text import idle
from overlapscope.comparison.views import views_of
from overlapscope.formatting import counted, numbers, share, time, time_unit
from overlapscope.html.page import page
from overlapscope.html.sections import table
from overlapscope.markup import Html, tag, together
from overlapscope.report.tables import Cells

_NAME_WIDTH = 80
_INDENT = 4 * "\N{NO-BREAK SPACE}"


def save_comparison(found: Comparison, path: str | Path) -> None:
    """Write a comparison to ``path``.

    Raises:
        OutputError: it cannot be written.
    """
    text = comparison_html(found).encode()
    with writing(Path(path)) as file:
        file.write(text)


def comparison_html(found: Comparison) -> str:
    """A comparison: the sentence, the reasons, figures, the two timelines, findings, ranges and work of one side."""
    names = [PurePath(side.typical.trace.metadata.path).name for side in (found.before, found.after)]
    devices = found.before.typical.audit.diagnosis.devices
    rows = [row | {"name": row["name"].replace("  ", _INDENT)} for row in figure_rows(found)]
    before = (_heading(found, names), _reasons(found), together(tag("h2", "Figures"), table("", rows)))
    return page(
        " against ".join(names), before, views_of(found), devices, (_findings(found), _ranges(found), _work(found))
    )


def _heading(found: Comparison, names: Sequence[str]) -> Html:
    said = [tag("li", remark.message) for remark in found.remarks]
    about = (
        f"{label}: {_about(side, name)}"
        for label, side, name in zip(("before", "after"), (found.before, found.after), names, strict=True)
    )
    return together(
        tag("h1", "Before and after"),
        *(tag("p", text, class_="about") for text in about),
        tag("ul", *said, class_="warnings") if said else "",
        tag("p", found.sentence, class_="headline"),
    )


def _about(side: Side, name: str) -> str:
    run = side.typical
    several = f", the typical one of {counted(len(side.runs), 'trace')}" if len(side.runs) > 1 else ""
    window = "whole trace" if run.window.name is None else f"range {run.window.name}, {run.occurrences} x"
    return f"{name}{several} · {run.trace.metadata.tool} · {window}"


def _reasons(found: Comparison) -> Html:
    """What each part makes of the change, and what is unexplained."""
    why = found.why
    if why is None:
        return Html("")
    parts = [(reason.words, reason.saved_ns) for reason in why.reasons] + [("unexplained", why.unexplained_ns)]
    length, unit = time_unit([why.saved_ns])
    texts = numbers([saved for _, saved in parts], length)
    rows: list[Cells] = [
        {"name": name, f"time saved ({unit})": text, "of the change": share(saved, why.saved_ns)}
        for (name, saved), text in zip(parts, texts, strict=True)
    ]
    orders = "all orders" if why.every_order else "one order and its reverse"
    how = (
        "Each part of the program after takes the place of that before in the simulation; shares are averages over "
        f"{orders} of the parts."
    )
    return together(tag("h2", "Why"), table("", rows), tag("p", how, class_="about"))


def _findings(found: Comparison) -> Html:
    kinds = {"gone": found.findings.gone, "new": found.findings.new, "changed": found.findings.changed}
    kinds["same"] = found.findings.same
    rows = [row for kind, entries in kinds.items() for row in _finding_rows(kind, entries)]
    return together(tag("h2", "Findings"), table("", rows) if rows else tag("p", "No findings on either side."))


def _finding_rows(kind: str, entries: Sequence[FindingChange]) -> Iterator[Cells]:
    for entry in entries:
        side = entry.after or entry.before
        where = "" if side is None else side.finding.where.words
        yield {"": kind, "name": entry.title, "cost": idle(entry), "where": where}


def _ranges(found: Comparison) -> Html:
    """Ranges with the median of their occurrences on each side, and by how much it differs."""
    rows: list[Cells] = [
        {
            "range": entry.name[:_NAME_WIDTH],
            **{
                label: "-" if times is None else f"{times.occurrences} x {time(times.median_ns)}"
                for label, times in (("before", entry.before), ("after", entry.after))
            },
            "difference": _range_difference(entry),
        }
        for entry in found.ranges
    ]
    return together(tag("h2", "Ranges"), table("", rows)) if rows else Html("")


def _range_difference(entry: RangeChange) -> str:
    if entry.before is None or entry.after is None:
        return "new" if entry.before is None else "gone"
    return percent(entry.after.median_ns / entry.before.median_ns - 1) if entry.before.median_ns else "?"


def _work(found: Comparison) -> Html:
    rows: list[Cells] = [
        {
            "": entry.kind,
            "name": entry.name[:_NAME_WIDTH],
            "more before": f"{entry.before} ({time(entry.before_ns)})" if entry.before else "-",
            "more after": f"{entry.after} ({time(entry.after_ns)})" if entry.after else "-",
        }
        for entry in found.work.only
    ]
    return together(tag("h2", "Kernels and copies on one side"), table("", rows)) if rows else Html("")
