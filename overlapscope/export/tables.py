"""Write the tables of a trace and of its diagnosis as Parquet or CSV files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from overlapscope.atomic_files import writing
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.errors import OutputError
from overlapscope.export.columns import write_csv, write_parquet
from overlapscope.model.trace import Trace
from overlapscope.report.copy_table import copy_table
from overlapscope.report.finding_table import finding_table
from overlapscope.report.gap_table import gap_table

_WRITERS = {"parquet": write_parquet, "csv": write_csv}


def save_tables(found: Diagnosis, folder: str | Path, form: Literal["parquet", "csv"] = "parquet") -> list[Path]:
    """Write each table that has rows to ``folder``, made where it is not there, and what is known of the trace.

    These are the recorded tables, the measured ``gaps`` and ``findings``, and ``copies`` with both the recorded and the
    measured columns. Columns are those of the column reference; Parquet has their units as field metadata.
    ``metadata.json`` names the tool, the devices, and what was lost in reading.

    Returns:
        The files.

    Raises:
        OutputError: they cannot be written.
    """
    folder, files = Path(folder), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror or error})") from error
    for name, table in _tables(found):
        if len(table):
            files.append(folder / f"{name}.{form}")
            with writing(files[-1]) as file:
                _WRITERS[form](table, file)
    files.append(folder / "metadata.json")
    with writing(files[-1]) as file:
        file.write((json.dumps(_about(found.trace), indent=1) + "\n").encode())
    return files


def _tables(found: Diagnosis) -> Iterator[tuple[str, Any]]:
    """Each table with its name, as Arrow."""
    for name, table in found.trace.tables():
        yield name, _copies(found) if name == "copies" else table.to_arrow()
    yield "gaps", gap_table(found).to_arrow()
    yield "findings", finding_table(found).to_arrow()


def _copies(found: Diagnosis) -> Any:
    """The measured columns of copies, and those recorded ones that they lack."""
    measured = copy_table(found)
    result, recorded = measured.to_arrow(), found.trace.copies.take(measured.row).to_arrow()
    for name in recorded.schema.names:
        if name not in result.schema.names:
            result = result.append_column(recorded.schema.field(name), recorded.column(name))
    return result


def _about(trace: Trace) -> dict[str, Any]:
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
