"""`Diagnosis` and its parts as plain, frozen data, with their JSON and pandas forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from overlapscope.diagnosis.causes import IdleTime
from overlapscope.formatting import interval, share, time
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.windows import Window, inside
from overlapscope.model.columns import Int8, Int64, known
from overlapscope.model.enums import ALLOCATIONS
from overlapscope.model.frames import Row, frame
from overlapscope.model.trace import Trace
from overlapscope.whatif.prediction import Prediction

if TYPE_CHECKING:
    import pandas


UNPROFILED = "the idle time is recorded, the saving is without the profiler"
"""Why a saving is larger than the idle time of its finding, where the two are on different bases."""
NOISE_SHARE = 0.01
"""A fix that saves less than this share of the window is not offered: two runs of a program differ by that."""


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

    range: str | None = None
    source: str | None = None
    op: str | None = None
    api: str | None = None
    process: int | None = None
    thread: int | None = None
    device: int | None = None
    stream: int | None = None

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

    def to_dict(self) -> dict[str, Any]:
        """The place and its time without a kernel as JSON-ready data: an entry of ``places``."""
        return {"where": self.where.to_dict(), "no_kernel_ns": self.idle_ns}


@dataclass(frozen=True, kw_only=True)
class Expected(Row):
    """How long the window is expected to take with some changes, in ns, on both bases.

    Attributes:
        predicted_ns: simulated time of the window, with profiler overhead.
        predicted_low_ns: the least simulated time that is expected.
        predicted_high_ns: the most.
        unprofiled_ns: simulated time without profiler overhead, as far as the trace tells that.
        unprofiled_low_ns: the least that is expected without it, known or not.
        unprofiled_high_ns: the most.
        time_ns: of these two the time on the plan's baseline, which texts state.
        time_low_ns: the least time on the plan's baseline that is expected.
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

    @classmethod
    def of(cls, prediction: Prediction, **fields_of_step: Any) -> Self:
        """The times that a prediction has, on both bases and on the one that is stated; a step has more fields."""
        bases = {"predicted": prediction, "unprofiled": prediction.unprofiled, "time": prediction.stated}
        likely = {f"{name}_ns": basis.predicted_ns for name, basis in bases.items()}
        low = {f"{name}_low_ns": basis.low_ns for name, basis in bases.items()}
        high = {f"{name}_high_ns": basis.high_ns for name, basis in bases.items()}
        return cls(**likely, **low, **high, narrowed_by=prediction.narrowed_by, **fields_of_step)

    @property
    def interval(self) -> str:
        """The time on the plan's baseline with its interval, as text."""
        return interval(self.time_low_ns, self.time_high_ns, self.time_ns)


@dataclass(frozen=True)
class Bound(Row):
    """How long a window takes at least if what a finding is about took no time.

    Attributes:
        change: the change that `overlapscope.what_if` simulates for it: ``no-host-work:kind=gc``.
        baseline_ns: the time of the window on the plan's baseline; None where nothing was simulated.
        without_ns: the time with the change on the same baseline; None like it.
    """

    change: str
    baseline_ns: int | None = None
    without_ns: int | None = None

    @property
    def words(self) -> str:
        """What any fix saves at most, as a clause; empty where it was not simulated, or gains nothing."""
        if self.baseline_ns is None or self.without_ns is None or self.without_ns >= self.baseline_ns:
            return ""
        saved = share(self.without_ns - self.baseline_ns, self.baseline_ns)
        return f"at most {saved} without it"


@dataclass(frozen=True)
class Ran(Row):
    """What a host thread ran in a part of a finding's GPU idle time.

    Attributes:
        name: the function with its file and line, ``collate (loader.py:41)``, or the operator.
        source: what recorded it: ``event``, ``sample``, ``frame`` or ``operator``.
        idle_ns: that part, in ns.
    """

    name: str
    source: str
    idle_ns: int

    @property
    def words(self) -> str:
        """The name as a phrase: ``collate at loader.py:41``."""
        return re.sub(r" \(([^()]+:\d+)\)", r" at \1", self.name)


Number = int | float | str | bool | None


@dataclass(frozen=True)
class Finding(Row):
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
        not_offered: why its fix is not worth trying by itself, in words; None where it is.
        waits_instead: what the GPU would wait for after a fix that recovers almost nothing; None where that is unclear.
        saves_more: why the saving is larger than the GPU idle time; None where it is not.
        waited_for: what the GPU waited for, as a noun: ``pageable copies``.
        ran: what host threads ran meanwhile, the longest first (at most three), where the finding is about that.
        bound: how long the window takes at least without what it is about; None where no change tells that.
        recorded_idle_ns: ``idle_ns`` with the profiler in it, where ``idle_ns`` is without; None elsewhere.
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
    ran: tuple[Ran, ...] = ()
    bound: Bound | None = None
    saving_ns: int | None = None
    saving_high_ns: int | None = None
    unprofiled_saving_ns: int | None = None
    expected: Expected | None = None
    not_offered: str | None = None
    waits_instead: str | None = None
    saves_more: str | None = None
    recorded_idle_ns: int | None = None

    @property
    def title(self) -> str:
        """The code and the name of the rule, and the kind where the rule has several."""
        return f"{self.code} {self.name}" + (f": {self.kind}" if self.kind else "")

    @property
    def offered(self) -> bool:
        """Whether its fix is worth trying."""
        return self.not_offered is None

    def is_about(self, key: DeviceKey) -> bool:
        """Whether it is a problem of this device."""
        return (self.where.process, self.where.device) == (known(key.process), known(key.device))

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready data: an entry of ``findings``."""
        left_out = ("idle_rows", "recorded_idle_ns")
        plain = {name: value for name, value in super().to_dict().items() if name not in left_out}
        idle_ns = self.idle_ns - self.copying_ns if self.idle_rows else 0
        return plain | {"offered": self.offered, "no_kernel_ns": self.idle_ns, "idle_ns": idle_ns}

    def to_pandas(self) -> pandas.DataFrame:
        """The places of the finding, one per row, with the GPU idle time of each."""
        rows = (entry.where.to_dict() | {"no_kernel_ns": entry.idle_ns} for entry in self.places)
        return frame(rows, [*_PLACE_COLUMNS, "no_kernel_ns"])

    def row(self) -> dict[str, Any]:
        """The finding as one flat row: its numbers and texts, and the place with the most GPU idle time."""
        every = self.to_dict()
        return {name: every[name] for name in _ROW} | self.where.to_dict() | {"copies": len(self.copies)}


_PLACE_COLUMNS = tuple(entry.name for entry in fields(Place))
_ROW = (
    *("rank", "code", "name", "kind", "severity", "confidence", "no_kernel_ns", "idle_ns", "blocked_ns"),
    *("change", "saving_ns", "saving_high_ns", "offered", "message"),
)
_ROW_COLUMNS = (*_ROW, *_PLACE_COLUMNS, "copies")


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
        conditions: when the program allows the changes, where the trace cannot tell: "if shapes are static".
    """

    changes: tuple[str, ...]
    fixes: tuple[str, ...]
    places: tuple[str, ...]
    saving_ns: int
    assumes: tuple[str, ...]
    conditions: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The changes as ``overlapscope what-if --change`` takes them, which gives the times of this step."""
        return ",".join(self.changes)

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON-ready data: an entry of ``plan``."""
        return super().to_dict() | {"command": self.command}


@dataclass(frozen=True)
class Limit(Row):
    """What limits a program after all steps of its plan, in ns with profiler overhead: its GPU with the most work.

    Attributes:
        time_ns: the time of the window.
        kernels_ns: time with a kernel.
        copies_ns: time with a copy.
        overlap_ns: what copies beside kernels, or beside copies in the other direction, save then, at most.
        exposed_ns: time with a copy and no kernel.
        waits_for: what the idle GPU waits for longest, as a noun.
        waits_ns: for how long.
    """

    time_ns: int
    kernels_ns: int
    copies_ns: int
    overlap_ns: int
    exposed_ns: int
    waits_for: str
    waits_ns: int

    @property
    def limited_by(self) -> str:
        """What takes most of the time: ``kernels``, ``copies``, or what the GPU waits for."""
        parts = {"kernels": self.kernels_ns, "copies": self.exposed_ns, self.waits_for: self.waits_ns}
        return max(parts, key=lambda name: parts[name])

    @property
    def words(self) -> str:
        """The limit as a clause."""
        work = f"{time(self.kernels_ns)} of kernels, {time(self.copies_ns)} of copies"
        text = f"then limited by {self.limited_by}: {work}, {time(self.waits_ns)} idle for {self.waits_for}"
        text += f" in {time(self.time_ns)}"
        return f"{text}; more overlap saves at most {time(self.overlap_ns)}"

    def to_dict(self) -> dict[str, Any]:
        """The fields and ``limited_by`` as JSON-ready data."""
        return super().to_dict() | {"limited_by": self.limited_by}


@dataclass(frozen=True)
class Plan(Row):
    """Changes in the order of their saving, each simulated together with those before it.

    Savings count on one baseline: ``unprofiled`` where a calibration tells the profiler overhead, else ``recorded``.
    The time of the window without changes is ``baseline_ns`` on it, ``simulated_ns`` with profiler overhead, and
    ``unprofiled_ns`` without, as far as ``profiler_cost`` is known: ``calibrated``, ``in part`` or ``unknown``.
    ``step_changes`` are the shares by which all steps together make each step of the window longer, in order; () where
    it has no two. ``limit`` is what limits the program then; None without steps.
    """

    simulated_ns: int
    unprofiled_ns: int
    baseline: str
    baseline_ns: int
    profiler_cost: str
    steps: tuple[Step, ...]
    step_changes: tuple[float, ...] = ()
    limit: Limit | None = None

    @property
    def unsteady(self) -> bool:
        """Whether some step of the window gains less than half of what the median one does."""
        return bool(self.step_changes) and 2 * max(self.step_changes) > min(median(self.step_changes), 0)

    @property
    def spread(self) -> str:
        """The change by step of the window, from the most to the least gain; empty where it has no two steps."""
        if not self.step_changes:
            return ""
        most, middle, least = (round(100 * of(self.step_changes)) for of in (min, median, max))
        gain = sum(change <= -NOISE_SHARE for change in self.step_changes)
        return f"{most} to {least} % a step, {middle} at the median, in {gain} of {len(self.step_changes)} steps"

    def to_pandas(self) -> pandas.DataFrame:
        """The steps of the plan, one per row."""
        return frame((step.to_dict() for step in self.steps), [entry.name for entry in fields(Step)])

    def simulation(self) -> dict[str, int | str]:
        """The simulation without changes as JSON-ready data: ``simulation`` in an audit."""
        plain = {name: value for name, value in self.to_dict().items() if name != "steps"}
        return plain | {"spread": self.spread, "unsteady": self.unsteady}


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
        return key | {"no_kernel_ns": {code: self.idle_ns(code) for code in self.codes}}

    def to_pandas(self) -> pandas.DataFrame:
        """The idle intervals, one per row, each with the code of its rule."""
        return self.idle.to_pandas().assign(code=[self.codes[index] for index in self.reason])


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Why the copies of a trace were not hidden within a window, and what fixing it would save.

    ``findings`` are ranked by their GPU idle time: hazards first, information last. ``plan`` has the changes in the
    order of their saving; it is None where there is nothing to fix, or it was not simulated.
    ``copy_reasons`` has for each row of ``trace.copies`` the code of the rule that explains most of its cost, None
    where it cost nothing. ``copy_ns`` is the sum of the times of all copies, ``hidden_ns`` that of their parts under
    kernels. Reasons with less GPU idle time than ``report_threshold_ns`` are not reported.
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
    def allocating_ns(self) -> int:
        """Time in calls that allocate or free memory within the window, which may wait for all work of a GPU."""
        calls = self.trace.api_calls
        return int(calls.duration_ns[np.isin(calls.kind, ALLOCATIONS) & inside(calls, self.window)].sum())

    @property
    def summary(self) -> str:
        """The first finding as a sentence, or that there is none."""
        if not self.healthy:
            return f"{self.findings[0].code} {self.findings[0].message}"
        if not self.devices:
            why = self.trace.health.no_device_work
            return f"No GPU work, so nothing to diagnose{': ' if why else ''}{why}."
        hidden = f"Copies {share(self.hidden_ns, self.copy_ns)} hidden" if self.copy_ns else "No copies"
        if self.plan is not None and self.plan.steps:
            least = time(self.report_threshold_ns)
            text = f"{hidden}; no cause of idle time above {least}, but the plan saves time while the GPU is busy"
            return f"{text}; calls that allocate or free, such as cudaFree, took {time(self.allocating_ns)}."
        least = time(self.report_threshold_ns)
        rest = f"; no kernel ran for {time(self.idle_ns)} in total" if self.idle_ns > self.report_threshold_ns else ""
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
            "no_kernel_ns": self.idle_ns,
            "copy_reasons": list(self.copy_reasons),
            "simulation": None if self.plan is None else self.plan.simulation(),
            "plan": None if self.plan is None and fixable else steps,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The findings, one per row, ranked."""
        return frame((finding.row() for finding in self.findings), _ROW_COLUMNS)
