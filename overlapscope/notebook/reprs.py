"""Traces, diagnoses and predictions as notebooks show them: a sentence, a table, a small timeline."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from overlapscope.diagnosis.finding import Diagnosis, Finding, Plan
from overlapscope.formatting import time
from overlapscope.markup import Html, tag, together
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.findings import plan_title, worth
from overlapscope.report.tables import plan_rows, time_rows
from overlapscope.whatif.prediction import Prediction

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
    """The summary, the findings, what fixing them is worth, and the timeline."""
    findings = [_row(finding, found.plan) for finding in found.findings[:_MOST_FINDINGS]]
    plan = plan_rows(found.plan) if found.plan is not None and found.plan.steps else []
    window = (found.window.first_ns, found.window.last_ns) if len(found.window.start_ns) else None
    title = tag("p", plan_title(found.plan)) if plan and found.plan is not None else ""
    return together(
        tag("p", tag("strong", found.summary)), _table(findings), title, _table(plan), _timeline(found.trace, window)
    )


def audit_html(found: Audit) -> str:
    """The headline, the verdict, the time of each GPU, and the diagnosis."""
    if not found.devices:
        return tag("p", tag("strong", found.verdict))
    said = tag("p", tag("strong", found.headline)) if found.headline else ""
    return together(
        said, tag("p", found.verdict), _table(time_rows(found.devices)), Html(diagnosis_html(found.diagnosis))
    )


def prediction_html(found: Prediction) -> str:
    """The sentence, what the predicted time is made of, and the timeline before and after."""
    from overlapscope import before_after_png

    rows = [{"on the critical path": name, "time": time(ns)} for name, ns in found.made_of.items()]
    assumptions = [tag("li", entry) for entry in (*found.assumptions, *found.wide)]
    picture = _image(before_after_png(found))
    return together(tag("p", tag("strong", found.sentence)), picture, _table(rows), tag("ul", *assumptions))


def _row(finding: Finding, plan: Plan | None) -> dict[str, object]:
    fix = tag("pre", finding.fix) if finding.offered else ""
    lines = [finding.message, finding.where.words, *worth(finding, plan)]
    return {
        "finding": finding.title,
        "GPU idle": time(finding.idle_ns) if finding.idle_ns else "",
        "severity": str(finding.severity),
        "confidence": str(finding.confidence),
        "says": together(*(tag("div", line) for line in lines if line), fix),
    }


def _table(rows: Sequence[Mapping[str, object]]) -> Html:
    if not rows:
        return Html("")
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    head = tag("tr", *(tag("th", name, style="text-align: left") for name in names))
    body = [tag("tr", *(tag("td", row[name], style="text-align: left") for name in names)) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", *body))


def _timeline(trace: Trace, window: tuple[int, int] | None) -> Html:
    """Its picture; matplotlib is loaded when there is one to draw."""
    if not any(len(table) for table in trace.device_work):
        return Html("")
    from overlapscope import timeline_png

    return _image(timeline_png(trace, window))


def _image(png: bytes) -> Html:
    return Html(f'<img alt="timeline" src="data:image/png;base64,{base64.b64encode(png).decode()}">')
