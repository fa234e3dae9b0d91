"""`Audit` and its parts as plain data, with their JSON form (schema ``overlapscope.audit/3``) and pandas form.

In JSON, unknown values are null, and nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from overlapscope.analysis.analysis import Analysis
from overlapscope.calibration.schema import Calibration, TimedSteps
from overlapscope.diagnosis.causes import IdleByCause
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.diagnosis.gpu_time import GpuTime
from overlapscope.fitness.fitness import Fitness
from overlapscope.measure.ceiling import Ceiling
from overlapscope.measure.copies import CopyGroup, Staging
from overlapscope.measure.devices import Activity, DeviceKey, device_keys
from overlapscope.measure.host import HostBlocking
from overlapscope.measure.launches import LaunchFigures
from overlapscope.measure.ranges import RangeFigures
from overlapscope.measure.windows import Window
from overlapscope.model.columns import known
from overlapscope.model.frames import Row, frame
from overlapscope.model.trace import Trace

if TYPE_CHECKING:
    import pandas

SCHEMA = "overlapscope.audit/3"


@dataclass(frozen=True)
class StreamFigures(Row):
    """What ran on one stream: the number of kernels, copies and memsets, and the time of kernels and copies."""

    stream: int
    kernels: int
    copies: int
    memsets: int
    kernel_busy_ns: int
    copy_total_ns: int
    hidden_ns: int
    exposed_ns: int

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready data; ``stream`` is None where it is not recorded."""
        return super().to_dict() | {"stream": known(self.stream)}


@dataclass(frozen=True, eq=False)
class DeviceAudit:
    """All figures of one device of one process within the window."""

    key: DeviceKey
    name: str
    activity: Activity
    idle: IdleByCause
    time: GpuTime
    kernel_gaps: IdleByCause
    ceiling: Ceiling
    launches: LaunchFigures
    staging: tuple[Staging, ...]
    directions: tuple[CopyGroup, ...]
    memory: tuple[CopyGroup, ...]
    streams: tuple[StreamFigures, ...]

    def to_dict(self) -> dict[str, Any]:
        """The device as JSON-ready data: an entry of ``devices``."""
        activity = self.activity
        return {
            "process": known(self.key.process),
            "device": known(self.key.device),
            "name": self.name,
            "kernel_busy_ns": activity.kernels.total_ns,
            "copy_busy_ns": activity.copies.total_ns,
            "memset_busy_ns": activity.memsets.total_ns,
            "busy_ns": activity.busy.total_ns,
            "overlap_ns": activity.overlap.total_ns,
            "idle_ns": activity.idle.total_ns,
            "span_ns": activity.span_ns,
            "hidden_fraction": activity.hidden_fraction,
            "compute_busy_ns": activity.compute.total_ns,
            "collective_busy_ns": activity.collectives.total_ns,
            "exposed_collective_ns": activity.exposed_collectives.total_ns,
            "exposed_copy_ns": activity.copies.total_ns - activity.overlap.total_ns,
            "kernel_concurrency_ns": activity.kernel_concurrency.total_ns,
            "copy_concurrency_ns": activity.copy_concurrency.total_ns,
            "time": self.time.to_dict(),
            "idle_causes": self.idle.to_dict(),
            "kernel_gap_causes": self.kernel_gaps.to_dict(),
            "ceiling": self.ceiling.to_dict(),
            "launches": self.launches.to_dict(),
            "staging": [
                {
                    "direction": row.direction,
                    "count": row.count,
                    "size_bytes": row.size_bytes,
                    "total_ns": row.total_ns,
                    "compared_count": row.compared_count,
                    "staging_cost_ns": row.staging_cost_ns,
                }
                for row in self.staging
            ],
            "directions": _directions(self),
            "streams": [row.to_dict() for row in self.streams],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The copies of the device by direction and host memory, one group per row."""
        return frame(group.key | _group(group) for group in self.memory)


@dataclass(frozen=True)
class CostlyCopy(Row):
    """A copy that was exposed or blocked the host, and where it was issued; None where that is not recorded."""

    row: int
    process: int | None
    device: int | None
    stream: int | None
    direction: str
    memory: str
    size_bytes: int | None
    start_ns: int
    total_ns: int
    hidden_ns: int
    exposed_ns: int
    hideable_ns: int | None
    blocked_ns: int | None
    call: str | None
    range: str | None

    @property
    def end_ns(self) -> int:
        """Its end."""
        return self.start_ns + self.total_ns


@dataclass(frozen=True)
class Occurrence(Row):
    """One occurrence of the range; busy times are sums over the devices of its process."""

    start_ns: int
    end_ns: int
    kernel_busy_ns: int
    copy_busy_ns: int
    overlap_ns: int

    @property
    def wall_ns(self) -> int:
        """Length of the occurrence."""
        return self.end_ns - self.start_ns

    def to_dict(self) -> dict[str, Any]:
        """The fields and ``wall_ns`` as JSON-ready data."""
        return super().to_dict() | {"wall_ns": self.wall_ns}


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What the GPUs of a trace did within a window, the overlap and the cost of its copies, and the diagnosis.

    ``fit`` says what the trace can answer, ``headline`` how long the GPU did not compute, why, and what the fixes give;
    ``verdict`` is about the copies. These two, ``conclusion`` and ``stated`` have times without the profiler where its
    cost is known; all else is as recorded.
    """

    analysis: Analysis
    fit: Fitness
    occurrences: tuple[Occurrence, ...]
    devices: tuple[DeviceAudit, ...]
    host_blocking: tuple[HostBlocking, ...]
    ranges: tuple[RangeFigures, ...]
    costly: tuple[CostlyCopy, ...]
    counts: dict[str, int]
    diagnosis: Diagnosis
    conclusion: Diagnosis
    stated: tuple[DeviceAudit, ...]
    headline: str
    verdict: str

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.analysis.trace

    @property
    def window(self) -> Window:
        """The analysed part of it."""
        return self.analysis.window

    def of_first(self, count: int | None) -> Audit:
        """The audit with only the first so many findings; all for None."""
        parts = {name: getattr(self, name) for name in ("diagnosis", "conclusion")}
        return replace(self, **{name: replace(part, findings=part.findings[:count]) for name, part in parts.items()})

    def __repr__(self) -> str:
        return f"<Audit: {self.headline} {self.verdict}>"

    def to_dict(self) -> dict[str, Any]:
        """The audit as JSON-ready data: an entry of ``traces`` in ``audit --format json``."""
        diagnosis = self.diagnosis.to_dict()
        steps = {key: diagnosis.pop(key) for key in ("simulation", "plan", "findings")}
        return {
            "source": source(self.trace),
            "fit": self.fit.to_dict(),
            **self.trace.health.to_dict(),
            "window": _window(self.window, self.occurrences),
            "devices": [device.to_dict() for device in self.devices],
            "host_blocking": [row.to_dict() for row in self.host_blocking],
            "ranges": [entry.to_dict() for entry in self.ranges],
            "costly_copies": [copy.to_dict() for copy in self.costly],
            "counts": self.counts,
            "diagnosis": diagnosis,
            **steps,
            "stated": self._stated(),
            "headline": self.headline,
            "verdict": self.verdict,
        }

    def _stated(self) -> dict[str, Any]:
        """The window, the GPUs and the findings with the times that texts state, as JSON-ready data."""
        keys = ("rank", "code", "kind", "idle_ns", "copying_ns", "recorded_idle_ns", "message")
        return {
            "baseline": "recorded" if self.analysis.stated is self.analysis else "unprofiled",
            "wall_ns": self.conclusion.window.wall_ns,
            "devices": [
                {"process": known(device.key.process), "device": known(device.key.device), **device.time.to_dict()}
                for device in self.stated
            ],
            "findings": [{key: getattr(finding, key) for key in keys} for finding in self.conclusion.findings],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The devices, one per row, with their times in ns."""
        rows = [device.to_dict() for device in self.devices]
        return frame({key: value for key, value in row.items() if not isinstance(value, dict | list)} for row in rows)


def source(trace: Trace) -> dict[str, Any]:
    """Where a trace comes from, as JSON-ready data."""
    used = {key.device for key in device_keys(trace)}
    gpus = [device.name for device in trace.metadata.devices if device.number in used]
    return {
        "format": trace.metadata.format,
        "path": trace.metadata.path,
        "tool": trace.metadata.tool,
        "schema_version": trace.metadata.schema_version,
        "rank": trace.metadata.rank,
        "recording": _recording(trace.metadata.recording),
        "gpus": gpus or [device.name for device in trace.metadata.devices],
    }


def _recording(recording: Calibration | None) -> dict[str, Any] | None:
    if recording is None:
        return None
    return {
        "versions": dict(recording.versions),
        "recorded": _steps(recording.recorded),
        "unprofiled": _steps(recording.unprofiled),
        "profiler_factor": recording.profiler_factor,
    }


def _steps(steps: TimedSteps | None) -> dict[str, Any] | None:
    return None if steps is None else {"count": steps.count, "wall_ns": steps.wall_ns, "scatter": steps.scatter}


def _window(window: Window, occurrences: tuple[Occurrence, ...]) -> dict[str, Any]:
    return {
        "name": window.name,
        "device": window.device,
        "start_ns": window.first_ns,
        "end_ns": window.last_ns,
        "wall_ns": window.wall_ns,
        "occurrences": [entry.to_dict() for entry in occurrences],
    }


def _directions(device: DeviceAudit) -> dict[str, Any]:
    result: dict[str, Any] = {group.key["direction"]: {"memory": {}} | _group(group) for group in device.directions}
    for group in device.memory:
        result[group.key["direction"]]["memory"][group.key["memory"]] = _group(group)
    return result


def _group(group: CopyGroup) -> dict[str, int | None]:
    return {name: value for name, value in group.to_dict().items() if name not in ("key", "unclipped_ns")}
