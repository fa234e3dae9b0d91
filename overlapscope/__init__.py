"""Why does this GPU program not overlap its copies with compute, and what would fixing it be worth?

    import overlapscope

    trace = overlapscope.open_trace("trace.json.gz")
    print(overlapscope.audit(trace).verdict)

Names are loaded when they are first used: importing the package imports no numpy, no torch, no matplotlib.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlapscope.capture.annotate import annotate
    from overlapscope.capture.recorder import record
    from overlapscope.diagnosis.engine import diagnose
    from overlapscope.diagnosis.finding import Diagnosis
    from overlapscope.errors import OverlapscopeError
    from overlapscope.measure.definitions import their_overlap
    from overlapscope.measure.windows import Window
    from overlapscope.model.trace import Trace
    from overlapscope.plot.before_after import before_after_png
    from overlapscope.plot.timeline import draw_timeline, save_timeline, timeline_png
    from overlapscope.read.opening import open_trace
    from overlapscope.replay.prediction import Prediction
    from overlapscope.replay.what_if import what_if
    from overlapscope.report.content import audit
    from overlapscope.report.data import Audit

__version__ = "0.1.0"

_HOMES = {
    "Audit": "overlapscope.report.data",
    "Diagnosis": "overlapscope.diagnosis.finding",
    "OverlapscopeError": "overlapscope.errors",
    "Prediction": "overlapscope.replay.prediction",
    "Trace": "overlapscope.model.trace",
    "Window": "overlapscope.measure.windows",
    "annotate": "overlapscope.capture.annotate",
    "audit": "overlapscope.report.content",
    "before_after_png": "overlapscope.plot.before_after",
    "diagnose": "overlapscope.diagnosis.engine",
    "draw_timeline": "overlapscope.plot.timeline",
    "open_trace": "overlapscope.read.opening",
    "record": "overlapscope.capture.recorder",
    "save_timeline": "overlapscope.plot.timeline",
    "their_overlap": "overlapscope.measure.definitions",
    "timeline_png": "overlapscope.plot.timeline",
    "what_if": "overlapscope.replay.what_if",
}

__all__ = [
    "Audit",
    "Diagnosis",
    "OverlapscopeError",
    "Prediction",
    "Trace",
    "Window",
    "annotate",
    "audit",
    "before_after_png",
    "diagnose",
    "draw_timeline",
    "open_trace",
    "record",
    "save_timeline",
    "their_overlap",
    "timeline_png",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'overlapscope' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext overlapscope``: the magic ``%%overlap``, which records a cell and says what its copies cost."""
    import_module("overlapscope.notebook.magic").load(ipython)


def _show_in_notebooks() -> None:
    """Where IPython runs already, it shows our objects as more than a line."""
    running = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = running() if running is not None else None
    if getattr(shell, "display_formatter", None) is not None:
        import_module("overlapscope.notebook.formatters").register(shell)


_show_in_notebooks()
