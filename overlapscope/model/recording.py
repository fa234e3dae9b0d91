"""How a trace was recorded, where `overlapscope.record` recorded it: what the machine and the profiler cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from overlapscope.model.columns import Int64

_MIDDLE_HALF = 1.35


@dataclass(frozen=True)
class TimedSteps:
    """Steps of the program in a row, from an idle device to an idle device.

    ``scatter`` is by how much the middle half of two steps each differ, as a share; 0 where there are too few to tell.
    """

    count: int
    wall_ns: int
    scatter: float = 0.0

    @property
    def step_ns(self) -> float:
        """Wall time per step."""
        return self.wall_ns / self.count


@dataclass(frozen=True)
class CopyTime:
    """What a copy of this size takes on that machine, on its own: wall time per copy, copies following each other."""

    direction: str
    host_memory: str
    size_bytes: int
    copy_ns: int


@dataclass(frozen=True)
class GatherTime:
    """What gathering a piece of this size, one of many, into a pinned buffer takes on that host: wall time a piece.

    ``gather_ns`` where all are of one size, ``ragged_ns`` where they are not, after the host did something else;
    ``warm_gather_ns`` and ``warm_ragged_ns`` right after another such gather.
    """

    size_bytes: int
    gather_ns: int
    ragged_ns: int | None = None
    warm_gather_ns: int | None = None
    warm_ragged_ns: int | None = None


@dataclass(frozen=True)
class BothWays:
    """What a large pinned copy takes in a direction with nothing beside it, and with copies in the other direction."""

    direction: str
    alone_ns: int
    beside_ns: int


@dataclass(frozen=True)
class IssueCost:
    """Host time to issue a tiny kernel and a tiny pinned copy from Python; None where it was not measured.

    ``call_ns`` is that of the copy's call itself.
    """

    kernel_ns: int | None
    copy_ns: int | None
    call_ns: int | None = None


@dataclass(frozen=True, eq=False)
class Touches:
    """Which of torch's operators were given which copied tensors of a GPU, by their start on the trace's clock.

    Pairs, sorted by operator. An operator of torch that is not here was given none of them.
    """

    op_start_ns: Int64
    tensor: Int64


@dataclass(frozen=True, eq=False)
class HostReads:
    """When an operator was first given what a copy had brought to the host, both by their start on the trace's clock.

    Pairs, sorted by the operator that copied. What no operator was given is not here.
    """

    copy_start_ns: Int64
    op_start_ns: Int64


@dataclass(frozen=True)
class Recording:
    """The calibration that a trace carries; what was not measured is None or empty.

    ``gather_start_ns`` is what a gather takes beside its pieces, ``view_ns`` what a view of a piece takes.
    ``recorded`` are the steps in the trace, ``unprofiled`` the same steps before, without a profiler.
    """

    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    copies: tuple[CopyTime, ...] = ()
    gathers: tuple[GatherTime, ...] = ()
    gather_start_ns: int | None = None
    view_ns: int | None = None
    both_ways: tuple[BothWays, ...] = ()
    touches: Touches | None = None
    reads: HostReads | None = None
    issue_unprofiled: IssueCost | None = None
    issue_profiled: IssueCost | None = None
    recorded: TimedSteps | None = None
    unprofiled: TimedSteps | None = None

    @property
    def profiler_factor(self) -> float | None:
        """How much longer a step took under the profiler; None where that was not measured."""
        if self.recorded is None or self.unprofiled is None or not self.unprofiled.wall_ns:
            return None
        return self.recorded.step_ns / self.unprofiled.step_ns

    @property
    def unsure(self) -> float:
        """How far the mean of the steps without a profiler may be off, as a share of it; 0 where that is not known.

        The standard error of the mean, from the middle half of pairs of steps, which is 1.35 standard deviations wide
        where they scatter normally.
        """
        steps = self.unprofiled
        return 0.0 if steps is None else steps.scatter / (_MIDDLE_HALF * math.sqrt(max(steps.count / 2, 1)))
