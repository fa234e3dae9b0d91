"""Why does this GPU program not overlap its copies with compute, and what would fixing it be worth?

    import overlapscope

    analysis = overlapscope.analyse("trace.json.gz")
    print(analysis.audit().verdict)

Names are loaded when they are first used: importing the package imports no numpy, no torch, no matplotlib.
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # read at run time too: these are the public names and their modules
    from overlapscope.analysis.analysis import (
        Analysis as Analysis,
        analyse as analyse,
        doctor as doctor,
        what_if as what_if,
    )
    from overlapscope.analysis.config import Config as Config
    from overlapscope.analysis.tables import (
        copy_table as copy_table,
        finding_table as finding_table,
        gap_table as gap_table,
        range_table as range_table,
        stream_table as stream_table,
    )
    from overlapscope.budget.baseline import read_baseline as read_baseline, write_baseline as write_baseline
    from overlapscope.budget.check import baseline_of as baseline_of, check as check
    from overlapscope.budget.configuration import read_budget as read_budget
    from overlapscope.budget.limits import Budget as Budget
    from overlapscope.capture.annotate import annotate as annotate
    from overlapscope.capture.recorder import record as record
    from overlapscope.comparison.compare import compare as compare
    from overlapscope.comparison.result import Comparison as Comparison
    from overlapscope.diagnosis.finding import Finding as Finding
    from overlapscope.errors import (
        BudgetNotUnderstood as BudgetNotUnderstood,
        CaptureError as CaptureError,
        ChangeNotUnderstood as ChangeNotUnderstood,
        ClusterError as ClusterError,
        OutputError as OutputError,
        OverlapscopeError as OverlapscopeError,
        RangeNotFound as RangeNotFound,
        TraceError as TraceError,
        TraceNotFound as TraceNotFound,
        UnknownTraceFormat as UnknownTraceFormat,
        UnusableTrace as UnusableTrace,
        WindowEmpty as WindowEmpty,
    )
    from overlapscope.fleet.reduce import open_fleet as open_fleet
    from overlapscope.html.page import save_report as save_report
    from overlapscope.measure.windows import Window as Window
    from overlapscope.model.trace import Trace as Trace
    from overlapscope.plot.style import Appearance as Appearance
    from overlapscope.plot.timeline import (
        draw_timeline as draw_timeline,
        draw_timelines as draw_timelines,
        save_timeline as save_timeline,
    )
    from overlapscope.read.opening import open_trace as open_trace
    from overlapscope.report.content import audit as audit
    from overlapscope.report.data import Audit as Audit
    from overlapscope.timeline.caption import caption as caption
    from overlapscope.timeline.view import Shown as Shown
    from overlapscope.whatif.change import Change as Change
    from overlapscope.whatif.changes.batch_copies import BatchCopies as BatchCopies
    from overlapscope.whatif.changes.copy_first import CopyFirst as CopyFirst
    from overlapscope.whatif.changes.cuda_graph import CudaGraph as CudaGraph
    from overlapscope.whatif.changes.faster_link import FasterLink as FasterLink
    from overlapscope.whatif.changes.no_device_sync import NoDeviceSync as NoDeviceSync
    from overlapscope.whatif.changes.no_scalar_sync import NoScalarSync as NoScalarSync
    from overlapscope.whatif.changes.non_blocking import NonBlocking as NonBlocking
    from overlapscope.whatif.changes.pin import Pin as Pin
    from overlapscope.whatif.changes.pin_ahead import PinAhead as PinAhead
    from overlapscope.whatif.changes.preallocate import Preallocate as Preallocate
    from overlapscope.whatif.changes.prefetch import Prefetch as Prefetch
    from overlapscope.whatif.changes.side_stream import SideStream as SideStream
    from overlapscope.whatif.prediction import Prediction as Prediction

__version__ = "0.1.0"


def _modules() -> dict[str, str]:
    """The module of each public name, as the imports above have it."""
    with open(__file__, encoding="utf-8") as file:
        source = file.read()
    imports = next(node for node in ast.parse(source).body if isinstance(node, ast.If)).body
    return {name.name: str(node.module) for node in imports if isinstance(node, ast.ImportFrom) for name in node.names}


_MODULES = _modules()
__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'overlapscope' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
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
        import_module("overlapscope.notebook.magic").register(shell)


_show_in_notebooks()
