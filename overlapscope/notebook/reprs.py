"""Traces, diagnoses and predictions as notebooks show them: what a report says, and a small timeline."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from overlapscope.analysis.analysis import Analysis, analyse
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.document.html import Surroundings, html_of
from overlapscope.document.nodes import Bullets, Facts, Figure, Node, Paragraph, Tone, table
from overlapscope.formatting import time
from overlapscope.markup import Html
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.document import audit_document, warnings_of
from overlapscope.report.findings import findings_section, plan_section
from overlapscope.report.prediction import prediction_parts
from overlapscope.whatif.prediction import Prediction

_OF_AUDIT = ("about", "time", "findings", "plan", "when")


def trace_html(trace: Trace) -> str:
    """Where it is from, how many rows its tables have, what is to be known of it, and its timeline."""
    metadata, span = trace.metadata, time(trace.end_ns - trace.start_ns)
    gpus = sorted({device.name for device in metadata.devices if device.name})
    counts = {name: f"{len(rows):,}" for name, rows in trace.tables() if len(rows)}
    about = Facts(tuple(fact for fact in (metadata.tool, ", ".join(gpus), span) if fact), Tone.PLAIN)
    rows = table("", {"table": list(counts), "rows": list(counts.values())}, {"table"})
    return _shown([about, rows, Bullets(warnings_of(trace)), Figure("timeline")], _timeline(analyse(trace)))


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The summary, the findings, what fixing them is worth, and the timeline, with times as recorded."""
    basis = (Paragraph("Times of findings are as recorded.", Tone.ABOUT),) if diagnosis.findings else ()
    return _diagnosis_html(diagnosis, Analysis.of_diagnosis(diagnosis), basis)


def _diagnosis_html(diagnosis: Diagnosis, analysis: Analysis, basis: Sequence[Node] = ()) -> str:
    sections = [findings_section(diagnosis), plan_section(diagnosis)] if diagnosis.findings else []
    parts: list[Node] = [Paragraph(diagnosis.summary, Tone.HEADLINE), *basis, *sections, Figure("timeline")]
    return _shown(parts, _timeline(analysis))


def analysis_html(analysis: Analysis) -> str:
    """What the diagnosis of an analysis says, with the times that its audit states."""
    return _diagnosis_html(analysis.conclusion, analysis)


def audit_html(audit: Audit) -> str:
    """What the report of an audit says, but for its tables, and the timeline."""
    return _shown(audit_document(audit).having(_OF_AUDIT).parts, _timeline(audit.analysis))


def prediction_html(prediction: Prediction) -> str:
    """The sentence, what the predicted time is made of, and the timeline before and after."""
    from overlapscope.plot.timeline import timelines_png

    return _shown(prediction_parts(prediction, {}, None), timelines_png(prediction))


def _shown(parts: Sequence[Node], picture: bytes | None) -> str:
    """Parts of a document without the style of a page, with a picture as their timeline."""
    figures = {} if picture is None else {"timeline": _image(picture)}
    return html_of(parts, Surroundings(figures, styled=False))


def _timeline(analysis: Analysis) -> bytes | None:
    """The picture of an analysis; None without GPU work. Only here matplotlib is loaded."""
    if not any(len(work) for work in analysis.trace.device_work):
        return None
    from overlapscope.plot.timeline import timeline_png

    return timeline_png(analysis)


def _image(png: bytes) -> Html:
    return Html(f'<img alt="timeline" src="data:image/png;base64,{base64.b64encode(png).decode()}">')
