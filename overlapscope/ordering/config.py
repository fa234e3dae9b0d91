"""Thresholds of the ordering, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OrderingConfig:
    """Thresholds, each with its reason.

    ``clear_ns``: work that ends so long after other work has begun ran beside it; profilers place the ends and starts
    of work that was waited for within a few microseconds of each other.
    ``least_put_away``: so many copies of one size go down before the first goes up where states are put away one after
    the other; a loop that sends inputs and fetches results has one or two on their way.
    ``least_turns``: what goes up so often right after what a kernel made has gone down is no coincidence.
    ``least_sizes``: nor are so many sizes that each go down first and up later.
    """

    clear_ns: int = 10_000
    least_put_away: int = 4
    least_turns: int = 3
    least_sizes: int = 3


DEFAULT = OrderingConfig()
