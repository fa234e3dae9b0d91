"""Thresholds of the reduce, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.formatting import changed


@dataclass(frozen=True)
class FleetConfig:
    """When clocks count as aligned, and which ranks are stragglers.

    ``least_matched``: collectives that a rank shares with others before its clock is aligned; with fewer, a wrong match
        would go unnoticed.
    ``most_matched``: collectives of the same ranks on which clocks are aligned, where there are more; medians of so
        many are within a few percent of the spread of all, in bounded memory.
    ``error_quantile``: the error of a clock is this quantile of the distances of its collectives' ends from those of
        the other ranks; the rest are collectives that end earlier in some ranks by their nature.
    ``clocks_apart_ns``: clocks of hosts in one job are less apart than this: a longer pause between traces that share
        no collective is one between jobs.
    ``more_even``: hosts are of one job where the distances between the ends of their collectives are this many times
        more even than with any host that has the same ranks as one of them: within a job they vary by microseconds;
        of two jobs whose steps take equally long to a percent, it is not told which host is of which.
    ``clearly``: a rank is late where it comes later than the others by this many times the clocks' error.
    ``least_share``: of the job's time, below which a late rank is not named: ranks of a job differ by as much without a
        reason.
    ``least_of_latest``: of the lateness of the latest rank, from which on another one is named beside it: it bounds the
        step as soon as the latest is fixed. Below, it is looked at again in the replay without those named before.
    ``most_rounds``: of looking again; each takes a replay.
    ``most_simulated``: late ranks whose savings are simulated; the replay takes as many times the memory of a rank.
    ``least_cause``: of a late rank's lateness, below which a difference to the other ranks is no cause of it.
    ``alike``: of the step, up to which ranks with the same findings are one row of a map: less is not seen in it.
    ``uneven``: without aligned clocks, the difference in the share of time in exposed collectives, between the rank
        that waits least and the one that waits most, above which the others most likely wait for it.
    """

    least_matched: int = 3
    most_matched: int = 200
    error_quantile: float = 0.9
    clocks_apart_ns: int = 60_000_000_000
    more_even: float = 10.0
    clearly: float = 2.0
    least_share: float = 0.01
    least_of_latest: float = 0.5
    most_rounds: int = 5
    most_simulated: int = 100
    least_cause: float = 0.2
    alike: float = 0.02
    uneven: float = 0.1

    __repr__ = changed


DEFAULT = FleetConfig()
