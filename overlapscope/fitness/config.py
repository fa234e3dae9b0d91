"""Thresholds of the checks, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.formatting import changed


@dataclass(frozen=True)
class FitnessConfig:
    """What is good enough for an audit.

    ``profiler_factor``: steps that take this many times as long as without the profiler are not the program's own:
    profilers lengthen a run by 1 to 10 %, launch-bound ones by up to a half; beyond that first-run effects or the
    profiler itself dominate.
    ``rounding_ns``: device work that starts this little before its call says nothing: releases of torch before 2.4
    write whole microseconds, and each of the two times is rounded.
    ``most_early``: nor does a smaller share of early starts; single ones come from calls that were matched by time.
    ``most_missing``: with a smaller share of work without its call, or of calls without their work, figures hold: some
    are cut off at the ends of every trace.
    ``nothing_ns``: a copy or memset without work whose call took no longer was of no bytes; calls that issued one took
    1.3 us or more in 200 traces, calls with zero bytes 0.1 to 0.9 us.
    ``step_share``: a range that repeats is the program's step where it takes at least this share of the trace.
    """

    profiler_factor: float = 1.5
    rounding_ns: int = 1_000
    most_early: float = 0.01
    most_missing: float = 0.05
    nothing_ns: int = 1_000
    step_share: float = 0.5

    __repr__ = changed


DEFAULT = FitnessConfig()
