"""Why two sides take different times: each part of the one program in place of the other's, in the simulation.

Parts change each other's worth: a synchronisation costs less where the copy before it is faster. Each part gets its
share on average over all orders in which the parts may be swapped (the Shapley value), so that the shares add up to the
difference, and nothing depends on an order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb
from typing import Any

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.done import Done
from overlapscope.comparison.hybrids import Hybrids, Program
from overlapscope.comparison.matching import Matching
from overlapscope.comparison.swaps import Part
from overlapscope.diagnosis.causes import Cause
from overlapscope.model.frames import Row


@dataclass(frozen=True)
class Reason(Row):
    """A part of the difference: what it is, in words, and how much time it saves in ns; negative where it costs time.

    ``done`` says whether it is something that was changed in the program, and not a time that came out differently.
    """

    part: Part
    words: str
    saved_ns: int
    done: bool


@dataclass(frozen=True)
class Why:
    """Why the time differs: reasons that add up, with what is unexplained, to the time saved.

    ``before_ns`` and ``after_ns`` are times in the simulation. ``every_order`` says whether the shares are averages
    over all orders of the parts; else over one order and its reverse, for large traces.
    """

    before_ns: int
    after_ns: int
    reasons: tuple[Reason, ...]
    unexplained_ns: int
    every_order: bool

    @property
    def saved_ns(self) -> int:
        """What is explained and what is not, together."""
        return sum(reason.saved_ns for reason in self.reasons) + self.unexplained_ns

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data: ``why`` of a comparison."""
        return {
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "saved_ns": self.saved_ns,
            "unexplained_ns": self.unexplained_ns,
            "every_order": self.every_order,
            "reasons": [reason.to_dict() for reason in self.reasons],
        }


def why(
    before: Program, after: Program, matching: Matching, config: CompareConfig, *, recorded: bool, each: int = 1
) -> Why:
    """Attribute the difference of two programs to their parts.

    Args:
        before: the one side.
        after: the other side.
        matching: what both have in common.
        config: thresholds, with their reasons.
        recorded: whether times are with the profiler; its own cost is a part then.
        each: by what all times are divided.
    """
    hybrids = Hybrids.of(before, after, matching)
    nodes = max(len(before.graph.time_ns), len(after.graph.time_ns))
    every = nodes * 2 ** len(hybrids.parts) <= config.most_simulated
    saved = (shapley if every else two_orders)(hybrids.parts, hybrids.length_ns)
    times = [hybrids.length_ns(some) for some in (frozenset(), frozenset(hybrids.parts))]
    if recorded:
        costs = before.profiler_ns, after.profiler_ns
        saved[Part.PROFILER] = costs[0] - costs[1]
        times = [time + cost for time, cost in zip(times, costs, strict=True)]
    saved, times = {part: time / each for part, time in saved.items()}, [round(time / each) for time in times]
    idle_saved = {cause: before.idle_ns[cause] - after.idle_ns[cause] for cause in Cause}
    done = Done(before.graph, after.graph, matching, (before.window, after.window), idle_saved)
    words = done.words(saved)
    reasons = [Reason(part, said[0], round(saved[part]), said[1]) for part, said in words.items() if said is not None]
    explained = sum(reason.saved_ns for reason in reasons)
    return Why(
        before_ns=times[0],
        after_ns=times[1],
        reasons=tuple(sorted(reasons, key=lambda reason: -abs(reason.saved_ns))),
        unexplained_ns=times[0] - times[1] - explained,
        every_order=every,
    )


Length = Callable[[frozenset[Part]], int]


def shapley(parts: Sequence[Part], length_ns: Length) -> dict[Part, float]:
    """What each part saves, on average over all orders."""
    saved = dict.fromkeys(parts, 0.0)
    for part in parts:
        others = [other for other in parts if other is not part]
        for count in range(len(parts)):
            weight = 1 / (len(parts) * comb(len(others), count))
            for some in combinations(others, count):
                saved[part] += weight * (length_ns(frozenset(some)) - length_ns(frozenset((*some, part))))
    return saved


def two_orders(parts: Sequence[Part], length_ns: Length) -> dict[Part, float]:
    """What each part saves, on average over one order and its reverse."""
    saved = dict.fromkeys(parts, 0.0)
    for order in (tuple(parts), tuple(reversed(parts))):
        begun = [frozenset(order[:count]) for count in range(len(order) + 1)]
        for part, (without, with_it) in zip(order, pairwise(begun), strict=True):
            saved[part] += (length_ns(without) - length_ns(with_it)) / 2
    return saved
