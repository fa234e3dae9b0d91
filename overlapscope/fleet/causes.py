"""Why a rank is late: what it does for longer than the other ranks, through to the finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.fleet.figures import KERNELS, Figures
from overlapscope.model.columns import Bool

if TYPE_CHECKING:
    import pandas

_OF_COPIES = frozenset(rule.code for rule in RULES if rule.about_copies)


@dataclass(frozen=True)
class Cause:
    """A time in which a rank differs from the others, in an average step.

    ``code`` and ``kind`` are those of a rule for idle time; without a code it is the time of kernels.
    """

    code: str
    kind: str
    own_ns: int
    others_ns: int

    @property
    def excess_ns(self) -> int:
        """How much more it is than in the median of the other ranks."""
        return self.own_ns - self.others_ns


@dataclass(frozen=True)
class CopiesDiffer:
    """Copies whose host memory is of another kind than in the other ranks."""

    direction: str
    memory: str
    others_memory: str
    others: int
    of: int


def net_excess_ns(figures: Figures, member: int, others: Bool, found: Sequence[Cause]) -> int:
    """The excess of all causes without what the others have in their place: pinned copies take time too."""
    of_copies = sum(cause.excess_ns for cause in found if cause.code in _OF_COPIES)
    copies = [values for (code, _), values in figures.idle.items() if code in _OF_COPIES]
    times = np.sum(copies, axis=0) if copies else np.zeros(len(others))
    net = min(of_copies, int(times[member] - np.median(times[others])))
    return net + sum(cause.excess_ns for cause in found if cause.code not in _OF_COPIES)


def causes(figures: Figures, member: int, others: Bool, least_ns: float) -> tuple[Cause, ...]:
    """Differences of a member from the median of others that are at least so long, the longest first."""
    times = {("", KERNELS): figures.times[KERNELS]} | dict(figures.idle)
    found = (
        Cause(code, kind, int(values[member]), int(np.median(values[others]))) for (code, kind), values in times.items()
    )
    return tuple(sorted((each for each in found if each.excess_ns >= least_ns), key=lambda each: -each.excess_ns))


def copies_differ(copies: pandas.DataFrame, member: int, others: Bool) -> Iterator[CopiesDiffer]:
    """Directions in which most bytes of a member come from another kind of memory than those of most others."""
    mostly = copies.sort_values(["member", "direction", "size_bytes"], kind="stable")
    mostly = mostly[mostly["member"] >= 0].drop_duplicates(["member", "direction"], keep="last")
    for row in mostly[mostly["member"] == member].itertuples():
        same = mostly[(mostly["direction"] == row.direction) & others[mostly["member"].to_numpy(np.int64)]]
        usual = same["memory"].value_counts()
        if len(usual) and str(usual.index[0]) != row.memory:
            yield CopiesDiffer(
                str(row.direction), str(row.memory), str(usual.index[0]), int(usual.iloc[0]), int(others.sum())
            )
