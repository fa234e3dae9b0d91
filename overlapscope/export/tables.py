"""Write tables as Parquet or CSV: one table, or all tables of a trace and of its diagnosis in a folder."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Literal

from overlapscope.analysis.analysis import Analysis
from overlapscope.analysis.tables import copy_table, finding_table, gap_table
from overlapscope.atomic_files import output_errors, writing
from overlapscope.model.trace import Trace

_BATCH = 1 << 12  # rows that become text at once
_FORMULA = tuple("=+-@\t\n\uff1d\uff0b\uff0d\uff20")
"""Spreadsheets run a cell that begins with one of these; the last four are the first four in full width."""
_CONTROLS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {*map(ord, "\t\n")}, "?")
"""Characters that a terminal could take for a command."""


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


_WRITERS = {"parquet": write_parquet, "csv": write_csv}


def save_tables(analysis: Analysis, folder: str | Path, form: Literal["parquet", "csv"] = "parquet") -> list[Path]:
    """Write each table that has rows to ``folder``, made where it is not there, and ``metadata.json``.

    These are the recorded tables, the measured ``gaps`` and ``findings``, and ``copies`` with both the recorded and the
    measured columns. Columns are those of the column reference; Parquet has their units as field metadata.
    ``metadata.json`` names the tool, the devices, and what was lost in reading.

    Returns:
        The files.

    Raises:
        OutputError: they cannot be written.
    """
    folder, files = Path(folder), []
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, table in _tables(analysis):
        if len(table):
            files.append(folder / f"{name}.{form}")
            with writing(files[-1]) as file:
                _WRITERS[form](table, file)
    files.append(folder / "metadata.json")
    with writing(files[-1]) as file:
        file.write((json.dumps(_metadata(analysis.trace), indent=1) + "\n").encode())
    return files


def _tables(analysis: Analysis) -> Iterator[tuple[str, Any]]:
    """Each table with its name, as Arrow."""
    for name, table in analysis.trace.tables():
        yield name, _copies(analysis) if name == "copies" else table.to_arrow()
    yield "gaps", gap_table(analysis).to_arrow()
    yield "findings", finding_table(analysis).to_arrow()


def _copies(analysis: Analysis) -> Any:
    """The measured columns of copies, and those recorded ones that they lack."""
    measured = copy_table(analysis)
    result, recorded = measured.to_arrow(), analysis.trace.copies.take(measured.row).to_arrow()
    for name in recorded.schema.names:
        if name not in result.schema.names:
            result = result.append_column(recorded.schema.field(name), recorded.column(name))
    return result


def _metadata(trace: Trace) -> dict[str, Any]:
    metadata = trace.metadata
    return {
        "format": metadata.format,
        "tool": metadata.tool,
        "schema_version": metadata.schema_version,
        "base_time_ns": metadata.base_time_ns,
        "rank": metadata.rank,
        "devices": [asdict(device) for device in metadata.devices],
        "warnings": [asdict(warning) for warning in trace.health],
    }
