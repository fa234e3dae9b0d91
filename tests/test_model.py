"""Tables: declared once, immutable, and the same in numpy, Arrow and pandas."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from overlapscope.model.columns import NO_ID, NO_TIME, Names
from overlapscope.model.enums import ApiKind, Direction, MemoryKind
from overlapscope.model.tables import Copies, Kernels
from overlapscope.model.trace import TABLES, Trace
from overlapscope.read.opening import open_trace
from tests.conftest import SAMPLES

SAMPLE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return open_trace(SAMPLE)


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_documented_and_missing_values_are_representable(name: str) -> None:
    for spec in TABLES[name].columns():
        assert len(spec.meaning) > 5
        assert not spec.name.endswith("_ns") or spec.unit == "ns"
        if spec.null is not None:
            assert np.array([spec.null]).astype(spec.dtype)[0] == spec.null


def test_nothing_can_be_changed(trace: Trace) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.kernels = trace.kernels  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.kernels.start_ns = trace.kernels.end_ns  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        trace.kernels.start_ns[0] = 0


def test_dtypes_and_lengths_are_checked() -> None:
    empty = Kernels.empty(Names())
    columns = {spec.name: getattr(empty, spec.name) for spec in Kernels.columns()}
    with pytest.raises(TypeError, match="start_ns"):
        Kernels(names=Names(), **columns | {"start_ns": np.empty(0, np.float64)})
    with pytest.raises(ValueError, match="lengths"):
        Kernels(names=Names(), **columns | {"start_ns": np.zeros(2, np.int64)})
    with pytest.raises(KeyError):
        Kernels.build(Names(), 1, {})


def test_arrow_has_nulls_dictionaries_and_units(trace: Trace) -> None:
    table = trace.copies.to_arrow()
    assert table.num_rows == len(trace.copies) == 6
    assert table.column("direction").to_pylist() == ["HtoD"] * 6
    assert table.column("source_kind").to_pylist() == ["pageable"] * 6
    assert table.column("graph_node").null_count == 6
    assert table.schema.field("start_ns").metadata[b"unit"] == b"ns"
    assert pa.types.is_dictionary(table.schema.field("name").type)
    assert set(table.column("name").to_pylist()) == {"Memcpy HtoD (Pageable -> Device)"}


def test_pandas_agrees_with_arrow(trace: Trace) -> None:
    for name, table in trace.tables():
        frame, arrow = table.to_pandas(), table.to_arrow()
        assert list(frame.columns) == arrow.column_names, name
        for column in frame:
            mine = [None if pd.isna(value) else value for value in frame[column].tolist()]
            assert mine == arrow.column(column).to_pylist(), (name, column)


def test_missing_values_survive_both() -> None:
    names = Names(("a",))
    start = np.array([1, 2], np.int64)
    table = Copies.build(names, 2, {"start_ns": start, "end_ns": start, "name_id": np.array([0, NO_ID], np.int32)})
    assert table.to_pandas()["stream"].isna().all()
    assert table.to_pandas()["name"].tolist()[0] == "a"
    assert table.to_arrow().column("name").to_pylist() == ["a", None]
    assert table.to_arrow().column("direction").to_pylist() == ["unknown", "unknown"]


def test_take_keeps_the_type(trace: Trace) -> None:
    part = trace.kernels.take(trace.kernels.stream == 7)
    assert isinstance(part, Kernels)
    assert len(part) == int((trace.kernels.stream == 7).sum())


def test_enums_have_distinct_labels() -> None:
    for enum in (ApiKind, Direction, MemoryKind):
        labels = [member.label for member in enum]
        assert len(set(labels)) == len(labels)
        assert enum(0).label in ("unknown", "other")


def test_window_of_the_whole_trace(trace: Trace) -> None:
    timed = [table for _, table in trace.tables() if hasattr(table, "end_ns") and len(table)]
    assert trace.start_ns == min(table.start_ns.min() for table in timed)
    assert trace.end_ns == max(table.end_ns.max() for table in timed)
    assert trace.start_ns > NO_TIME


def test_repr_says_what_is_in_it(trace: Trace) -> None:
    assert "12 kernels" in repr(trace)
    assert "6 copies" in repr(trace)
