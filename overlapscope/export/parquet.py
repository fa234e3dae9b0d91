"""Write a trace's tables as Parquet files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from overlapscope.errors import OutputError
from overlapscope.model.trace import Trace


def save_parquet(trace: Trace, folder: str | Path) -> list[Path]:
    """Write each table that has rows to ``folder``, made where it is not there, and what is known of the trace.

    Columns are those of the column reference, with their units as field metadata; ``metadata.json`` names the tool,
    the devices, and what was lost in reading.

    Returns:
        The files.

    Raises:
        OutputError: they cannot be written.
    """
    import pyarrow.parquet as pq

    folder, files = Path(folder), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in trace.tables():
            if len(table):
                files.append(folder / f"{name}.parquet")
                pq.write_table(table.to_arrow(), files[-1], compression="zstd")
        files.append(folder / "metadata.json")
        files[-1].write_text(json.dumps(_about(trace), indent=1) + "\n")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror or error})") from error
    return files


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
