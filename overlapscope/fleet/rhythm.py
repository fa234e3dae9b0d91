"""Which groups of traces are of one job: its collectives end together in all its ranks, those of others do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, islice
from math import inf, isfinite

from overlapscope.fleet.config import FleetConfig

Ends = Callable[[int], Mapping[int, int]]
"""For a trace, when its collectives ended, by their numbers, on its own clock."""
_MOST_GROUPS = 128  # each is compared with each


def joined(
    groups: Mapping[str, Sequence[int]], ranks: Mapping[str, frozenset[int]], ends: Ends, config: FleetConfig
) -> list[tuple[str, ...]]:
    """The names of the groups that are of one job together; each by itself where there are too many to compare.

    Two groups are, where the distances between the ends of the same collectives in both are more even, many times, than
    those with any group that has the same ranks as one of the two.

    Args:
        groups: the numbers of traces by the name of their group.
        ranks: the ranks of each group.
        ends: the ends of the collectives of a trace.
        config: how many collectives, and how much more even.
    """
    if len(groups) > _MOST_GROUPS:
        return [(name,) for name in groups]
    told = {name: dict(islice(ends(mine[0]).items(), config.most_matched)) for name, mine in groups.items()}
    apart = [(one, other) for one, other in combinations(groups, 2) if not ranks[one] & ranks[other]]
    uneven = {frozenset((one, other)): _unevenness(told[one], told[other], config) for one, other in apart}
    found = {name: {name} for name in groups}
    for one, other in sorted(apart, key=lambda pair: uneven[frozenset(pair)]):
        spread, merged = uneven[frozenset((one, other))], found[one] | found[other]
        sure = isfinite(spread) and spread * config.more_even <= _rivals(one, other, uneven, ranks)
        if sure and _disjoint(merged, ranks):
            found |= dict.fromkeys(merged, merged)
    return list(dict.fromkeys(tuple(name for name in groups if name in found[each]) for each in groups))


def _unevenness(one: Mapping[int, int], other: Mapping[int, int], config: FleetConfig) -> float:
    """How far the distances between the ends of the same collectives lie apart; infinite with too few in common."""
    distances = [one[number] - other[number] for number in one.keys() & other.keys()]
    if len(distances) < config.least_matched:
        return inf
    return max(float(max(distances) - min(distances)), 1.0)


def _rivals(one: str, other: str, uneven: Mapping[frozenset[str], float], ranks: Mapping[str, frozenset[int]]) -> float:
    """The least unevenness of one of two groups with a group that has ranks of the other; 0 where there is none."""
    pairs = (
        frozenset((mine, name))
        for mine, theirs in ((one, other), (other, one))
        for name in ranks
        if name != theirs and ranks[name] & ranks[theirs]
    )
    return min((uneven[pair] for pair in pairs if pair in uneven), default=0.0)


def _disjoint(names: set[str], ranks: Mapping[str, frozenset[int]]) -> bool:
    return sum(len(ranks[name]) for name in names) == len(frozenset().union(*(ranks[name] for name in names)))
