"""Write docs/columns.md from the tables' own declarations.

python docs/make_columns.py [--check]
"""

from __future__ import annotations

import sys
from inspect import getdoc
from pathlib import Path

from overlapscope.analysis.tables import CopyTable, FindingTable, GapTable, RangeTable, StreamTable
from overlapscope.diagnosis.causes import IdleTime
from overlapscope.fleet.schema import MAPPED, OF_JOBS
from overlapscope.measure.copies import CopyFacts
from overlapscope.model.columns import Column, Table
from overlapscope.model.trace import TABLES

TARGET = Path(__file__).with_name("columns.md")
HEAD = """# Column reference

Made from the declarations of the tables by `docs/make_columns.py`; do not edit.

Times are integer nanoseconds on the trace's own clock; intervals are half-open, `[start_ns, end_ns)`. In `to_pandas()`
and `to_arrow()`, text and enum columns come as words (text columns without their `_id`), and unknown values as nulls.
CSV and Parquet files have the same names.
"""

FLEET = """## Tables of a fleet

`overlapscope fleet -o FOLDER` writes them as Parquet, and `overlapscope.open_fleet(FOLDER)` opens them. Those with rows
of every trace begin with `trace`, its number, `job` and `rank`; `traces` has its `source` as well.
"""
TYPES = {"i": "integer", "f": "float", "s": "text", "b": "boolean"}


def reference() -> str:
    tables: dict[str, type[Table]] = TABLES | {
        "copy_facts(trace, ...)": CopyFacts,
        "attribute_idle(trace, ...)": IdleTime,
        "copy_table(trace)": CopyTable,
        "gap_table(trace)": GapTable,
        "finding_table(trace)": FindingTable,
        "range_table(trace, ...)": RangeTable,
        "stream_table(trace, ...)": StreamTable,
    }
    fleet = [FLEET, *(plain(name, columns) for name, columns in (OF_JOBS | MAPPED).items())]
    return "\n".join([HEAD, *(section(name, table) for name, table in tables.items()), *fleet])


def section(name: str, table: type[Table]) -> str:
    lines = [
        f"## `{name}`",
        "",
        (getdoc(table) or "").partition("\n")[0],
        "",
        "| column | dtype | unit | unknown | meaning |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(row(spec) for spec in table.columns()), ""])


def plain(name: str, columns: dict[str, str]) -> str:
    rows = (f"| `{column}` | {TYPES[text[0]]} | {text[2:]} |" for column, text in columns.items())
    return "\n".join([f"### `{name}`", "", "| column | type | meaning |", "|---|---|---|", *rows, ""])


def row(spec: Column) -> str:
    unknown = "" if spec.null is None else ("int64 minimum" if spec.null < -1 else str(spec.null))
    meaning = spec.meaning + (f": {', '.join(member.label for member in spec.enum)}" if spec.enum else "")
    return f"| `{spec.name}` | {spec.dtype} | {spec.unit} | {unknown} | {meaning} |"


def main() -> None:
    text = reference()
    if "--check" in sys.argv:
        if TARGET.read_text() != text:
            sys.exit("docs/columns.md is out of date: run python docs/make_columns.py")
        return
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
