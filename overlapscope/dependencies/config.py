"""Thresholds of what counts as a dependency, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.formatting import changed
from overlapscope.measure.host import DEFAULT as HOST
from overlapscope.measure.host import HostConfig
from overlapscope.measure.launches import DEFAULT as LAUNCH
from overlapscope.measure.launches import LaunchConfig


@dataclass(frozen=True)
class DependencyConfig:
    """What is taken to be usual, and what to be significant.

    ``host`` and ``launch`` say what a plain enqueue and a plain launch take.

    ``follow_ns``: most time between two ops of a stream, or on a copy engine, when nothing else is in the way; 1 to 2
    us were measured on an H200. Where at least ``enough_gaps`` kernels waited only for the one before them, their
    median is used instead.
    ``near_ns``: work that ended this shortly before other work started may have held it back; no launch on an idle
    GPU takes longer.
    ``stuck_share``: a copy is stuck behind others when its own transfer takes less than this share of theirs; first in
    the queue, it would hold them up for no longer.
    ``idle_ns``: a thread without a call or operator for this long is idle; Python between two calls takes 10 to 60 us
    under a profiler.
    ``significance``: the level of the test for thread hand-offs; 0.01 is usual.
    ``truncation``: a hand-off that is likelier than this by chance says nothing (truncated product method).
    ``most_tested``: the test looks at this many idle stretches of a thread; more make it no surer.
    """

    host: HostConfig = HOST
    launch: LaunchConfig = LAUNCH
    follow_ns: int = 2_000
    enough_gaps: int = 20
    near_ns: int = 20_000
    stuck_share: float = 0.1
    idle_ns: int = 200_000
    significance: float = 0.01
    truncation: float = 0.25
    most_tested: int = 200

    __repr__ = changed


DEFAULT = DependencyConfig()
