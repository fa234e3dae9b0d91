"""The parts of a report's text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from overlapscope.diagnosis.finding import Diagnosis, Finding, Number
from overlapscope.diagnosis.intervals import finding_intervals, longest
from overlapscope.formatting import size, time
from overlapscope.html.colours import colour_of
from overlapscope.markup import Html, tag, together
from overlapscope.report.data import Audit
from overlapscope.report.findings import TOO_LARGE, facts
from overlapscope.report.tables import LEFT, Cells, plan_rows, tables
from overlapscope.timeline.bars import Style

_NAME_WIDTH = 80
_MOST_PLACES = 20  # of a finding that its button goes through, the longest first
_MOVES = (
    ("\N{MINUS SIGN}", "-", "Zoom out"),
    ("+", "+", "Zoom in"),
    ("◀", "ArrowLeft", "Earlier"),
    ("▶", "ArrowRight", "Later"),
    ("whole", "0", "Show everything"),
)
_UNITS: dict[str, Callable[[float], str]] = {
    "_ns": time,
    "_bytes": lambda value: size(int(value)),
    "_gb_s": lambda value: f"{value:.3g} GB/s",
}
"""Endings of names in the evidence, and how such a number is written."""
_HELP = "Wheel zooms, dragging pans; on the keyboard arrows, + - and 0."
_LABEL = "Timeline of host threads and streams. Arrow keys pan and zoom, 0 shows everything."


def heading(audit: Audit) -> Html:
    """What was measured, and the verdict."""
    metadata, window = audit.trace.metadata, audit.window
    gpus = sorted({device.name for device in audit.devices if device.name})
    where = "whole trace" if window.name is None else f"range {window.name}, {len(window.start_ns)} x"
    about = " · ".join([metadata.tool, *gpus, f"{where}, {time(window.wall_ns)}"])
    name = PurePath(metadata.path).name  # its folders are nobody's business
    return together(tag("h1", name), tag("p", about, class_="about"), tag("p", audit.verdict, class_="verdict"))


def plan(diagnosis: Diagnosis) -> Html:
    """What to fix in which order, with the time after each step."""
    found, title = diagnosis.plan, tag("h2", "What the fixes are worth", id="plan")
    if found is None and any(finding.change is not None for finding in diagnosis.findings):
        return together(title, tag("p", TOO_LARGE))
    if found is None or not found.steps:
        return Html("")
    how = "Each step is simulated together with those before it."
    return together(title, table("", plan_rows(found)), tag("p", how, class_="about"))


def timeline(labels: Sequence[str], styles: Sequence[Style]) -> Html:
    """The place of the interactive timeline, its controls and legend."""
    views = [
        tag("button", label, type="button", data_view=number, aria_pressed="false" if number else "true")
        for number, label in enumerate(labels)
    ]
    moves = [
        tag("button", sign, type="button", data_do=key, title=title, aria_label=title) for sign, key, title in _MOVES
    ]
    legend = [tag("li", _swatch(style), style.value) for style in styles]
    controls = (*(views if len(views) > 1 else ()), *moves, tag("span", _HELP, class_="help"))
    return together(
        tag("h2", "Timeline", id="when"),
        tag("div", *controls, class_="controls"),
        tag("div", id="timeline", tabindex="0", role="application", aria_label=_LABEL),
        tag("p", id="said", role="status"),
        tag("ul", *legend, class_="legend"),
        tag("div", id="tip"),
    )


def _swatch(style: Style) -> Html:
    box = tag("rect", width="11", height="8", class_=colour_of(style))
    return tag("svg", box, viewBox="0 0 11 8", aria_hidden="true")


def findings(diagnosis: Diagnosis, zero_ns: int) -> Html:
    """Every finding with its evidence, its fix and its place on the timeline, whose zero is ``zero_ns``."""
    parts = [_finding(finding, diagnosis, zero_ns) for finding in diagnosis.findings]
    return together(tag("h2", "Findings", id="findings"), *(parts or [tag("p", diagnosis.summary)]))


def _finding(finding: Finding, diagnosis: Diagnosis, zero_ns: int) -> Html:
    start, end = finding_intervals(diagnosis, finding)
    count, shown = len(start), longest(start, end, _MOST_PLACES)
    places = [[first - zero_ns, last - zero_ns] for first, last in shown]
    cut = f", the {len(places)} longest first" if count > len(places) else ""
    show = f"Show on the timeline ({count:,} places{cut})" if count > 1 else "Show on the timeline"
    return tag(
        "section",
        tag("h3", f"{finding.rank}. {finding.code} {finding.name}"),
        tag("p", "; ".join(facts(finding, diagnosis.window.wall_ns, blocked=True)), class_="about"),
        tag("p", finding.message),
        tag("p", f"To confirm: {finding.confirm_with}", class_="about") if finding.confirm_with else "",
        tag("button", show, type="button", data_places=json.dumps(places)),
        tag("dl", *_evidence(finding)),
        tag("pre", tag("code", finding.fix)),
        class_=f"finding {finding.severity}",
        id=f"finding-{finding.rank}",
    )


def _evidence(finding: Finding) -> Iterator[Html]:
    where = finding.where.words
    if where:
        yield together(tag("dt", "where"), tag("dd", where))
    for name, value in finding.evidence.items():
        unit = next((unit for unit in _UNITS if name.endswith(unit)), "")
        words = name.removesuffix(unit).replace("_", " ")
        yield together(tag("dt", words), tag("dd", _formatted(unit, value)))


def _formatted(unit: str, value: Number) -> str:
    if value is None:
        return "?"
    if isinstance(value, str | bool):
        return str(value)
    return _UNITS[unit](value) if unit else f"{value:,}"


def figures(audit: Audit) -> Html:
    """The tables of the audit."""
    parts = [table(title, rows) for title, rows in tables(audit, _NAME_WIDTH)]
    return together(tag("h2", "Figures", id="figures"), *parts)


def table(title: str, rows: Sequence[Cells]) -> Html:
    """A table whose columns of words are to the left, those of numbers to the right; empty columns are left out."""
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    classes = {name: None if name in LEFT else "number" for name in used}
    head = tag("tr", *(tag("th", name, class_=kind, scope="col") for name, kind in classes.items()))
    body = [tag("tr", *(tag("td", row[name], class_=kind) for name, kind in classes.items())) for row in rows]
    caption = tag("caption", title) if title else ""
    return tag("div", tag("table", caption, tag("thead", head), tag("tbody", *body)), class_="scroll")


def warnings(audit: Audit) -> Html:
    """What is to be known of the trace before its figures are trusted."""
    entries = [tag("li", f"{entry.severity}: {entry.count:,} {entry.message}") for entry in audit.trace.health]
    if not entries:
        return Html("")
    return together(tag("h2", "About the trace", id="trace"), tag("ul", *entries, class_="warnings"))
