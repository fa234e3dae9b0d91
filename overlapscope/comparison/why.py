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

from overlapscope.comparison.hybrids import Hybrids, Program
from overlapscope.comparison.matching import Matching
from overlapscope.comparison.swaps import Part
from overlapscope.comparison.words import Words
from overlapscope.diagnosis.causes import Cause
from overlapscope.model.frames import Row

MOST_SIMULATED = 2_000_000
"""Simulated nodes up to which every order of the parts is tried; one takes about 5 us. Above it two orders are, one the
reverse of the other."""


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
        """The time saved, explained or not."""
        return sum(reason.saved_ns for reason in self.reasons) + self.unexplained_ns

    def to_dict(self) -> dict[str, Any]:
        """The reasons as JSON-ready data: ``why`` of a comparison."""
        return {
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "saved_ns": self.saved_ns,
            "unexplained_ns": self.unexplained_ns,
            "every_order": self.every_order,
            "reasons": [reason.to_dict() for reason in self.reasons],
        }


def why(before: Program, after: Program, matching: Matching, *, recorded: bool, each: int = 1) -> Why:
    """Attribute the difference of two programs to their parts.

    Args:
        before: the one side.
        after: the other side.
        matching: what both have in common.
        recorded: whether times are with the profiler; its own cost is a part then.
        each: by what all times are divided.
    """
    hybrids = Hybrids(before, after, matching)
    nodes = max(len(before.graph.time_ns), len(after.graph.time_ns))
    every = nodes * 2 ** len(hybrids.parts) <= MOST_SIMULATED
    saved = (shapley if every else two_orders)(hybrids.parts, hybrids.length_ns)
    times = [hybrids.length_ns(parts) for parts in (frozenset(), frozenset(hybrids.parts))]
    if recorded:
        costs = before.profiler_ns, after.profiler_ns
        saved[Part.PROFILER] = costs[0] - costs[1]
        times = [time + cost for time, cost in zip(times, costs, strict=True)]
    saved, times = {part: time / each for part, time in saved.items()}, [round(time / each) for time in times]
    idle_saved = {cause: before.idle_ns[cause] - after.idle_ns[cause] for cause in Cause}
    words = Words(matching.between(before.graph, after.graph), idle_saved)
    said = {part: words.of(part, saved_ns) for part, saved_ns in saved.items()}
    reasons = [Reason(part, said_of[0], round(saved[part]), said_of[1]) for part, said_of in said.items() if said_of]
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
    """The time that each part saves, on average over all orders."""
    saved = dict.fromkeys(parts, 0.0)
    for part in parts:
        others = [other for other in parts if other is not part]
        for count in range(len(parts)):
            weight = 1 / (len(parts) * comb(len(others), count))
            for earlier in combinations(others, count):
                saved[part] += weight * (length_ns(frozenset(earlier)) - length_ns(frozenset((*earlier, part))))
    return saved


def two_orders(parts: Sequence[Part], length_ns: Length) -> dict[Part, float]:
    """The time that each part saves, on average over one order and its reverse."""
    saved = dict.fromkeys(parts, 0.0)
    for order in (tuple(parts), tuple(reversed(parts))):
        begun = [frozenset(order[:count]) for count in range(len(order) + 1)]
        for part, (without, with_it) in zip(order, pairwise(begun), strict=True):
            saved[part] += (length_ns(without) - length_ns(with_it)) / 2
    return saved
