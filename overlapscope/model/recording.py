"""How a trace was recorded, where `overlapscope.record` made it: calibration of the machine, cost of the profiler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from overlapscope.model.columns import Int64

_MIDDLE_HALF = 1.35


@dataclass(frozen=True)
class TimedSteps:
    """Consecutive steps of the program, timed as a whole between two device synchronisations.

    ``scatter`` is the interquartile range of the times of step pairs, over their median; 0 where there are too few.
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
    """Wall time of one copy of this size on this machine, measured back to back with nothing else running."""

    direction: str
    host_memory: str
    size_bytes: int
    copy_ns: int


@dataclass(frozen=True)
class PackTime:
    """Host time to pack one tensor of this size, among many, into a pinned buffer with ``torch.cat``.

    ``pack_ns`` is for tensors of one size, ``ragged_pack_ns`` for tensors of different sizes, both with cold caches.
    ``warm_pack_ns`` and ``warm_ragged_pack_ns`` are the same right after another such packing.
    """

    size_bytes: int
    pack_ns: int
    ragged_pack_ns: int | None = None
    warm_pack_ns: int | None = None
    warm_ragged_pack_ns: int | None = None


@dataclass(frozen=True)
class Bidirectional:
    """Device time of a large pinned copy in one direction: alone, and with copies in the other direction running."""

    direction: str
    alone_ns: int
    bidirectional_ns: int


@dataclass(frozen=True)
class PostStaging:
    """Host time to issue small operators right after a pageable copy of this size, and without such a copy before.

    Both ``issue_ns`` and ``baseline_ns`` are cumulative, for the same increasing numbers of operators.
    """

    size_bytes: int
    issue_ns: tuple[int, ...]
    baseline_ns: tuple[int, ...]


@dataclass(frozen=True)
class IssueCost:
    """Host time to issue one small kernel and one small pinned copy from Python; None where it was not measured.

    ``call_ns`` is the time of ``cudaMemcpyAsync`` itself, without Python.
    """

    kernel_ns: int | None
    copy_ns: int | None
    call_ns: int | None = None


@dataclass(frozen=True, eq=False)
class CopyConsumers:
    """Which torch operators had a copied GPU tensor among their arguments: (operator, tensor) pairs by operator.

    Operators are given by their start on the trace's clock. An operator that is not listed had none of them.
    """

    op_start_ns: Int64
    tensor: Int64


@dataclass(frozen=True, eq=False)
class D2HConsumers:
    """The first torch operator that took the host tensor of a D2H copy: (copy, operator) pairs by copy.

    Both are given by their start on the trace's clock. Copies that no operator consumed are not listed.
    """

    copy_start_ns: Int64
    op_start_ns: Int64


@dataclass(frozen=True)
class Recording:
    """The calibration that a trace carries; None or empty where something was not measured.

    ``pack_overhead_ns`` is the fixed cost of one packing, ``view_ns`` the cost of one view into the packed buffer.
    ``recorded`` are the steps in the trace, ``unprofiled`` the same steps timed before, without a profiler.
    """

    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    copies: tuple[CopyTime, ...] = ()
    packing: tuple[PackTime, ...] = ()
    pack_overhead_ns: int | None = None
    view_ns: int | None = None
    post_staging: tuple[PostStaging, ...] = ()
    bidirectional: tuple[Bidirectional, ...] = ()
    copy_consumers: CopyConsumers | None = None
    d2h_consumers: D2HConsumers | None = None
    issue_unprofiled: IssueCost | None = None
    issue_profiled: IssueCost | None = None
    recorded: TimedSteps | None = None
    unprofiled: TimedSteps | None = None

    @property
    def profiler_factor(self) -> float | None:
        """Time of a step under the profiler over its time without; None where that was not measured."""
        if self.recorded is None or self.unprofiled is None or not self.unprofiled.wall_ns:
            return None
        return self.recorded.step_ns / self.unprofiled.step_ns

    @property
    def unprofiled_error(self) -> float:
        """Relative standard error of the mean time of the unprofiled steps; 0 where it is not known.

        It comes from the interquartile range of step pairs, which is 1.35 standard deviations wide where they are
        normally distributed.
        """
        steps = self.unprofiled
        return 0.0 if steps is None else steps.scatter / (_MIDDLE_HALF * math.sqrt(max(steps.count / 2, 1)))
