"""Reading a part of a trace: some tables, or what touches a window of time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope.model.trace import TABLES, Trace
from overlapscope.read.opening import open_trace
from tests.conftest import SAMPLES

FILES = [SAMPLES / f"moe_prefetch-pageable.{suffix}" for suffix in ("json.gz", "sqlite.gz")]


def rows(trace: Trace, table: str) -> list[tuple[int, int]]:
    part = getattr(trace, table)
    return sorted(zip(part.start_ns.tolist(), part.end_ns.tolist(), strict=True))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.suffixes[0])
def test_only_the_tables_that_are_asked_for(path: Path) -> None:
    whole, part = open_trace(path), open_trace(path, categories={"kernels", "copies"})
    for table in ("kernels", "copies"):
        assert rows(part, table) == rows(whole, table)
    filled = {table for table in TABLES if len(getattr(part, table))}
    assert filled == {"kernels", "copies"}
    assert part.metadata.devices == whole.metadata.devices


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.suffixes[0])
def test_only_what_touches_the_window(path: Path) -> None:
    whole = open_trace(path)
    window = tuple(np.quantile(whole.kernels.start_ns, (0.3, 0.6)).astype(int).tolist())
    part = open_trace(path, window=window)
    for table in ("kernels", "copies", "api_calls", "ranges", "cpu_ops"):
        assert rows(part, table) == [row for row in rows(whole, table) if row[0] < window[1] and row[1] >= window[0]]
    assert 0 < len(part.kernels) < len(whole.kernels)
    assert part.health.has("not-wanted")
    assert not whole.health.has("not-wanted")


def test_a_selection_that_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="gpu_memcpy"):
        open_trace(FILES[0], categories=["gpu_memcpy"])
    with pytest.raises(ValueError, match="window"):
        open_trace(FILES[0], window=(5, 3))
