"""The stretches of steps that a recording consists of, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from overlapscope.calibration.schema import TimedSteps

SETTLING, UNPROFILED, WARM_UP, RECORDED = "settling", "unprofiled", "warm-up", "recorded"


@dataclass
class Stretch:
    """Steps in a row, timed as a whole: from GPUs that have nothing to do to ones that have done everything.

    ``steps`` is None for a stretch that ends with the block.
    """

    name: str
    steps: int | None
    begin_ns: int = 0
    ticks_ns: list[int] = field(default_factory=list)
    wall_ns: int = 0

    @property
    def profiled(self) -> bool:
        """Whether a profiler runs meanwhile."""
        return self.name in {WARM_UP, RECORDED}

    def timed(self) -> TimedSteps | None:
        """What the steps took; None where the stretch has no steps of its own."""
        host_ns = tuple(end - begin for begin, end in pairwise([self.begin_ns, *self.ticks_ns]))
        return TimedSteps(len(host_ns), self.wall_ns, host_ns) if host_ns else None


def planned(steps: int | None, warmup: int, unprofiled: int) -> list[Stretch]:
    """What happens in which order. Without steps the program has none to warm the profiler up with."""
    if steps is None:
        return [Stretch(WARM_UP, 0), Stretch(RECORDED, None)]
    first = [Stretch(SETTLING, warmup), Stretch(UNPROFILED, unprofiled)] if unprofiled else []
    return [*first, Stretch(WARM_UP, warmup), Stretch(RECORDED, steps)]
