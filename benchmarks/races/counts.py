"""How often what some runs computed differs from what an ordered run computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

Values = Sequence[float]


@dataclass(frozen=True)
class Counts:
    """Runs and their values, and how many of each differ from those of the ordered run."""

    runs: int
    runs_differing: int
    values: int
    values_differing: int

    @classmethod
    def of(cls, runs: Sequence[Values], ordered: Values) -> Counts:
        """Compare each run with the ordered one, value by value.

        Raises:
            ValueError: a run has another number of values.
        """
        differing = [sum(one != other for one, other in zip(run, ordered, strict=True)) for run in runs]
        return cls(len(runs), sum(number > 0 for number in differing), len(runs) * len(ordered), sum(differing))


def farthest(runs: Sequence[Values], ordered: Values) -> float | None:
    """The largest difference of any value from that of the ordered run; None where one is no number."""
    apart = [abs(one - other) for run in runs for one, other in zip(run, ordered, strict=True)]
    return max(apart, default=0.0) if all(map(isfinite, apart)) else None
