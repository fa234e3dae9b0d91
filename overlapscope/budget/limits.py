"""The limits that a trace can be checked against, each declared once, with the tolerances of baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from typing import Any

from overlapscope.diagnosis.causes import Cause
from overlapscope.formatting import size

ALL_CAUSES = "all"
"""The key of ``idle_share`` for GPU idle time of any cause."""
CAUSES = (ALL_CAUSES, *(cause.name.lower() for cause in Cause))
"""The keys of ``idle_share`` but for the codes of rules."""
_SIZED_BYTES = 2**50
"""From here on no unit makes a number of bytes shorter."""


class Unit(StrEnum):
    """The unit that a figure is counted in."""

    COUNT = "count"
    BYTES = "bytes"
    SHARE = "ratio"

    def shown(self, value: float) -> str:
        """A value as text.

        >>> Unit.SHARE.shown(0.0512), Unit.BYTES.shown(67_108_864), Unit.COUNT.shown(3)
        ('5.12 %', '64 MiB', '3')
        """
        if self is Unit.SHARE:
            return f"{100 * value:.3g} %"
        if self is Unit.COUNT:
            return f"{value:,.10g}"
        return size(round(value)) if value < _SIZED_BYTES else f"{round(value):,} B"


@dataclass(frozen=True)
class LimitKind:
    """The kind of a limit: the unit of its figure, what the figure is, and whether it has to be high."""

    unit: Unit
    words: str
    at_least: bool = False


def _limit(unit: Unit, words: str, *, of: Callable[[], Any] = lambda: None, at_least: bool = False) -> Any:
    return field(default_factory=of, metadata={"kind": LimitKind(unit, words, at_least)})


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on the whole trace, or on one range; what is left out is not limited.

    A step is an occurrence of the range; of the whole trace, a step of torch's profiler.

    Attributes:
        scalar_reads_per_step: most values that the host reads from the GPU and waits for, in any step.
        synchronisations_per_step: most calls that wait until the GPU has finished some work, in any step.
        pageable_bytes: most bytes that are copied from or to pageable memory in all steps, single values left out.
        blocked_share: most of the host time for which calls may block a thread, from 0 to 1.
        hidden_share: least of the hideable copy time that has to be hidden under kernels, from 0 to 1.
        idle_share: most of the time for which a GPU may be idle, from 0 to 1, by cause, by rule, or for ``all``.
        saving_share: most of the time that the simulated fixes together may save, from 0 to 1.
        no_findings: codes of rules that may have no finding.
    """

    scalar_reads_per_step: int | None = _limit(Unit.COUNT, "scalar reads in a step")
    synchronisations_per_step: int | None = _limit(Unit.COUNT, "synchronisations in a step")
    pageable_bytes: int | None = _limit(Unit.BYTES, "copied from or to pageable memory")
    blocked_share: float | None = _limit(Unit.SHARE, "host time blocked in calls")
    hidden_share: float | None = _limit(Unit.SHARE, "hideable copy time that is hidden", at_least=True)
    idle_share: Mapping[str, float] = _limit(Unit.SHARE, "time without a kernel", of=dict)
    saving_share: float | None = _limit(Unit.SHARE, "time that simulated fixes save")
    no_findings: tuple[str, ...] = _limit(Unit.COUNT, "findings", of=tuple)

    def __iter__(self) -> Iterator[Limit]:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Mapping):
                yield from (Limit(entry.name, number, _kind(entry), part) for part, number in value.items())
            elif isinstance(value, tuple):
                yield from (Limit(entry.name, 0, _kind(entry), part) for part in value)
            elif value is not None:
                yield Limit(entry.name, value, _kind(entry))


def _kind(entry: Field[Any]) -> LimitKind:
    kind: LimitKind = entry.metadata["kind"]
    return kind


LIMIT_KINDS = {entry.name: _kind(entry) for entry in fields(Limits)}
"""The kind of every limit, by its name."""


@dataclass(frozen=True)
class Limit:
    """One limit: the name of its figure, the part of it that is limited where it has parts, and what is allowed."""

    name: str
    allowed: float
    kind: LimitKind
    part: str | None = None

    @property
    def words(self) -> str:
        """What the figure of the limit is, as text."""
        if self.part is None or self.part == ALL_CAUSES:
            return self.kind.words
        known = self.part in CAUSES
        return f"{self.kind.words}, {Cause[self.part.upper()].label if known else self.part}"

    @property
    def key(self) -> str:
        """The name and part of the limit, such as ``idle_share.copy_call``."""
        return self.name if self.part is None else f"{self.name}.{self.part}"

    def allows(self, value: float) -> bool:
        """Whether a figure keeps to the limit."""
        return value >= self.allowed if self.kind.at_least else value <= self.allowed


@dataclass(frozen=True)
class Tolerance:
    """How much worse than a baseline a figure may be: by an amount in its unit, or by a share of the baseline."""

    amount: float
    relative: bool = False

    def allowed(self, baseline: float, *, at_least: bool) -> float:
        """The worst figure that is tolerated.

        >>> Tolerance(0.25, relative=True).allowed(8, at_least=False), Tolerance(0.25).allowed(0.75, at_least=True)
        (10.0, 0.5)
        """
        slack = self.amount * baseline if self.relative else self.amount
        return baseline - slack if at_least else baseline + slack


_EXACT = Tolerance(0)
_TIMED = Tolerance(0.05)


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """How much worse than the baseline each figure may be.

    Counts and bytes follow from the program and are the same in every run: they have no tolerance. Shares of time
    vary by some hundredths between runs, and profilers lengthen a run by up to a tenth: they may be worse by 0.05.
    """

    scalar_reads_per_step: Tolerance = _EXACT
    synchronisations_per_step: Tolerance = _EXACT
    pageable_bytes: Tolerance = _EXACT
    blocked_share: Tolerance = _TIMED
    hidden_share: Tolerance = _TIMED
    idle_share: Tolerance = _TIMED
    saving_share: Tolerance = _TIMED


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Everything that a trace is checked against: limits on all of it, and by range (``*`` and ``?`` match).

    ``pass_unmeasured``: whether a limit that the trace cannot show to be kept passes; else it fails.
    """

    limits: Limits = Limits()
    ranges: Mapping[str, Limits] = field(default_factory=dict)
    tolerances: Tolerances = Tolerances()
    pass_unmeasured: bool = False

    @property
    def scopes(self) -> dict[str | None, Limits]:
        """The limits by range; those on the whole trace have None for a name."""
        scopes: dict[str | None, Limits] = {None: self.limits}
        scopes.update(self.ranges)
        return scopes

    def __bool__(self) -> bool:
        return any(list(limits) for limits in self.scopes.values())
