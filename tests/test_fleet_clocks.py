"""Clocks of ranks, who is late, and the replay, on collectives that are written down."""

from __future__ import annotations

import numpy as np
import pytest

from overlapscope.fleet.clocks import Matched, align, arrivals, quantile, shared
from overlapscope.fleet.stragglers import replay

MOVE = 100


def collectives(skew: list[int], begins: list[list[int]], groups: list[list[int]] | None = None) -> Matched:
    """Collectives that each rank comes to at these times, and that end together; on clocks that are so far ahead."""
    rows = []
    for number, times in enumerate(begins):
        members = range(len(skew)) if groups is None else groups[number]
        end = max(times) + MOVE
        rows += [
            (number, member, at + skew[member], end + skew[member]) for member, at in zip(members, times, strict=True)
        ]
    number, member, start, end = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    collective, order = shared(number, np.ones(len(rows), np.bool_), member)
    return Matched(collective, member[order], order, start[order], end[order], len(begins), len(skew))


def test_offsets_are_found_whatever_they_are() -> None:
    skew = [0, 10**12, -7, 500_000]
    clocks = align(collectives(skew, [[step * 1000 + rank for rank in range(4)] for step in range(5)]))
    assert clocks.offset_ns.tolist() == skew
    assert clocks.aligned.all()
    assert clocks.error_ns.max() == 0


def test_ranks_that_meet_only_through_others_are_on_one_clock() -> None:
    """Ranks 0 and 1 reduce together, and ranks 1 and 2."""
    groups = [[0, 1], [1, 2]] * 3
    clocks = align(collectives([0, 30, 900], [[step * 1000, step * 1000 + 5] for step in range(6)], groups))
    assert clocks.offset_ns.tolist() == [0, 30, 900]
    assert clocks.part.tolist() == [0, 0, 0]


def test_groups_that_never_meet_have_clocks_of_their_own() -> None:
    groups = [[0, 1], [2, 3]] * 3
    matched = collectives([0, 30, 10**9, 10**9 + 5], [[step * 1000, step * 1000 + 400] for step in range(6)], groups)
    clocks = align(matched)
    assert clocks.part.tolist() == [0, 0, 2, 2]
    assert clocks.offset_ns.tolist() == [0, 30, 0, 5]
    arrived = arrivals(matched, clocks)
    assert arrived.late_ns.tolist() == [400] * 6
    assert arrived.last.tolist() == [1, 3] * 3


def test_a_rank_with_two_collectives_in_common_is_not_aligned() -> None:
    groups = [[0, 1, 2], [0, 1, 2], [0, 1], [0, 1]]
    times = [[step * 1000] * len(group) for step, group in enumerate(groups)]
    clocks = align(collectives([0, 5, 9], times, groups))
    assert clocks.aligned.tolist() == [True, True, False]


def test_a_few_collectives_that_end_apart_do_not_move_a_clock() -> None:
    matched = collectives([0, 1000], [[step * 1000] * 2 for step in range(12)])
    matched.end_ns[1] += 400  # of the second rank's first collective
    clocks = align(matched)
    assert clocks.offset_ns.tolist() == [0, 1000]
    assert clocks.error_ns.max() == 0


def test_a_clock_is_aligned_on_some_of_many_collectives_of_each_group() -> None:
    groups = [[0, 1]] * 50 + [[1, 2]] * 5
    matched = collectives([0, 30, 900], [[step * 1000, step * 1000 + 5] for step in range(55)], groups)
    clocks = align(matched, most_matched=4)
    assert clocks.offset_ns.tolist() == [0, 30, 900]
    assert clocks.matched.tolist() == [50, 55, 5]
    matched.end_ns[9:100:2] += 10**6  # of rank 1, in all but the first four with rank 0
    assert align(matched, most_matched=4).offset_ns.tolist()[:2] == [0, 30]


def test_quantiles_of_many_rows_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(1)
    group, values = np.sort(chance.integers(0, 9, 200)) * 2, chance.integers(0, 50, 200)
    whole = quantile(values, group, 18, 0.9)
    monkeypatch.setattr("overlapscope.fleet.clocks.ROWS_AT_ONCE", 10)
    assert quantile(values, group, 18, 0.9).tolist() == whole.tolist()


def test_collectives_that_never_ran_at_one_moment_are_not_judged() -> None:
    matched = collectives([0, 0, 0], [[step * 1000] * 3 for step in range(12)])
    matched.start_ns[2] += 500
    matched.end_ns[2] += 500
    arrived = arrivals(matched, align(matched))
    assert arrived.counts.tolist() == [False] + [True] * 11


def test_lateness_waiting_and_transfer() -> None:
    matched = collectives([0, 7, 9], [[step * 10_000, step * 10_000 + 10, step * 10_000 + 900] for step in range(4)])
    arrived = arrivals(matched, align(matched))
    assert arrived.last.tolist() == [2] * 4
    assert arrived.late_ns.tolist() == [890] * 4
    assert arrived.wait_ns.tolist() == [900 + 890] * 4
    assert arrived.transfer_ns.tolist() == [MOVE] * 4


@pytest.mark.parametrize(
    ("shares", "saving"), [([0, 0, 0], 0), ([0, 0, 1], 4 * 600), ([0, 1, 1], 4 * 900), ([0, 0, 0.5], 4 * 375)]
)
def test_the_replay_goes_on_as_soon_as_the_next_rank_allows(shares: list[float], saving: int) -> None:
    """Each step rank 0 works 100, rank 1 400 and rank 2 1000; without rank 2 the job waits for rank 1."""
    begins, now = [], 0
    for _ in range(4):
        begins.append([now + 100, now + 400, now + 1000])
        now += 1000 + MOVE
    matched = collectives([0, 0, 0], begins)
    arrived = arrivals(matched, align(matched))
    nothing = np.zeros(12, np.int64)
    late, each = np.array(shares) > 0, np.array([shares], np.float64)
    found = replay(arrived, np.zeros(3, np.int64), nothing, np.arange(4), late, each)
    assert found.recorded_ns == now
    assert found.saving_ns.tolist() == [saving]


def test_numbers_that_are_not_known_or_of_one_rank_match_nothing() -> None:
    number, member = np.array([1, 1, 2, 3, 3]), np.array([0, 1, 0, 0, 1])
    known = np.array([True, True, True, True, False])
    assert shared(number, known, member)[1].tolist() == [0, 1]
