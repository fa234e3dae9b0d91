"""`Diagnosis` and its parts as plain, frozen data, with their JSON and pandas forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from overlapscope.diagnosis.causes import IdleTime
from overlapscope.formatting import interval, share, time
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.windows import Window
from overlapscope.model.columns import Int8, Int64, known
from overlapscope.model.frames import Row, frame
from overlapscope.model.trace import Trace
from overlapscope.whatif.prediction import IN_PART

if TYPE_CHECKING:
    import pandas


class Severity(StrEnum):
    """How severe a finding is: wrong results, by its share of GPU idle time, or information only."""

    HAZARD = "hazard"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


class Confidence(StrEnum):
    """How certain a finding is: recorded in the trace, inferred from it, or one of several possible reasons."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True)
class Place(Row):
    """A place in the program; None where the trace does not record it.

    ``range`` is the path of annotated ranges around the call, outermost first, and of the innermost torch module, where
    the recording names modules; ``source`` the innermost line of user code (``file(line): function``), ``op`` the
    PyTorch operator, ``api`` the CUDA call.
    """

    range: str | None
    source: str | None
    op: str | None
    api: str | None
    process: int | None
    thread: int | None
    device: int | None
    stream: int | None

    @property
    def words(self) -> str:
        """The place as text: range, source line or operator, CUDA call and stream, as far as they are known."""
        stream = None if self.stream is None else f"stream {self.stream}"
        return ", ".join(part for part in (self.range, self.source or self.op, self.api, stream) if part)


@dataclass(frozen=True)
class Share(Row):
    """A place, with the part of a finding's GPU idle time that belongs to it."""

    where: Place
    idle_ns: int


@dataclass(frozen=True, kw_only=True)
class Expected(Row):
    """How long the window is expected to take with some changes, in ns, on both bases.

    Attributes:
        predicted_ns: simulated time of the window, with profiler overhead.
        predicted_low_ns: the least of that that is expected.
        predicted_high_ns: the most.
        unprofiled_ns: simulated time without profiler overhead, as far as the trace tells that.
        unprofiled_low_ns: the least that is expected without it, known or not.
        unprofiled_high_ns: the most.
        time_ns: of these two the time on the plan's baseline, which texts state.
        time_low_ns: the least of that that is expected.
        time_high_ns: the most.
        narrowed_by: which recording would make the interval narrower; None where neither basis has a wide one.
    """

    predicted_ns: int
    predicted_low_ns: int
    predicted_high_ns: int
    unprofiled_ns: int
    unprofiled_low_ns: int
    unprofiled_high_ns: int
    time_ns: int
    time_low_ns: int
    time_high_ns: int
    narrowed_by: str | None

    @property
    def interval(self) -> str:
        """The time on the plan's baseline with its interval, as text."""
        return interval(self.time_low_ns, self.time_high_ns, self.time_ns)


Number = int | float | str | bool | None


@dataclass(frozen=True)
class Finding:
    """One problem of one device: a rule that matched, with its cost and its evidence.

    Attributes:
        code: code of the rule, such as ``OVL001``.
        name: name of the rule, such as ``pageable-copy``.
        kind: which of its kinds, such as ``data-loading`` of ``host-late``; None for a rule with one kind.
        severity: how severe it is.
        confidence: how certain it is.
        confirm_with: what would raise the confidence; empty where it is high.
        rank: 1 for the finding to look at first.
        copies: rows of ``trace.copies`` concerned.
        calls: rows of ``trace.api_calls`` concerned.
        idle_rows: rows of its device's idle intervals that are attributed to it.
        where: the place with the most GPU idle time.
        places: all places, the most expensive first (at most ten).
        evidence: numbers by name, with the unit in the name.
        message: what was found, as one sentence.
        fix: what to change, as PyTorch code; as CUDA C++ for programs without a sign of PyTorch.
        change: the change that `overlapscope.what_if` simulates for it; None where no change of the program helps.
        idle_ns: GPU idle time attributed to it: without a kernel, idle or only copying.
        copying_ns: the part of that in which a copy ran.
        blocked_ns: host time for which the calls blocked their threads.
        saving_ns: simulated saving of its change alone, without profiler overhead where that is known. None without a
            change or a simulation.
        saving_high_ns: upper bound of the saving, given where the saving is close to zero because the trace does not
            record which work waits for which; None elsewhere.
        unprofiled_saving_ns: the saving without profiler overhead, as far as the trace tells that; None like
            ``saving_ns``.
        expected: the times with its change alone; None without a saving, and where it is not offered.
        offered: whether its fix is worth trying: False where the simulation recovers almost nothing.
        waits_instead: what the GPU would wait for after a fix that recovers almost nothing; None where that is unclear.
        saves_more: why the saving is larger than the GPU idle time; None where it is not.
        waited_for: what the GPU waited for, as a noun: ``pageable copies``.
    """

    code: str
    name: str
    kind: str | None
    severity: Severity
    confidence: Confidence
    confirm_with: str
    rank: int
    copies: tuple[int, ...]
    calls: tuple[int, ...]
    idle_rows: tuple[int, ...]
    where: Place
    places: tuple[Share, ...]
    evidence: Mapping[str, Number]
    message: str
    fix: str
    change: str | None
    idle_ns: int
    copying_ns: int
    blocked_ns: int
    waited_for: str
    saving_ns: int | None = None
    saving_high_ns: int | None = None
    unprofiled_saving_ns: int | None = None
    expected: Expected | None = None
    offered: bool = True
    waits_instead: str | None = None
    saves_more: str | None = None

    @property
    def title(self) -> str:
        """Its code and name, and its kind where the rule has several."""
        return f"{self.code} {self.name}" + (f": {self.kind}" if self.kind else "")

    def is_about(self, key: DeviceKey) -> bool:
        """Whether it is a problem of this device."""
        return (self.where.process, self.where.device) == (known(key.process), known(key.device))

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready data: an entry of ``findings``."""
        plain = asdict(self) | {"severity": str(self.severity), "confidence": str(self.confidence)}
        plain |= {"copies": list(self.copies), "calls": list(self.calls), "evidence": dict(self.evidence)}
        del plain["idle_rows"]
        return plain | {"places": [entry.to_dict() for entry in self.places]}

    def to_pandas(self) -> pandas.DataFrame:
        """The places of the finding, one per row, with the GPU idle time of each."""
        columns = [*(entry.name for entry in fields(Place)), "idle_ns"]
        return frame((asdict(entry.where) | {"idle_ns": entry.idle_ns} for entry in self.places), columns)

    def row(self) -> dict[str, Any]:
        """The finding as one flat row: its numbers and texts, and the place with the most GPU idle time."""
        return {name: getattr(self, name) for name in _ROW} | asdict(self.where) | {"copies": len(self.copies)}


_ROW = (
    "rank",
    "code",
    "name",
    "kind",
    "severity",
    "confidence",
    "idle_ns",
    "blocked_ns",
    "change",
    "saving_ns",
    "saving_high_ns",
    "offered",
    "message",
)
_ROW_COLUMNS = (*_ROW, *(entry.name for entry in fields(Place)), "copies")


@dataclass(frozen=True, kw_only=True)
class Step(Expected):
    """One step of a plan: the simulated program with some changes, and the times that are expected.

    Attributes:
        changes: all changes so far, the newest last; a step adds two where neither saves enough alone.
        fixes: codes of the findings that the newest changes fix; empty where only earlier changes make it possible.
        places: where to edit: where these findings cost most; for a change without a finding what it edits, the longest
            first.
        saving_ns: saving against the simulation without changes, with profiler overhead in both.
        assumes: what has to hold for the results to be right, such as what the host must not do early.
    """

    changes: tuple[str, ...]
    fixes: tuple[str, ...]
    places: tuple[str, ...]
    saving_ns: int
    assumes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Changes in the order of their saving, each simulated together with those before it.

    Savings count on one baseline: ``unprofiled`` where a calibration tells the profiler overhead, else ``recorded``.
    The time of the window without changes is ``baseline_ns`` on it, ``simulated_ns`` with profiler overhead, and
    ``unprofiled_ns`` without, as far as ``profiler_cost`` is known: ``calibrated``, ``in part`` or ``unknown``.
    """

    steps: tuple[Step, ...]
    simulated_ns: int
    unprofiled_ns: int
    baseline: str
    baseline_ns: int
    profiler_cost: str

    @property
    def estimated(self) -> bool:
        """Whether only a part of the profiler overhead is known: times without it stand beside the others."""
        return self.profiler_cost == IN_PART

    def unprofiled_change(self, after_ns: int) -> float | None:
        """By which share a time without profiler overhead differs from that without changes.

        None where savings count on that anyway, and where nothing is known of the overhead.
        """
        if not self.estimated or not self.unprofiled_ns:
            return None
        return after_ns / self.unprofiled_ns - 1

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        return self.simulation() | {"steps": [step.to_dict() for step in self.steps]}

    def to_pandas(self) -> pandas.DataFrame:
        """The steps of the plan, one per row."""
        columns = [entry.name for entry in fields(Step)]
        return frame((step.to_dict() for step in self.steps), columns)

    def simulation(self) -> dict[str, int | str]:
        """The simulation without changes as JSON-ready data: ``simulation`` in an audit."""
        return {
            "simulated_ns": self.simulated_ns,
            "unprofiled_ns": self.unprofiled_ns,
            "baseline": self.baseline,
            "baseline_ns": self.baseline_ns,
            "profiler_cost": self.profiler_cost,
        }


@dataclass(frozen=True, eq=False)
class DeviceDiagnosis:
    """One device with its idle intervals; ``reason`` has for each the index of its rule in ``codes``.

    ``lateness`` has for each the kind of OVL008 that it would be, and ``span_ns`` is the analysed time.
    """

    key: DeviceKey
    span_ns: int
    idle: IdleTime
    reason: Int64
    lateness: Int8
    codes: tuple[str, ...]

    def idle_ns(self, code: str) -> int:
        """GPU idle time attributed to one rule."""
        return int(self.idle.duration_ns[self.reason == self.codes.index(code)].sum())

    def to_dict(self) -> dict[str, Any]:
        """The device and its idle time by rule, in ns, as JSON-ready data."""
        key = {"process": known(self.key.process), "device": known(self.key.device)}
        return key | {"idle_ns": {code: self.idle_ns(code) for code in self.codes}}

    def to_pandas(self) -> pandas.DataFrame:
        """The idle intervals, one per row, each with the code of its rule."""
        return self.idle.to_pandas().assign(code=[self.codes[index] for index in self.reason])


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Why the copies of a trace were not hidden within a window, and what fixing it would save.

    ``findings`` are ranked by their GPU idle time: hazards first, information last. ``plan`` has the changes in the
    order of their saving; it is None where there is nothing to fix, or it was not simulated.
    ``copy_reasons`` has for each row of ``trace.copies`` the code of the rule that explains most of its cost, None
    where it cost nothing. ``hidden_ns`` of the ``copy_ns`` of all copies are under kernels. Reasons with less GPU idle
    time than ``report_threshold_ns`` are not reported.
    """

    trace: Trace
    window: Window
    devices: tuple[DeviceDiagnosis, ...]
    findings: tuple[Finding, ...]
    copy_reasons: tuple[str | None, ...]
    plan: Plan | None
    hidden_ns: int
    copy_ns: int
    report_threshold_ns: int

    def device_of(self, finding: Finding) -> DeviceDiagnosis | None:
        """The device that a finding is about."""
        return next((device for device in self.devices if finding.is_about(device.key)), None)

    @property
    def healthy(self) -> bool:
        """Whether no finding costs time or makes results wrong."""
        return all(finding.severity is Severity.INFO for finding in self.findings)

    @property
    def idle_ns(self) -> int:
        """GPU idle time of all devices, for any reason."""
        return sum(int(device.idle.duration_ns.sum()) for device in self.devices)

    @property
    def summary(self) -> str:
        """The first finding as a sentence, or that there is none."""
        if not self.healthy:
            return f"{self.findings[0].code} {self.findings[0].message}"
        if not self.devices:
            why = self.trace.health.no_device_work
            return f"No GPU work, so nothing to diagnose{': ' if why else ''}{why}."
        hidden = f"Copies {share(self.hidden_ns, self.copy_ns)} hidden" if self.copy_ns else "No copies"
        least = time(self.report_threshold_ns)
        rest = f"; GPU idle time in total: {time(self.idle_ns)}" if self.idle_ns > self.report_threshold_ns else ""
        return f"{hidden}; nothing to gain above {least} for any single reason{rest}."

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.summary}>"

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as JSON-ready data.

        ``plan`` is None where there is something to fix and nothing was simulated; it is empty where there is nothing
        to fix, or no change saves enough.
        """
        fixable = any(finding.change is not None for finding in self.findings)
        steps = [] if self.plan is None else [step.to_dict() for step in self.plan.steps]
        return {
            "healthy": self.healthy,
            "summary": self.summary,
            "report_threshold_ns": self.report_threshold_ns,
            "idle_ns": self.idle_ns,
            "copy_reasons": list(self.copy_reasons),
            "simulation": None if self.plan is None else self.plan.simulation(),
            "plan": None if self.plan is None and fixable else steps,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The findings, one per row, ranked."""
        return frame((finding.row() for finding in self.findings), _ROW_COLUMNS)
