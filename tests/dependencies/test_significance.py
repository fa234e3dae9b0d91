"""How sure the test for thread hand-offs is: its level is kept, by itself and for threads that are by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.dependencies.threads import MOST_TESTED, TRUNCATION, significance
from overlapscope.model.columns import Float64
from tests import kineto_maker as make
from tests.notation import trace_of

PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=MOST_TESTED)
TRUNCATIONS = st.floats(0.05, 0.95)


def array(values: list[float]) -> Float64:
    return np.array(values, float)


@pytest.mark.parametrize("count", [1, 2, 5, 20, 200])
def test_what_is_uniform_is_accepted_no_more_often_than_the_level(count: int) -> None:
    """By chance the probabilities are uniform. Of 1 000 tests, with three standard deviations to spare."""
    random, tests = np.random.default_rng(count), 1_000
    found = np.array([significance(random.uniform(size=count), TRUNCATION) for _ in range(tests)])
    for level in (0.002, 0.01, 0.05, 0.2):
        assert (found <= level).sum() <= tests * level + 3 * np.sqrt(tests * level * (1 - level))


@pytest.mark.parametrize("count", [2, 5, 20])
def test_it_is_the_share_of_products_that_are_as_small(count: int) -> None:
    """Against simulation, for what is as unlikely as one in ten and one in a hundred."""
    random = np.random.default_rng(0)
    drawn = random.uniform(size=(20_000, count))
    products = np.where(drawn <= TRUNCATION, np.log(drawn), 0).sum(axis=1)
    for row in (np.argsort(products)[[200, 2_000]]).tolist():
        share = (products <= products[row]).mean()
        assert significance(drawn[row], TRUNCATION) == pytest.approx(share, rel=0.2)


@given(PROBABILITIES, TRUNCATIONS)
def test_it_is_a_probability_and_knows_no_order(values: list[float], truncation: float) -> None:
    found = significance(array(values), truncation)
    assert 0 <= found <= 1
    assert significance(array(values[::-1]), truncation) == pytest.approx(found)


@given(PROBABILITIES, TRUNCATIONS, st.data())
def test_what_is_less_likely_is_no_less_significant(
    values: list[float], truncation: float, data: st.DataObject
) -> None:
    less = list(values)
    row = data.draw(st.integers(0, len(values) - 1))
    less[row] = data.draw(st.floats(0, values[row]))
    assert significance(array(less), truncation) <= significance(array(values), truncation) * (1 + 1e-9)


@given(PROBABILITIES, st.floats(0.05, 0.9))
def test_what_is_likelier_than_the_truncation_says_nothing(values: list[float], truncation: float) -> None:
    above = array([truncation + (1 - truncation) * (value + 0.01) / 1.01 for value in values])
    assert significance(above, truncation) == 1


@given(st.floats(1e-5, 0.25))
def test_one_by_itself_is_as_significant_as_it_is_unlikely(value: float) -> None:
    assert significance(array([value]), 0.25) == pytest.approx(value)


def test_silences_end_by_chance_or_not() -> None:
    """Silences of 1 ms that end 10 us after their only cause, or at any moment after it; or with a cause each 20 us."""
    promptly, anywhere = np.full(20, 0.01), np.random.default_rng(0).integers(0, 100, 20) / 100
    assert significance(promptly, TRUNCATION) <= 0.01
    assert significance(anywhere, TRUNCATION) > 0.01
    assert significance(np.minimum(50 * promptly, 1), TRUNCATION) > 0.01
    assert significance(2 * promptly[:1], TRUNCATION) > 0.01, "once is not enough"


def by_themselves(seed: int, threads: int, steps: int) -> list[make.Event]:
    """Threads that have nothing to do with each other: some launches, and a pause of 1.5 to 8 ms more or less."""
    random, events = np.random.default_rng(seed), []
    for tid in range(1, threads + 1):
        now, pause = random.uniform(0, 3_000), random.uniform(1_500, 8_000)
        for _ in range(steps):
            for _ in range(random.integers(1, 8)):
                duration, correlation = float(random.integers(3, 12)), len(events) + 1
                events.append(make.call(now, duration, tid=tid, correlation=correlation))
                events.append(make.kernel(now + duration + 3, 2, stream=10 + tid, correlation=correlation))
                now += duration + random.uniform(5, 150)
            now += pause * random.uniform(0.8, 1.2)
    return events


@pytest.mark.parametrize(("steps", "most"), [(3, 2), (20, 4)])
def test_threads_that_go_quiet_together_wait_for_nobody(steps: int, most: int, tmp_path: Path) -> None:
    """Of 48 threads in eight processes, how many wait for another one.

    By the level, one process in fifty has a wrong pair: 0.01 goes to groups that were silent whenever a thread went on,
    and 0.01 to single threads. Both directions of a pair count, and a group of three others is three pairs, so that one
    mistake is two threads or more. With 20 steps there are more than that, about one process in twelve: threads whose
    pauses are about as long keep their distance for some steps, and one chance counts several times.
    """
    joined = 0
    for seed in range(8):
        graph = build_graph(trace_of(tmp_path, *by_themselves(seed, 6, steps), **make.H200))
        found = graph.dependencies.take(graph.dependencies.of_kind(DependencyKind.THREAD_HANDOFF))
        joined += len(np.unique(graph.calls.owner[found.target // 2]))
    assert joined <= most
