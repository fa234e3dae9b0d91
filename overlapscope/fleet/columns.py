"""Single columns and rows of the tables of all traces, read piece by piece, in a fraction of the memory of a frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from overlapscope.model.columns import Bool, Int64

if TYPE_CHECKING:
    import pandas
    import pyarrow


def integers(folder: Path, table: str, column: str) -> tuple[Int64, Bool]:
    """A column of integers, 0 where one is not known, and which are."""
    import pyarrow.parquet as pq

    rows, begin = pq.read_metadata(folder / f"{table}.parquet").num_rows, 0
    values, known = np.empty(rows, np.int64), np.empty(rows, np.bool_)
    for batch in _batches(folder, table, [column]):
        here = slice(begin, begin + len(batch))
        values[here] = batch.column(0).fill_null(0).to_numpy()
        known[here] = batch.column(0).is_valid().to_numpy(zero_copy_only=False)
        begin += len(batch)
    return values, known


def some_rows(folder: Path, table: str, columns: Sequence[str], rows: Int64) -> pandas.DataFrame:
    """Some rows of some columns, in this order; integers that may be unknown are nullable."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(folder / f"{table}.parquet")
    order = np.argsort(rows, kind="stable")
    wanted, begin, found = rows[order], 0, []
    for batch in _batches(folder, table, columns):
        first, last = np.searchsorted(wanted, (begin, begin + len(batch)))
        found.append(batch.take(pa.array(wanted[first:last] - begin)))
        begin += len(batch)
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    taken = pa.Table.from_batches(found, pa.schema([schema.field(name) for name in columns])).take(pa.array(place))
    frame: pandas.DataFrame = taken.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame


def _batches(folder: Path, table: str, columns: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(folder / f"{table}.parquet") as file:
        yield from file.iter_batches(columns=list(columns), use_threads=False)
