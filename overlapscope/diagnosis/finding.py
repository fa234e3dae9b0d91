"""What a diagnosis consists of: plain, frozen data, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from overlapscope.diagnosis.causes import IdleTime
from overlapscope.formatting import share, time
from overlapscope.measure.devices import DeviceKey
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace


class Severity(StrEnum):
    """How much it matters: wrong results, the share of the time that is lost, or good to know."""

    HAZARD = "hazard"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


class Confidence(StrEnum):
    """How sure the reason is: recorded in the trace, inferred from it, or one of several that fit."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True)
class Place:
    """Where in the program: None where the trace does not say.

    ``range`` is the path of the annotations around the call, outermost first, ``source`` the innermost line of the
    user's own (``file(line): function``), ``op`` the framework's operator, ``api`` the CUDA call.
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
        """Range, line or operator, call and stream, as far as they are known."""
        stream = None if self.stream is None else f"stream {self.stream}"
        return ", ".join(part for part in (self.range, self.source or self.op, self.api, stream) if part)


@dataclass(frozen=True)
class Share:
    """A place and the device time lost there, in ns."""

    where: Place
    idle_ns: int


Number = int | float | str | bool | None


@dataclass(frozen=True)
class Finding:
    """One reason for lost device time, with everything that speaks for it.

    Attributes:
        code: of the rule, such as ``OVL001``.
        name: of the pattern.
        severity: how much it matters.
        confidence: how sure it is.
        doubt: what would raise the confidence; empty where it is high.
        rank: 1 for the finding to look at first.
        copies: rows of ``trace.copies`` concerned.
        calls: rows of ``trace.api_calls`` concerned.
        where: the place at which most was lost.
        places: all of them, the costliest first (at most ten).
        evidence: numbers by name, with their unit in the name.
        message: the same as a sentence.
        fix: what to change, as code for PyTorch.
        change: the change that would mend it, for a prediction; None where no change of the program would.
        idle_ns: device time lost.
        blocked_ns: host time that the calls held.
        saving_ns: what its change alone would win, replayed, made to its own copies only (a plan's changes are made to
            all); without what is known of the profiler. None where it has none, or nothing was replayed.
        saving_high_ns: what it may win at most, where that is next to nothing because the trace leaves open what waits
            for what; None elsewhere.
    """

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    doubt: str
    rank: int
    copies: tuple[int, ...]
    calls: tuple[int, ...]
    where: Place
    places: tuple[Share, ...]
    evidence: Mapping[str, Number]
    message: str
    fix: str
    change: str | None
    idle_ns: int
    blocked_ns: int
    saving_ns: int | None = None
    saving_high_ns: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready data: an entry of ``findings``."""
        plain = asdict(self) | {"severity": str(self.severity), "confidence": str(self.confidence)}
        return plain | {"copies": list(self.copies), "calls": list(self.calls), "evidence": dict(self.evidence)}


@dataclass(frozen=True)
class Step:
    """The program with some changes.

    Attributes:
        changes: all of them, the newest last.
        fixes: codes of the findings whose change the newest is; none where it becomes possible by the others.
        predicted_ns: time of the window, the profiler's own cost included.
        saving_ns: against the replay with nothing changed, the profiler's own cost included in both.
        low_ns: least it may be, as far as order of work goes.
        high_ns: most it may be.
        unprofiled_ns: without the profiler's own cost; None where the trace does not know that.
    """

    changes: tuple[str, ...]
    fixes: tuple[str, ...]
    predicted_ns: int
    saving_ns: int
    low_ns: int
    high_ns: int
    unprofiled_ns: int | None

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON-ready data: an entry of ``plan``."""
        return asdict(self) | {"changes": list(self.changes), "fixes": list(self.fixes)}


@dataclass(frozen=True)
class Plan:
    """Steps in the order of what they win without the profiler, where its cost is known, each with those before it.

    ``simulated_ns`` is the time of the window with nothing changed, ``unprofiled_ns`` the same without the profiler's
    own cost (None where that is not known).
    """

    steps: tuple[Step, ...]
    simulated_ns: int
    unprofiled_ns: int | None


@dataclass(frozen=True, eq=False)
class DeviceDiagnosis:
    """One device: its lost stretches, and for each the number of its rule in ``codes``."""

    key: DeviceKey
    idle: IdleTime
    reason: Int64
    codes: tuple[str, ...]

    def idle_ns(self, code: str) -> int:
        """Device time lost for one reason."""
        return int(self.idle.duration_ns[self.reason == self.codes.index(code)].sum())


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Why copies of a trace were not hidden, over a window.

    ``findings`` are ranked: hazards first, then those that the plan mends, in its order, then by what their change
    saves of the device time lost for them. ``plan`` says what to mend in which order; it is None where there is nothing
    to mend, or too much to replay.
    ``copy_reasons`` gives for each row of ``trace.copies`` the code of what it cost most by, None where it cost
    nothing. ``noise_ns`` is the lost time below which nothing is said of a reason.
    """

    trace: Trace
    window: Window
    devices: tuple[DeviceDiagnosis, ...]
    findings: tuple[Finding, ...]
    copy_reasons: tuple[str | None, ...]
    plan: Plan | None
    hidden_ns: int
    copying_ns: int
    noise_ns: int

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that costs time or spoils results."""
        return all(finding.severity is Severity.INFO for finding in self.findings)

    @property
    def idle_ns(self) -> int:
        """Device time lost, for whatever reason."""
        return sum(int(device.idle.duration_ns.sum()) for device in self.devices)

    @property
    def summary(self) -> str:
        """One sentence: the first finding, or that there is none."""
        if not self.healthy:
            return f"{self.findings[0].code} {self.findings[0].message}"
        if not self.devices:
            return "No work of a GPU: nothing to diagnose."
        hidden = f"copies {share(self.hidden_ns, self.copying_ns)} hidden" if self.copying_ns else "no copies"
        rest = f"; {time(self.idle_ns)} are lost in all" if self.idle_ns > self.noise_ns else ""
        return f"{hidden[0].upper()}{hidden[1:]}; nothing to gain above {time(self.noise_ns)} for one reason{rest}."

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.summary}>"


def known(value: Any) -> int | None:
    """A number of a column, or None where the trace does not say."""
    return None if int(value) == NO_ID else int(value)
