"""Reading a part of a trace: some tables, or what touches a window of time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope.model.trace import TABLES, Trace
from overlapscope.read.opening import open_trace
from tests import kineto_maker as make
from tests.conftest import SAMPLES

Window = tuple[int, int] | None
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


def ranks(path: Path) -> Path:
    """Two ranks in one file, each with a GPU that it calls 0, whose work is launched long before it runs."""
    events = []
    for rank in (1, 2):
        here, first = {"pid": rank, "tid": rank}, 10 * rank
        frame = make.cpu_op("train.py(1): step", 3, 90, **here) | {"cat": "python_function"}
        waited = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": first + 1}
        events += [
            make.annotation("ProfilerStep#1", 0, 200, **here),
            make.annotation("nn.Module: layer", 1, 90, **here),
            make.cpu_op("aten::mm", 2, 300, **here),
            frame,
            make.call(10, 2, correlation=first, **here),
            make.call(13, 1, name="cudaEventRecord", correlation=first + 1, **here),
            make.call(15, 1, name="cudaStreamWaitEvent", correlation=first + 2, **here),
            make.call(17, 2, correlation=first + 3, **here),
            make.call(30, 150, name="cudaStreamSynchronize", correlation=first + 4, **here),
            make.kernel(100 + rank, 20, correlation=first),
            make.sync("Stream Wait Event", 16, 1, stream=20, correlation=first + 2, **waited),
            make.kernel(130 + rank, 20, stream=20, correlation=first + 3),
            make.sync("Context Sync", 31, 148, stream=-1, correlation=first + 4),
        ]
    return make.write(path, *events, **make.calibrated())


def said(trace: Trace, table: str, categories: set[str], window: Window) -> list[tuple[object, ...]]:
    """What a table says of its rows in a window, with calls told by their times where they are wanted themselves."""
    times = list(zip(trace.api_calls.start_ns.tolist(), trace.api_calls.end_ns.tolist(), strict=True))
    columns = getattr(trace, table).to_dict()
    for name in {"call", "record_call", "parent"} & columns.keys():
        found = [None if row is None else times[row] for row in columns[name]]
        known = "api_calls" in categories
        columns[name] = [call if call and known and touches(*call, window) else None for call in found]
    start, end = (columns.get(name, columns.get("time_ns")) for name in ("start_ns", "end_ns"))
    rows_of = list(zip(*columns.values(), strict=True))
    if start is None or end is None:
        return rows_of
    return [row for row, first, last in zip(rows_of, start, end, strict=True) if touches(first, last, window)]


def touches(start: int | None, end: int | None, window: Window) -> bool:
    return window is None or start is None or end is None or (start < window[1] and end >= window[0])


def windows(whole: Trace) -> list[Window]:
    """A part in the middle of the kernels, one between two of them, and one before all."""
    start = np.sort(whole.kernels.start_ns)
    end = np.maximum.accumulate(whole.kernels.end_ns)
    gap = int(np.argmax(start[1:] - end[:-1]))
    middle = (int(start[len(start) // 3]), int(start[2 * len(start) // 3]) + 1)
    return [middle, (int(end[gap]) + 1, int(start[gap + 1])), (whole.start_ns, whole.start_ns + 1)]


def check_part(path: Path, whole: Trace, categories: set[str] | None, window: Window) -> None:
    part = open_trace(path, categories=categories, window=window)
    wanted = set(TABLES) if categories is None else categories
    for table in TABLES:
        expected = said(whole, table, wanted, window) if table in wanted else []
        assert said(part, table, wanted, window) == expected, (table, categories, window)
    known = {warning.code for warning in whole.health} | {"not-wanted"}
    assert {warning.code for warning in part.health} <= known, (categories, window)


@pytest.mark.parametrize("name", ["ranks", "offload-pinned-side.json.gz", "offload-pinned-side.sqlite.gz"])
def test_a_part_says_what_the_whole_says(tmp_path: Path, name: str) -> None:
    path = ranks(tmp_path / "ranks.json") if name == "ranks" else SAMPLES / name
    whole = open_trace(path)
    for categories in (*({table} for table in TABLES), {"kernels", "copies"}, {"kernels", "api_calls"}):
        check_part(path, whole, categories, None)
    for window in windows(whole):
        check_part(path, whole, None, window)
        check_part(path, whole, {"kernels"}, window)


def test_what_was_left_out_is_no_fault_of_the_file() -> None:
    whole = open_trace(FILES[0])
    assert not open_trace(FILES[1], categories={"api_calls"}).health.damaged
    for window in windows(whole)[1:]:
        health = open_trace(FILES[0], window=window).health
        assert {warning.code for warning in health} <= {warning.code for warning in whole.health} | {"not-wanted"}
        assert not health.no_device_work


def test_frames_of_modules_where_nothing_else_was_recorded(tmp_path: Path) -> None:
    frame = make.cpu_op("nn.Module: Linear_0", 0, 9) | {"cat": "python_function"}
    path = make.write(tmp_path / "frames.json", frame)
    assert len(open_trace(path).frames) == len(open_trace(path, categories={"frames"}).frames) == 1


def test_a_selection_that_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="gpu_memcpy"):
        open_trace(FILES[0], categories=["gpu_memcpy"])
    with pytest.raises(ValueError, match="window"):
        open_trace(FILES[0], window=(5, 3))
