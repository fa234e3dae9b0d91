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
    from overlapscope.diagnosis.config import DiagnosisConfig
    from overlapscope.diagnosis.finding import (
        Confidence,
        DeviceDiagnosis,
        Diagnosis,
        Finding,
        Place,
        Plan,
        Severity,
        Share,
        Step,
    )
    from overlapscope.diagnosis.run import diagnose
    from overlapscope.errors import (
        CaptureError,
        ChangeNotUnderstood,
        OutputError,
        OverlapscopeError,
        RangeNotFound,
        TraceError,
        TraceNotFound,
        UnknownTraceFormat,
        UnusableTrace,
        WindowEmpty,
    )
    from overlapscope.measure.definitions import TheirFigures, their_overlap
    from overlapscope.measure.devices import Activity, DeviceKey
    from overlapscope.measure.gaps import GapCauses
    from overlapscope.measure.groups import CopyGroup
    from overlapscope.measure.host import HostBlocking, HostConfig
    from overlapscope.measure.launches import LaunchFigures
    from overlapscope.measure.losses import AttributionConfig, IdleTime
    from overlapscope.measure.queues import QueueConfig
    from overlapscope.measure.ranges import RangeFigures
    from overlapscope.measure.spans import Spans
    from overlapscope.measure.staging import Staging, StagingConfig
    from overlapscope.measure.windows import Window
    from overlapscope.model.columns import Column, Names, Table
    from overlapscope.model.enums import Labelled
    from overlapscope.model.health import Health, HealthSeverity, HealthWarning
    from overlapscope.model.metadata import Device, Metadata
    from overlapscope.model.recording import (
        Bidirectional,
        CopyConsumers,
        CopyTime,
        D2HConsumers,
        IssueCost,
        PackTime,
        PostStaging,
        Recording,
        TimedSteps,
    )
    from overlapscope.model.tables import (
        ApiCalls,
        Copies,
        CpuOps,
        DeviceWork,
        EventRecords,
        Frames,
        Kernels,
        Memsets,
        Overheads,
        Ranges,
        Streams,
        Syncs,
    )
    from overlapscope.model.trace import Trace
    from overlapscope.plot.lanes import Shown
    from overlapscope.plot.style import Appearance
    from overlapscope.plot.timeline import draw_timeline, save_timeline
    from overlapscope.read.opening import open_trace
    from overlapscope.replay.changes import Change
    from overlapscope.replay.config import ReplayConfig
    from overlapscope.replay.prediction import Prediction, Without
    from overlapscope.replay.what_if import what_if
    from overlapscope.report.content import AuditConfig, audit
    from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit, Occurrence, StreamFigures

__version__ = "0.1.0"

_MODULES = {
    "capture.annotate": "annotate",
    "capture.recorder": "record",
    "diagnosis.config": "DiagnosisConfig",
    "diagnosis.finding": "Confidence DeviceDiagnosis Diagnosis Finding Place Plan Severity Share Step",
    "diagnosis.run": "diagnose",
    "errors": "CaptureError ChangeNotUnderstood OutputError OverlapscopeError RangeNotFound "
    "TraceError TraceNotFound UnknownTraceFormat UnusableTrace WindowEmpty",
    "measure.definitions": "TheirFigures their_overlap",
    "measure.devices": "Activity DeviceKey",
    "measure.gaps": "GapCauses",
    "measure.groups": "CopyGroup",
    "measure.host": "HostBlocking HostConfig",
    "measure.launches": "LaunchFigures",
    "measure.losses": "AttributionConfig IdleTime",
    "measure.queues": "QueueConfig",
    "measure.ranges": "RangeFigures",
    "measure.spans": "Spans",
    "measure.staging": "Staging StagingConfig",
    "measure.windows": "Window",
    "model.columns": "Column Names Table",
    "model.enums": "Labelled",
    "model.health": "Health HealthSeverity HealthWarning",
    "model.metadata": "Device Metadata",
    "model.recording": "Bidirectional CopyConsumers CopyTime D2HConsumers "
    "IssueCost PackTime PostStaging Recording TimedSteps",
    "model.tables": "ApiCalls Copies CpuOps DeviceWork EventRecords Frames "
    "Kernels Memsets Overheads Ranges Streams Syncs",
    "model.trace": "Trace",
    "plot.lanes": "Shown",
    "plot.style": "Appearance",
    "plot.timeline": "draw_timeline save_timeline",
    "read.opening": "open_trace",
    "replay.changes": "Change",
    "replay.config": "ReplayConfig",
    "replay.prediction": "Prediction Without",
    "replay.what_if": "what_if",
    "report.content": "AuditConfig audit",
    "report.data": "Audit CostlyCopy DeviceAudit Occurrence StreamFigures",
}
"""The names of each module that are public."""
_HOMES = {name: f"overlapscope.{module}" for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "Activity",
    "ApiCalls",
    "Appearance",
    "AttributionConfig",
    "Audit",
    "AuditConfig",
    "Bidirectional",
    "CaptureError",
    "Change",
    "ChangeNotUnderstood",
    "Column",
    "Confidence",
    "Copies",
    "CopyConsumers",
    "CopyGroup",
    "CopyTime",
    "CostlyCopy",
    "CpuOps",
    "D2HConsumers",
    "Device",
    "DeviceAudit",
    "DeviceDiagnosis",
    "DeviceKey",
    "DeviceWork",
    "Diagnosis",
    "DiagnosisConfig",
    "EventRecords",
    "Finding",
    "Frames",
    "GapCauses",
    "Health",
    "HealthSeverity",
    "HealthWarning",
    "HostBlocking",
    "HostConfig",
    "IdleTime",
    "IssueCost",
    "Kernels",
    "Labelled",
    "LaunchFigures",
    "Memsets",
    "Metadata",
    "Names",
    "Occurrence",
    "OutputError",
    "Overheads",
    "OverlapscopeError",
    "PackTime",
    "Place",
    "Plan",
    "PostStaging",
    "Prediction",
    "QueueConfig",
    "RangeFigures",
    "RangeNotFound",
    "Ranges",
    "Recording",
    "ReplayConfig",
    "Severity",
    "Share",
    "Shown",
    "Spans",
    "Staging",
    "StagingConfig",
    "Step",
    "StreamFigures",
    "Streams",
    "Syncs",
    "Table",
    "TheirFigures",
    "TimedSteps",
    "Trace",
    "TraceError",
    "TraceNotFound",
    "UnknownTraceFormat",
    "UnusableTrace",
    "Window",
    "WindowEmpty",
    "Without",
    "annotate",
    "audit",
    "diagnose",
    "draw_timeline",
    "open_trace",
    "record",
    "save_timeline",
    "their_overlap",
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
