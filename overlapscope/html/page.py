"""A document as one self-contained HTML page, with an interactive timeline in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path, PurePath
from string import Template
from typing import Any

from overlapscope.analysis.analysis import Source
from overlapscope.atomic_files import writing
from overlapscope.comparison.document import comparison_document, views_of
from overlapscope.comparison.result import Comparison
from overlapscope.document.html import Surroundings, html_of, swatch
from overlapscope.document.nodes import Document
from overlapscope.html.frame import asset, framed
from overlapscope.html.packing import packed
from overlapscope.markup import Html, tag, together
from overlapscope.report.content import audit
from overlapscope.report.data import Audit
from overlapscope.report.document import audit_document
from overlapscope.timeline.bars import Style
from overlapscope.timeline.comparison import View, of_plan

_SCRIPTS = ("bars.js picture.js", "timeline.js")
"""The assets of the page's scripts: the painting of bars, and what one does with them."""
_SECTIONS = ("about", "time", "plan", "when", "findings", "figures", "trace")
"""The sections of a report: the plan stands before the timeline that shows it."""


def save_report(source: Source | Audit, path: str | PathLike[str]) -> None:
    """Write the report of a trace, an analysis or an audit to ``path``, as one page.

    Raises:
        OutputError: it cannot be written.
    """
    page = report_html(source if isinstance(source, Audit) else audit(source)).encode()
    with writing(Path(path)) as file:
        file.write(page)


def report_html(audited: Audit) -> str:
    """The report of an audit: headline, GPU time, plan, timeline before and after, findings, tables, in one page."""
    document = audit_document(audited, with_places=True).having(_SECTIONS)
    return page(document, of_plan(audited.analysis, audited.diagnosis))


def save_comparison(comparison: Comparison, path: str | PathLike[str]) -> None:
    """Write the page of a comparison to ``path``.

    Raises:
        OutputError: it cannot be written.
    """
    text = comparison_html(comparison).encode()
    with writing(Path(path)) as file:
        file.write(text)


def comparison_html(comparison: Comparison) -> str:
    """A comparison: the sentence, the reasons, figures, the two timelines, findings, ranges and work of one side."""
    sides = comparison.before, comparison.after
    name = " against ".join(PurePath(side.typical.trace.metadata.path).name for side in sides)
    return page(comparison_document(comparison), views_of(comparison), name)


def page(document: Document, views: Sequence[View], name: str = "") -> str:
    """A document as a page whose figure ``timeline`` shows some views.

    A browser shows ``name``, or the title of the document.
    """
    bars = packed(views)
    stored = {"timeline-about": _json(bars.description), "timeline-names": bars.names}
    stored |= {f"timeline-bars-{number}": data for number, data in enumerate(bars.data)}
    timeline = _timeline([view.label for view in views], bars.styles)
    body = (
        html_of(document, Surroundings({"timeline": timeline}, views[0].zero_ns)),
        *(tag("script", Html(value), type="application/json", id=name) for name, value in stored.items()),
    )
    return framed(name or document.title, body, scripts=_SCRIPTS)


def _json(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _timeline(labels: Sequence[str], styles: Sequence[Style]) -> Html:
    """The place of the interactive timeline, its controls and legend."""
    views = [
        tag("button", label, type="button", data_view=number, aria_pressed="false" if number else "true")
        for number, label in enumerate(labels)
    ]
    legend = together(*(tag("li", swatch(style.value), style.value) for style in styles))
    shown = together(*views) if len(views) > 1 else ""
    return Html(Template(asset("timeline.html")).substitute(views=shown, legend=legend))
