"""Write one table as CSV or Parquet, with the names of its declaration."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import IO, Any

_BATCH = 1 << 12  # rows that become text at once
_FORMULA = tuple("=+-@\t\n\uff1d\uff0b\uff0d\uff20")
"""Spreadsheets run what begins like this; the last four signs are the first ones in full width."""
_CONTROLS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {*map(ord, "\t\n")}, "?")
"""What a terminal could take for a command."""


def write_csv(table: Any, file: IO[bytes]) -> None:
    """Write an Arrow table as CSV: a row of names, unknown values empty, no text that spreadsheets or terminals run."""
    for text in csv_texts(table):
        file.write(text.encode())


def write_parquet(table: Any, file: IO[bytes]) -> None:
    """Write an Arrow table as Parquet; units and meanings of columns are metadata of their fields."""
    import pyarrow.parquet as pq

    pq.write_table(table, file, compression="zstd")


def csv_texts(table: Any) -> Iterator[str]:
    """An Arrow table as CSV, in parts."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.schema.names)
    yield buffer.getvalue()
    for batch in table.to_batches(max_chunksize=_BATCH):
        buffer.seek(0)
        buffer.truncate()
        columns = batch.to_pydict().values()
        writer.writerows([_cell(value) for value in row] for row in zip(*columns, strict=True))
        yield buffer.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        text = value.translate(_CONTROLS)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return "" if value != value else value  # noqa: PLR0124 - NaN
