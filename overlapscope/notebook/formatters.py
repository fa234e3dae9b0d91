"""Tell IPython how to show our objects, without importing what draws them before one is shown."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_SHOWN = {
    "Trace": ("overlapscope.model.trace", "trace_html"),
    "Audit": ("overlapscope.report.data", "audit_html"),
    "Diagnosis": ("overlapscope.diagnosis.finding", "diagnosis_html"),
    "Prediction": ("overlapscope.whatif.prediction", "prediction_html"),
}


def register(shell: Any) -> None:
    """Let a running IPython show traces, audits, diagnoses and predictions with tables and a timeline."""
    formatter = shell.display_formatter.formatters["text/html"]
    for name, (module, function) in _SHOWN.items():
        formatter.for_type_by_name(module, name, _later(function))


def _later(function: str) -> Callable[[Any], str]:
    def show(found: Any) -> str:
        shown: str = getattr(import_module("overlapscope.notebook.reprs"), function)(found)
        return shown

    return show
