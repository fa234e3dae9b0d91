"""Thresholds of the ordering, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OrderingConfig:
    """Thresholds, each with its reason.

    ``clear_ns``: work that ends so long after other work has begun ran beside it; profilers place the ends and starts
    of work that was waited for within a few microseconds of each other.
    """

    clear_ns: int = 10_000


DEFAULT = OrderingConfig()
