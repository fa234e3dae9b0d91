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
    from overlapscope.budget.baseline import Baseline
    from overlapscope.budget.check import baseline_of, check
    from overlapscope.budget.figure import Cost
    from overlapscope.budget.files import read_baseline, read_budget, write_baseline
    from overlapscope.budget.limits import Budget, Limit, Limits, Tolerance, Tolerances, Unit
    from overlapscope.budget.result import Against, CheckResult, Outcome, Status
    from overlapscope.calibration.schema import (
        Calibration,
        CopyConsumers,
        CopyTime,
        D2HConsumers,
        DuplexTime,
        Gpu,
        IssueCost,
        Loader,
        Packing,
        PackTime,
        PcieLink,
        PostStaging,
        TimedSteps,
    )
    from overlapscope.capture.annotate import annotate
    from overlapscope.capture.recorder import record
    from overlapscope.comparison.compare import compare
    from overlapscope.comparison.config import CompareConfig
    from overlapscope.comparison.figures import Figure, Spread
    from overlapscope.comparison.findings import FindingChange, FindingChanges, SideFinding
    from overlapscope.comparison.ranges import RangeChange, RangeTimes
    from overlapscope.comparison.reached import Reached
    from overlapscope.comparison.remarks import Remark
    from overlapscope.comparison.result import Comparison
    from overlapscope.comparison.side import Run, Side
    from overlapscope.comparison.swaps import Part
    from overlapscope.comparison.why import Reason, Why
    from overlapscope.comparison.work import OnlyOne, Work
    from overlapscope.dependencies.config import DependencyConfig
    from overlapscope.dependencies.critical_path import CriticalPath
    from overlapscope.dependencies.graph import Dependencies, Graph
    from overlapscope.dependencies.kinds import DependencyKind
    from overlapscope.dependencies.simulate import Simulation
    from overlapscope.diagnosis.causes import Cause, CauseGroup, IdleByCause, IdleTime
    from overlapscope.diagnosis.config import DiagnosisConfig
    from overlapscope.diagnosis.finding import (
        Confidence,
        DeviceDiagnosis,
        Diagnosis,
        Expected,
        Finding,
        Place,
        Plan,
        Severity,
        Share,
        Step,
    )
    from overlapscope.diagnosis.gpu_time import GpuTime, TimePart
    from overlapscope.diagnosis.run import diagnose
    from overlapscope.errors import (
        BudgetNotUnderstood,
        CaptureError,
        ChangeNotUnderstood,
        ClusterError,
        OutputError,
        OverlapscopeError,
        RangeNotFound,
        TraceError,
        TraceNotFound,
        UnknownTraceFormat,
        UnusableTrace,
        WindowEmpty,
    )
    from overlapscope.fitness.answer import Answer, Answered, Check, Verdict
    from overlapscope.fitness.config import FitnessConfig
    from overlapscope.fitness.fitness import Fitness, doctor
    from overlapscope.fitness.settings import Setting
    from overlapscope.fleet.opening import Fleet, open_fleet
    from overlapscope.measure.ceiling import Ceiling
    from overlapscope.measure.definitions import TheirFigures, their_overlap
    from overlapscope.measure.devices import Activity, DeviceKey
    from overlapscope.measure.groups import CopyGroup
    from overlapscope.measure.host import HostBlocking, HostConfig
    from overlapscope.measure.launches import LaunchConfig, LaunchFigures
    from overlapscope.measure.ranges import RangeFigures
    from overlapscope.measure.spans import Spans
    from overlapscope.measure.staging import Staging, StagingConfig
    from overlapscope.measure.windows import Window
    from overlapscope.model.columns import Column, Names, Table
    from overlapscope.model.enums import Labelled, MemoryKind
    from overlapscope.model.health import Health, HealthSeverity, HealthWarning
    from overlapscope.model.metadata import Device, Metadata
    from overlapscope.model.tables import (
        ApiCalls,
        Copies,
        CpuOps,
        DeviceWork,
        EventRecords,
        EventWaits,
        Frames,
        Kernels,
        Memsets,
        Modules,
        Overheads,
        Ranges,
        Streams,
        Syncs,
    )
    from overlapscope.model.trace import Trace
    from overlapscope.plot.before_after import before_after, before_after_png
    from overlapscope.plot.style import Appearance
    from overlapscope.plot.timeline import draw_timeline, save_timeline, timeline_png
    from overlapscope.read.opening import open_trace
    from overlapscope.report.content import AuditConfig, audit
    from overlapscope.report.copy_table import CopyTable, copy_table
    from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit, Occurrence, StreamFigures
    from overlapscope.report.finding_table import FindingTable, finding_table
    from overlapscope.report.gap_table import GapTable, gap_table
    from overlapscope.report.range_table import RangeTable, range_table
    from overlapscope.report.stream_table import StreamTable, stream_table
    from overlapscope.timeline.caption import caption
    from overlapscope.timeline.shown import Shown
    from overlapscope.whatif.change import Bounds, Change
    from overlapscope.whatif.changes.batch_copies import BatchCopies
    from overlapscope.whatif.changes.copy_first import CopyFirst
    from overlapscope.whatif.changes.cuda_graph import CudaGraph
    from overlapscope.whatif.changes.faster_link import FasterLink
    from overlapscope.whatif.changes.no_scalar_sync import NoScalarSync
    from overlapscope.whatif.changes.non_blocking import NonBlocking
    from overlapscope.whatif.changes.pin import Pin
    from overlapscope.whatif.changes.pin_ahead import PinAhead
    from overlapscope.whatif.changes.preallocate import Preallocate
    from overlapscope.whatif.changes.prefetch import Prefetch
    from overlapscope.whatif.changes.side_stream import SideStream
    from overlapscope.whatif.config import ProfilerConfig, SimulationConfig
    from overlapscope.whatif.editor import Editor, Where
    from overlapscope.whatif.prediction import Prediction, Unprofiled
    from overlapscope.whatif.what_if import what_if

__version__ = "0.1.0"

_MODULES = {
    "budget.baseline": "Baseline",
    "budget.check": "baseline_of check",
    "budget.figure": "Cost",
    "budget.files": "read_baseline read_budget write_baseline",
    "budget.limits": "Budget Limit Limits Tolerance Tolerances Unit",
    "budget.result": "Against CheckResult Outcome Status",
    "calibration.schema": "Calibration CopyConsumers CopyTime D2HConsumers DuplexTime Gpu IssueCost Loader Packing "
    "PackTime PcieLink PostStaging TimedSteps",
    "capture.annotate": "annotate",
    "capture.recorder": "record",
    "comparison.compare": "compare",
    "comparison.config": "CompareConfig",
    "comparison.figures": "Figure Spread",
    "comparison.findings": "FindingChange FindingChanges SideFinding",
    "comparison.ranges": "RangeChange RangeTimes",
    "comparison.reached": "Reached",
    "comparison.remarks": "Remark",
    "comparison.result": "Comparison",
    "comparison.side": "Run Side",
    "comparison.swaps": "Part",
    "comparison.why": "Reason Why",
    "comparison.work": "OnlyOne Work",
    "dependencies.config": "DependencyConfig",
    "dependencies.critical_path": "CriticalPath",
    "dependencies.graph": "Dependencies Graph",
    "dependencies.kinds": "DependencyKind",
    "dependencies.simulate": "Simulation",
    "diagnosis.causes": "Cause CauseGroup IdleByCause IdleTime",
    "diagnosis.config": "DiagnosisConfig",
    "diagnosis.finding": "Confidence DeviceDiagnosis Diagnosis Expected Finding Place Plan Severity Share Step",
    "diagnosis.gpu_time": "GpuTime TimePart",
    "diagnosis.run": "diagnose",
    "errors": "BudgetNotUnderstood CaptureError ChangeNotUnderstood ClusterError OutputError OverlapscopeError "
    "RangeNotFound TraceError TraceNotFound UnknownTraceFormat UnusableTrace WindowEmpty",
    "fitness.answer": "Answer Answered Check Verdict",
    "fitness.config": "FitnessConfig",
    "fitness.fitness": "Fitness doctor",
    "fitness.settings": "Setting",
    "fleet.opening": "Fleet open_fleet",
    "measure.definitions": "TheirFigures their_overlap",
    "measure.ceiling": "Ceiling",
    "measure.devices": "Activity DeviceKey",
    "measure.groups": "CopyGroup",
    "measure.host": "HostBlocking HostConfig",
    "measure.launches": "LaunchConfig LaunchFigures",
    "measure.ranges": "RangeFigures",
    "measure.spans": "Spans",
    "measure.staging": "Staging StagingConfig",
    "measure.windows": "Window",
    "model.columns": "Column Names Table",
    "model.enums": "Labelled MemoryKind",
    "model.health": "Health HealthSeverity HealthWarning",
    "model.metadata": "Device Metadata",
    "model.tables": "ApiCalls Copies CpuOps DeviceWork EventRecords EventWaits Frames Kernels Memsets Modules "
    "Overheads Ranges Streams Syncs",
    "model.trace": "Trace",
    "plot.before_after": "before_after before_after_png",
    "plot.style": "Appearance",
    "plot.timeline": "draw_timeline save_timeline timeline_png",
    "read.opening": "open_trace",
    "report.content": "AuditConfig audit",
    "report.copy_table": "CopyTable copy_table",
    "report.data": "Audit CostlyCopy DeviceAudit Occurrence StreamFigures",
    "report.finding_table": "FindingTable finding_table",
    "report.gap_table": "GapTable gap_table",
    "report.range_table": "RangeTable range_table",
    "report.stream_table": "StreamTable stream_table",
    "timeline.caption": "caption",
    "timeline.shown": "Shown",
    "whatif.change": "Bounds Change",
    "whatif.changes.batch_copies": "BatchCopies",
    "whatif.changes.copy_first": "CopyFirst",
    "whatif.changes.cuda_graph": "CudaGraph",
    "whatif.changes.faster_link": "FasterLink",
    "whatif.changes.no_scalar_sync": "NoScalarSync",
    "whatif.changes.non_blocking": "NonBlocking",
    "whatif.changes.pin": "Pin",
    "whatif.changes.pin_ahead": "PinAhead",
    "whatif.changes.preallocate": "Preallocate",
    "whatif.changes.prefetch": "Prefetch",
    "whatif.changes.side_stream": "SideStream",
    "whatif.config": "ProfilerConfig SimulationConfig",
    "whatif.editor": "Editor Where",
    "whatif.prediction": "Prediction Unprofiled",
    "whatif.what_if": "what_if",
}
"""The names of each module that are public."""
_HOMES = {name: f"overlapscope.{module}" for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "Activity",
    "Against",
    "Answer",
    "Answered",
    "ApiCalls",
    "Appearance",
    "Audit",
    "AuditConfig",
    "Baseline",
    "BatchCopies",
    "Bounds",
    "Budget",
    "BudgetNotUnderstood",
    "Calibration",
    "CaptureError",
    "Cause",
    "CauseGroup",
    "Ceiling",
    "Change",
    "ChangeNotUnderstood",
    "Check",
    "CheckResult",
    "ClusterError",
    "Column",
    "CompareConfig",
    "Comparison",
    "Confidence",
    "Copies",
    "CopyConsumers",
    "CopyFirst",
    "CopyGroup",
    "CopyTable",
    "CopyTime",
    "Cost",
    "CostlyCopy",
    "CpuOps",
    "CriticalPath",
    "CudaGraph",
    "D2HConsumers",
    "Dependencies",
    "DependencyConfig",
    "DependencyKind",
    "Device",
    "DeviceAudit",
    "DeviceDiagnosis",
    "DeviceKey",
    "DeviceWork",
    "Diagnosis",
    "DiagnosisConfig",
    "DuplexTime",
    "Editor",
    "EventRecords",
    "EventWaits",
    "Expected",
    "FasterLink",
    "Figure",
    "Finding",
    "FindingChange",
    "FindingChanges",
    "FindingTable",
    "Fitness",
    "FitnessConfig",
    "Fleet",
    "Frames",
    "GapTable",
    "Gpu",
    "GpuTime",
    "Graph",
    "Health",
    "HealthSeverity",
    "HealthWarning",
    "HostBlocking",
    "HostConfig",
    "IdleByCause",
    "IdleTime",
    "IssueCost",
    "Kernels",
    "Labelled",
    "LaunchConfig",
    "LaunchFigures",
    "Limit",
    "Limits",
    "Loader",
    "MemoryKind",
    "Memsets",
    "Metadata",
    "Modules",
    "Names",
    "NoScalarSync",
    "NonBlocking",
    "Occurrence",
    "OnlyOne",
    "Outcome",
    "OutputError",
    "Overheads",
    "OverlapscopeError",
    "PackTime",
    "Packing",
    "Part",
    "PcieLink",
    "Pin",
    "PinAhead",
    "Place",
    "Plan",
    "PostStaging",
    "Preallocate",
    "Prediction",
    "Prefetch",
    "ProfilerConfig",
    "RangeChange",
    "RangeFigures",
    "RangeNotFound",
    "RangeTable",
    "RangeTimes",
    "Ranges",
    "Reached",
    "Reason",
    "Remark",
    "Run",
    "Setting",
    "Severity",
    "Share",
    "Shown",
    "Side",
    "SideFinding",
    "SideStream",
    "Simulation",
    "SimulationConfig",
    "Spans",
    "Spread",
    "Staging",
    "StagingConfig",
    "Status",
    "Step",
    "StreamFigures",
    "StreamTable",
    "Streams",
    "Syncs",
    "Table",
    "TheirFigures",
    "TimePart",
    "TimedSteps",
    "Tolerance",
    "Tolerances",
    "Trace",
    "TraceError",
    "TraceNotFound",
    "Unit",
    "UnknownTraceFormat",
    "Unprofiled",
    "UnusableTrace",
    "Verdict",
    "Where",
    "Why",
    "Window",
    "WindowEmpty",
    "Work",
    "annotate",
    "audit",
    "baseline_of",
    "before_after",
    "before_after_png",
    "caption",
    "check",
    "compare",
    "copy_table",
    "diagnose",
    "doctor",
    "draw_timeline",
    "finding_table",
    "gap_table",
    "open_fleet",
    "open_trace",
    "range_table",
    "read_baseline",
    "read_budget",
    "record",
    "save_timeline",
    "stream_table",
    "their_overlap",
    "timeline_png",
    "what_if",
    "write_baseline",
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
