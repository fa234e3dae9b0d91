"""How far off a predicted time may be: reasons, each with what it adds, and the interval that they make together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from overlapscope.model.enums import Labelled
from overlapscope.model.frames import Row


class Reason(Labelled):
    """Why a prediction may be off."""

    ORDER = 0, "the order of the work"
    FIX = 1, "what else the fix may change"
    PROFILER = 2, "the cost of the profiler"
    CONTENTION = 3, "memory contention: kernels that run beside copies"
    SIZE = 4, "the sizes of copies"
    HOST = 5, "the pace of the host"
    LINK = 6, "the speed of the link"
    DEVICE = 7, "the pace of the GPU"


TO_ONE_SIDE = (Reason.ORDER, Reason.FIX, Reason.PROFILER, Reason.CONTENTION, Reason.SIZE)
"""Each is so in all of a run: what they add is added up. The others vary by chance, and add in quadrature."""
_SIDES = ("less_ns", "more_ns")


@dataclass(frozen=True)
class Part(Row):
    """What one reason adds to an interval, in ns: by how much the time may be less, and by how much more."""

    reason: Reason
    less_ns: int
    more_ns: int


@dataclass(frozen=True)
class Estimate:
    """A predicted time and the interval in which the time is expected, in ns, with the reasons for its width."""

    predicted_ns: int
    low_ns: int
    high_ns: int
    parts: tuple[Part, ...] = ()

    @classmethod
    def exact(cls, predicted_ns: int) -> Estimate:
        """Without an interval."""
        return cls(predicted_ns, predicted_ns, predicted_ns)

    @classmethod
    def of(cls, predicted_ns: int, parts: Sequence[Part], least_ns: int, most_ns: int | None) -> Estimate:
        """From its parts: between the least and the most that is possible, which never exclude what is predicted.

        >>> parts = (Part(Reason.ORDER, 10, 0), Part(Reason.HOST, 3, 3), Part(Reason.LINK, 4, 4))
        >>> found = Estimate.of(100, parts, least_ns=0, most_ns=103)
        >>> found.low_ns, found.high_ns
        (85, 103)
        """
        low = predicted_ns - _together([(part.reason, part.less_ns) for part in parts])
        high = predicted_ns + _together([(part.reason, part.more_ns) for part in parts])
        low = max(low, min(least_ns, predicted_ns))
        high = high if most_ns is None else min(high, max(most_ns, predicted_ns))
        return cls(predicted_ns, low, high, _by_reason(parts))

    @property
    def width(self) -> float:
        """Of the interval, as a share of what is predicted."""
        return (self.high_ns - self.low_ns) / self.predicted_ns if self.predicted_ns else 0.0

    @property
    def widest(self) -> Reason | None:
        """The reason that adds most; None where there is none."""
        most = max(self.parts, key=lambda part: part.less_ns + part.more_ns, default=None)
        return None if most is None else most.reason


def _by_reason(parts: Sequence[Part]) -> tuple[Part, ...]:
    """One part for each reason that adds anything."""
    found = (
        Part(reason, *(sum(getattr(part, name) for part in parts if part.reason is reason) for name in _SIDES))
        for reason in Reason
    )
    return tuple(part for part in found if part.less_ns or part.more_ns)


def _together(added: Sequence[tuple[Reason, int]]) -> int:
    one_sided = sum(ns for reason, ns in added if reason in TO_ONE_SIDE)
    return round(one_sided + hypot(*(ns for reason, ns in added if reason not in TO_ONE_SIDE)))
