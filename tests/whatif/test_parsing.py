"""Changes as people write them: what is read, what is refused, and what contradicts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from overlapscope.errors import ChangeNotUnderstood
from overlapscope.whatif.catalogue import parse, understood
from overlapscope.whatif.changes.pin import Pin
from overlapscope.whatif.changes.prefetch import Prefetch


@pytest.mark.parametrize(
    "text", ["pin", "prefetch=2", "faster-link=50", "pin:within=copy,stream=13", "pin:stream=1,source=f(a, b)"]
)
def test_a_change_is_read_and_written_alike(text: str) -> None:
    assert str(parse(text)) == text


def test_a_range_may_be_called_so_too() -> None:
    assert str(parse("pin:range=copy,stream=13")) == "pin:within=copy,stream=13"


@given(
    within=st.none() | st.text(st.characters(categories=["L", "N"], include_characters=" ()[]*?.:"), min_size=1),
    stream=st.none() | st.integers(0, 2**31),
    steps=st.integers(1, 99),
)
def test_whatever_can_be_written_is_read_again(within: str | None, stream: int | None, steps: int) -> None:
    within = within.strip() or None if within else None
    change = Prefetch(within=within, stream=stream, steps=float(steps))
    assert parse(str(change)) == change


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "pin:stream=inf",
        "pin:stream=13.7",
        "prefetch=inf",
        "prefetch=nan",
        "faster-link=nan",
        "faster-link=1e-300",
        "cuda-graph:stream=7",
        "graph:stream=7",
        "preallocate:stream=7",
        "pin=3",
        "faster-link",
        "prefetch=0",
        "prefetch=x",
        "prefetch=1.5",
        "pin:colour=red",
        "pin:within",
        "pin:range",
        "pin:stream=x",
    ],
)
def test_a_change_that_makes_no_sense_is_said(text: str) -> None:
    with pytest.raises(ChangeNotUnderstood):
        parse(text)


def test_what_there_is_instead_is_said() -> None:
    with pytest.raises(ChangeNotUnderstood, match="no change 'nonsense': there are pin, pin-ahead, batch-copies"):
        parse("nonsense")


def test_changes_that_contradict_each_other_are_said() -> None:
    with pytest.raises(ChangeNotUnderstood, match="prefetch=1 and prefetch=2 contradict each other"):
        understood(["prefetch", "pin", "prefetch=2"])
    assert len(understood(["prefetch=1:within=a", "prefetch=2:within=b"])) == 2
    assert understood("pin") == understood([Pin(), "pin"]) == (Pin(),)
    assert understood(["graph", "cuda-graph"]) == understood("cuda-graph")
