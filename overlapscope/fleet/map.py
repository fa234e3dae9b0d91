"""The map: one trace in, its rows out. A pure function of the content of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlapscope.errors import TraceError
from overlapscope.fleet.rows import tables_of, trace_row
from overlapscope.fleet.schema import COLUMNS, ROWS, schema
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit
from overlapscope.report.data import Audit

if TYPE_CHECKING:
    import pyarrow

Part = dict[str, "pyarrow.Table"]
"""The rows of one trace by table; ``traces`` has a single one."""
_MOST_NUMBERS = 32  # of collectives: two traces with a tenth in common share some of these


def map_trace(path: str | Path, content: str) -> Part:
    """The rows of the trace in a local file, whose content has this hash; one that cannot be used has its error.

    One process reads a trace, since a fleet has others for the other traces.
    """
    try:
        return part_of(audit(open_trace(path, processes=1)), content)
    except TraceError as error:
        return failed(content, error.code, without(str(error), path))


def part_of(audited: Audit, content: str) -> Part:
    """The rows of an audited trace."""
    tables = tables_of(audited)
    numbers = sorted(set(tables["collectives"]["match"].drop_null().to_pylist()))[:_MOST_NUMBERS]
    about = {"content": content, "collectives": " ".join(map(str, numbers))}
    return _part(trace_row(audited) | about, tables)


def failed(content: str, code: str, error: str) -> Part:
    """The rows of a trace that cannot be used."""
    return _part({"content": content, "status": "failed", "code": code, "error": error}, {})


def without(message: str, path: str | Path) -> str:
    """A message without the path before it: the same content fails alike wherever it lies."""
    return message.removeprefix(f"{path}: ")


def _part(row: dict[str, Any], tables: Part) -> Part:
    import pyarrow as pa

    complete = dict.fromkeys(COLUMNS["traces"]) | {"lost": "", "collectives": ""} | row
    part = {"traces": pa.Table.from_pylist([complete], schema=schema("traces"))}
    return part | {name: tables.get(name, schema(name).empty_table()) for name in ROWS}
