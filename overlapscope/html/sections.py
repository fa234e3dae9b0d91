"""The parts of a report's text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from overlapscope.diagnosis.finding import Diagnosis, Finding, Number
from overlapscope.formatting import size, time
from overlapscope.html.colours import colour_of, swatch
from overlapscope.html.explanation import explanation
from overlapscope.html.places import Places, of_finding, of_rows
from overlapscope.markup import Html, tag, together
from overlapscope.report.data import Audit
from overlapscope.report.findings import NOT_SIMULATED, facts, notes, plan_title, worth
from overlapscope.report.findings import heading as order
from overlapscope.report.tables import LEFT, Cells, plan_rows, tables
from overlapscope.timeline.bars import Style

_NAME_WIDTH = 80
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
_LABEL = "Timeline of host threads and streams. Arrow keys pan and zoom, 0 shows everything, dot selects a bar."
_HELP = (
    ("Ctrl + wheel, + and -", "zoom"),
    ("Shift + wheel, Shift + drag, ◀ and ▶", "move"),
    ("drag; m", "measure, the ends snap to bars; measure the selected bar, or on to it"),
    ("click", "details of a bar"),
    (". and ,", "next and previous bar of the lane"),
    ("] and [", "lane below and above"),
    ("l", "go to the launch"),
    ("Enter", "zoom to what was measured or selected"),
    ("/ n p", "search, next, previous"),
    ("0", "show everything"),
    ("Escape", "clear"),
)
_MERGED = (
    "Bars shorter than a pixel share it: the height of each colour is the share of the time that it fills. What fills"
    " next to nothing is pale, one pixel high."
)


def heading(audit: Audit) -> Html:
    """What was measured, the headline, and the verdict about the copies."""
    metadata, window = audit.trace.metadata, audit.window
    gpus = sorted({device.name for device in audit.devices if device.name})
    where = "whole trace" if window.name is None else f"range {window.name}, {len(window.start_ns)} x"
    about = " · ".join([metadata.tool, *gpus, f"{where}, {time(window.wall_ns)}"])
    name = PurePath(metadata.path).name  # its folders are nobody's business
    said = tag("p", audit.headline, class_="headline") if audit.headline else ""
    fit = tag("p", audit.fit.statement, class_="about")
    verdict = tag("p", audit.verdict, class_="verdict")
    return together(tag("h1", name), tag("p", about, class_="about"), fit, said, verdict)


def plan(diagnosis: Diagnosis) -> Html:
    """What to fix in which order, with the time after each step."""
    found, title = diagnosis.plan, tag("h2", "What the fixes are worth", id="plan")
    if found is None and any(finding.change is not None for finding in diagnosis.findings):
        return together(title, tag("p", NOT_SIMULATED))
    if found is None or not found.steps:
        return Html("")
    said = (tag("p", line) for line in notes(found))
    return together(title, table(plan_title(found), plan_rows(found)), *said)


def timeline(labels: Sequence[str], styles: Sequence[Style]) -> Html:
    """The place of the interactive timeline, its controls and legend."""
    views = [
        tag("button", label, type="button", data_view=number, aria_pressed="false" if number else "true")
        for number, label in enumerate(labels)
    ]
    moves = [
        tag("button", sign, type="button", data_do=key, title=title, aria_label=title) for sign, key, title in _MOVES
    ]
    legend = [tag("li", swatch(colour_of(style)), style.value) for style in styles]
    canvases = (tag("canvas", id="axis"), tag("div", id="gutter"), tag("canvas", id="bars"))
    return together(
        tag("h2", "Timeline", id="when"),
        tag("div", *(views if len(views) > 1 else ()), *moves, *_search(), class_="controls"),
        tag("div", *canvases, id="timeline", tabindex="0", role="application", aria_label=_LABEL),
        tag("aside", id="details", aria_label="Details of the selected bar", aria_live="polite", hidden=""),
        tag("p", id="said", role="status"),
        tag("p", id="left-out", class_="about"),
        tag("ul", *legend, class_="legend"),
        _help(),
        tag("div", id="tip"),
    )


def _search() -> Iterator[Html]:
    yield tag("input", type="search", id="sought", placeholder="Search names", aria_label="Search names of bars")
    for key, sign, title in (("p", "▲", "Previous found bar"), ("n", "▼", "Next found bar")):
        yield tag("button", sign, type="button", data_do=key, title=title, aria_label=title)
    yield tag("span", id="found", role="status")


def _help() -> Html:
    entries = [part for keys, use in _HELP for part in (tag("dt", keys), tag("dd", use))]
    return tag("details", tag("summary", "Keys and mouse"), tag("dl", *entries), tag("p", _MERGED), class_="help")


def findings(audit: Audit, zero_ns: int) -> Html:
    """Every finding with its evidence, its fix and its place on the timeline, whose zero is ``zero_ns``."""
    if not audit.devices:  # the verdict says why
        return Html("")
    found = audit.diagnosis.findings
    codes = [finding.code for finding in found]
    parts = [
        _finding(finding, audit, zero_ns, explained=codes.index(finding.code) == number)
        for number, finding in enumerate(found)
    ]
    title = tag("h2", "Findings", id="findings")
    if not parts:
        return together(title, tag("p", audit.diagnosis.summary))
    return together(title, tag("p", order(audit.diagnosis), class_="about"), *parts)


def _finding(finding: Finding, audit: Audit, zero_ns: int, *, explained: bool) -> Html:
    """A finding; ``explained`` with the page of its rule, which stands at the first of a code only."""
    places = of_finding(audit, finding)
    cut = f", the {len(places.longest)} longest first" if places.count > len(places.longest) else ""
    show = f"Show on the timeline ({places.count:,} places{cut})" if places.count > 1 else "Show on the timeline"
    return tag(
        "section",
        tag("h3", f"{finding.rank}. {finding.title}"),
        tag("p", "; ".join(facts(finding, audit.diagnosis, blocked=True)), class_="about"),
        tag("p", finding.message),
        tag("p", f"To confirm: {finding.confirm_with}", class_="about") if finding.confirm_with else "",
        _jump(show, places, zero_ns, counts=True),
        tag("dl", *_evidence(finding)),
        *(tag("p", text) for text in worth(finding, audit.diagnosis.plan)),
        tag("pre", tag("code", finding.fix)) if finding.offered else "",
        explanation(finding.code) if explained else "",
        class_=f"finding {finding.severity}",
        data_code=finding.code,
        id=f"finding-{finding.rank}",
    )


def _evidence(finding: Finding) -> Iterator[Html]:
    """Where it is, and figures that its message does not have; nothing of what is zero."""
    where = finding.where.words
    if where:
        yield together(tag("dt", "where"), tag("dd", where))
    for name, value in finding.evidence.items():
        unit = next((unit for unit in _UNITS if name.endswith(unit)), "")
        words, text = name.removesuffix(unit).replace("_", " "), _formatted(unit, value)
        if value != 0 and not re.search(rf"(?<![\w.]){re.escape(text)}(?!\w)", finding.message):
            yield together(tag("dt", words), tag("dd", text))


def _formatted(unit: str, value: Number) -> str:
    if value is None:
        return "?"
    if isinstance(value, str | bool):
        return str(value)
    return _UNITS[unit](value) if unit else f"{value:,}"


def _jump(label: str, places: Places, zero_ns: int, *, counts: bool) -> Html:
    """A button that shows places on the timeline; with ``counts`` it says which one is shown."""
    shown = json.dumps([[first - zero_ns, last - zero_ns] for first, last in places.longest])
    counted, title = ("yes", None) if counts else (None, "Show on the timeline, the longest first")
    attributes = {"data_places": shown, "data_counts": counted, "title": title, "aria_label": title}
    return tag("button", label, type="button", disabled=None if places.count else "", **attributes)


def figures(audit: Audit, zero_ns: int) -> Html:
    """The tables of the audit. Rows that are somewhere on the timeline, whose zero is ``zero_ns``, lead there."""
    parts = []
    for of, title, rows in tables(audit, _NAME_WIDTH):
        places = of_rows(audit, of, rows)
        leads = [_jump("▸", place, zero_ns, counts=False) for place in places]
        parts.append(table(title, rows, leads))
    return together(tag("h2", "Figures", id="figures"), *parts)


def table(title: str, rows: Sequence[Cells], leads: Sequence[Html] = ()) -> Html:
    """A table whose columns of words are to the left, those of numbers to the right; empty columns are left out.

    ``leads`` are buttons, one before each row.
    """
    used = [name for name in rows[0] if any(row[name] for row in rows)]
    classes = {name: None if name in LEFT else "number" for name in used}
    head = [tag("th", name, class_=kind, scope="col") for name, kind in classes.items()]
    body = [[tag("td", row[name], class_=kind) for name, kind in classes.items()] for row in rows]
    if leads:
        head.insert(0, tag("td", class_="lead"))
        body = [[tag("td", lead, class_="lead"), *cells] for lead, cells in zip(leads, body, strict=True)]
    caption = tag("caption", title) if title else ""
    content = (caption, tag("thead", tag("tr", *head)), tag("tbody", *(tag("tr", *cells) for cells in body)))
    return tag("div", tag("table", *content), class_="scroll")


def warnings(audit: Audit) -> Html:
    """What is to be known of the trace before its figures are trusted."""
    health = audit.trace.health
    shown = [entry for entry in health if entry.message != health.no_device_work]  # that is the verdict
    entries = [tag("li", f"{entry.severity}: {entry.text}") for entry in shown]
    if not entries:
        return Html("")
    return together(tag("h2", "About the trace", id="trace"), tag("ul", *entries, class_="warnings"))
