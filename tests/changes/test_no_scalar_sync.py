"""No value is read in the loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from tests.notation import trace_of


@pytest.mark.parametrize(("size", "left"), [("4B", 0), ("4KiB", 3)])
def test_a_value_that_is_not_read_is_not_copied(size: str, left: int, tmp_path: Path) -> None:
    """A copy of more than a value stays, and nothing waits for it."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: launch 0-4 -> stream 7: 5-105 | copy {size} pageable DtoH 6-108 -> stream 7: 105-108
                  stream-sync 110-115 | launch 120-124 -> stream 7: 130-230
        """,
    )
    found = what_if(trace, ["no-scalar-sync"])
    assert found.after.copies.duration_ns.tolist() == [left * 1000]
    copy, wait = (found.after.api_calls.duration_ns[row] for row in (1, 2))
    assert copy < 6_000
    assert (copy == 0) == (size == "4B")
    assert wait == 0
