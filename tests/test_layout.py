"""Tables of text: one unit per column, aligned decimals, and nothing lost on a narrow terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from overlapscope.document.nodes import Table, table
from overlapscope.document.text import show
from overlapscope.formatting import numbers, time_unit
from overlapscope.report.tables import in_time

ROWS: dict[str, Sequence[str]] = {
    **in_time(start=[1_700_000, 74_800_000, 300_000]),
    "process": ["787"] * 3,
    "direction": ["HtoD"] * 3,
    "size (MiB)": ["12", "12", "12"],
    **in_time(exposed=[2_410_000, 2_310_000, 9_000], host_blocked=[2_590_000, 0, None]),
    "call": ["cudaMemcpyAsync", "cudaMemcpy", "cudaMemcpyAsync"],
    "range": ["an annotation with a long name", "copy", "-"],
}
COPIES = table("Copies", ROWS)


def printed(shown: Table, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        show([shown], console)
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_column_is_lost_and_no_heading_is_cut(width: int) -> None:
    lines = printed(COPIES, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for heading in ("start", "process", "direction", "size", "exposed", "host", "blocked", "call", "range"):
        assert heading in words, heading
    for value in ("787", "HtoD", "12", "74.80", "2.410", "0.009", "2.59"):
        assert value in " ".join(words).replace(",", " ").split(), value


def test_what_is_alike_in_all_rows_stands_above_a_table_that_is_too_wide() -> None:
    assert "process 787, direction HtoD, size 12 MiB" in printed(COPIES, 80)
    assert "process 787" not in " ".join(printed(COPIES, 200))
    assert "process" in " ".join(printed(replace(COPIES, rows=COPIES.rows[:1]), 40)), "not in a table of one row"


def test_long_texts_are_cut_before_columns_move_below() -> None:
    lines = printed(COPIES, 64)
    assert any("…" in line for line in lines)
    assert sum("range" in line for line in lines) == 1
    assert len(lines) == len(printed(COPIES, 80)), "one part"


def test_decimals_stand_below_each_other() -> None:
    assert ROWS["exposed (ms)"] == ["2.410", "2.310", "0.009"]
    assert ROWS["host blocked (ms)"] == ["2.59", "0.00", "?"]


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**13)), min_size=1))
def test_a_column_has_one_unit_and_as_many_decimals_everywhere(values: list[int | None]) -> None:
    length, _ = time_unit(values)
    texts = [text for text in numbers(values, length) if text != "?"]
    assert len({len(text.partition(".")[2]) for text in texts}) <= 1
    assert texts == [] or max(len(text) for text in texts) <= len("99,999.999")
