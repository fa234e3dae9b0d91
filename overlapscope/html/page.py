"""A report as one self-contained HTML page: it loads nothing, and runs no script but its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from overlapscope import __version__
from overlapscope.atomic_files import writing
from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.html import sections
from overlapscope.html.bars import packed
from overlapscope.html.colours import colour_rules
from overlapscope.html.document import asset, document
from overlapscope.html.time_bar import time_bars
from overlapscope.markup import Html, tag
from overlapscope.report.data import Audit
from overlapscope.timeline.comparison import View, of_plan

_SCRIPTS = (("bars.js", "picture.js"), ("timeline.js",))
"""What the page's scripts consist of: the painting of bars, and what one does with them."""


def save_report(audit: Audit, path: str | Path) -> None:
    """Write the report of an audit to ``path``.

    Raises:
        OutputError: it cannot be written.
    """
    page = report_html(audit).encode()
    with writing(Path(path)) as file:
        file.write(page)


def report_html(audit: Audit) -> str:
    """The report of an audit: headline, GPU time, plan, timeline before and after, findings, tables, in one page."""
    views = of_plan(audit.diagnosis)
    zero_ns = views[0].zero_ns
    before = (sections.heading(audit), time_bars(audit), sections.plan(audit.diagnosis))
    after = (sections.findings(audit, zero_ns), sections.figures(audit, zero_ns), sections.warnings(audit))
    return page(PurePath(audit.trace.metadata.path).name, before, views, audit.diagnosis.devices, after)


def page(
    title: str, before: Sequence[Html], views: Sequence[View], idle: Sequence[DeviceDiagnosis], after: Sequence[Html]
) -> str:
    """A page with an interactive timeline of some views between two parts of text; ``idle`` is of the first view."""
    bars = packed(views, idle)
    scripts, styles = ["".join(map(asset, names)) for names in _SCRIPTS], [asset("page.css"), colour_rules()]
    stored = {"timeline-about": _json(bars.about), "timeline-names": bars.names}
    stored |= {f"timeline-bars-{number}": data for number, data in enumerate(bars.data)}
    body = (
        *before,
        sections.timeline([view.label for view in views], bars.styles),
        *after,
        tag("footer", f"Made by overlapscope {__version__}."),
        *(tag("script", Html(value), type="application/json", id=name) for name, value in stored.items()),
    )
    return document(f"{title}: overlapscope", body, styles, scripts)


def _json(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
