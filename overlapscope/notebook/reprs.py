"""Traces, diagnoses and predictions as notebooks show them: a sentence, a table, a small timeline."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from overlapscope.diagnosis.finding import Diagnosis, Finding
from overlapscope.markup import Html, tag, together
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.plot.before_after import before_after
from overlapscope.plot.style import Appearance
from overlapscope.plot.timeline import figure_of
from overlapscope.replay.prediction import Prediction
from overlapscope.report.data import Audit
from overlapscope.report.tables import plan_rows
from overlapscope.timeline.lanes import work_window
from overlapscope.words import time

_DOTS_PER_IN = 110
_LOOK = Appearance(width="page")
_MOST_FINDINGS = 8


def trace_html(trace: Trace) -> str:
    """Where it is from, how many rows its tables have, what is to be known of it, and its timeline."""
    metadata = trace.metadata
    gpus = ", ".join(sorted({device.name for device in metadata.devices if device.name}))
    span = time(trace.end_ns - trace.start_ns)
    rows = [{"table": name, "rows": f"{len(table):,}"} for name, table in trace.tables() if len(table)]
    warnings = [tag("li", f"{entry.severity}: {entry.message}") for entry in trace.health]
    about = " · ".join(part for part in (metadata.tool, gpus, span) if part)
    return together(tag("p", about), _table(rows), tag("ul", *warnings) if warnings else "", _timeline(trace, None))


def diagnosis_html(found: Diagnosis) -> str:
    """The summary, the findings, what mending them is worth, and the timeline."""
    findings = [_row(finding) for finding in found.findings[:_MOST_FINDINGS]]
    plan = plan_rows(found.plan) if found.plan is not None and found.plan.steps else []
    window = found.window if len(found.window.start_ns) else None
    parts = (tag("p", tag("strong", found.summary)), _table(findings), _table(plan), _timeline(found.trace, window))
    return together(*parts)


def audit_html(found: Audit) -> str:
    """The verdict, and the diagnosis."""
    return together(tag("p", tag("strong", found.verdict)), Html(diagnosis_html(found.diagnosis)))


def prediction_html(found: Prediction) -> str:
    """The sentence, what the predicted time is made of, and the timeline before and after."""
    rows = [{"on the critical path": name, "time": time(ns)} for name, ns in found.made_of.items()]
    basis = [tag("li", entry) for entry in found.basis]
    picture = _image(lambda: before_after(found, look=_LOOK))
    return together(tag("p", tag("strong", found.sentence)), picture, _table(rows), tag("ul", *basis))


def _row(finding: Finding) -> dict[str, object]:
    return {
        "finding": f"{finding.code} {finding.name}",
        "says": together(tag("div", finding.message), tag("div", finding.where.words), tag("pre", finding.fix)),
        "lost": time(finding.lost_ns) if finding.lost_ns else "",
        "change": finding.change or "",
        "saves": time(finding.saving_ns) if finding.saving_ns is not None else "",
    }


def _table(rows: Sequence[Mapping[str, object]]) -> Html:
    if not rows:
        return Html("")
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    head = tag("tr", *(tag("th", name, style="text-align: left") for name in names))
    body = [tag("tr", *(tag("td", row[name], style="text-align: left") for name in names)) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", *body))


def _timeline(trace: Trace, window: Window | None) -> Html:
    if not any(len(table) for table in trace.device_work):
        return Html("")
    stretch = work_window(trace) if window is None else (window.first_ns, window.last_ns)
    return _image(lambda: figure_of(trace, stretch, look=_LOOK))


def _image(draw: Callable[[], Any]) -> Html:
    file = io.BytesIO()
    draw().savefig(file, format="png", dpi=_DOTS_PER_IN)
    data = base64.b64encode(file.getvalue()).decode()
    return Html(f'<img alt="timeline" src="data:image/png;base64,{data}">')
