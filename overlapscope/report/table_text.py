"""Tables of numbers as rows of text: headings and units from the declarations of their columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overlapscope.formatting import numbers, safe
from overlapscope.model.columns import Column, Table, public_name
from overlapscope.report.tables import NO_VALUE, Cells, TextColumns, in_bytes, in_time, rows

_NAME_WIDTH = 200
"""Most characters of a text; a terminal shows fewer."""
_SUFFIX = {"ns": "_ns", "bytes": "_bytes", "GB/s": "_gb_s"}


def cells_of(table: Table, shown: Sequence[str], zero_ns: int) -> list[Cells]:
    """Some columns as text, by their public names; starts and ends count from ``zero_ns``, durations share a unit."""
    specs = {public_name(spec): spec for spec in table.columns()}
    values = table.to_dict()
    moments = [name for name in shown if name in ("start_ns", "end_ns")]
    lengths = [name for name in shown if specs[name].unit == "ns" and name not in moments]
    texts: TextColumns = {
        **in_time(**{_bare(specs[name]): [value - zero_ns for value in values[name]] for name in moments}),
        **in_time(**{_bare(specs[name]): values[name] for name in lengths}),
    }
    headings = {heading.rpartition(" (")[0]: heading for heading in texts}
    ordered: dict[str, Sequence[str]] = {}
    for name in shown:
        heading = headings.get(_bare(specs[name]).replace("_", " "))
        ordered |= {heading: texts[heading]} if heading else _column(specs[name], values[name])
    return rows(ordered)


def _column(spec: Column, values: list[object]) -> TextColumns:
    heading = _bare(spec).replace("_", " ")
    if spec.text or spec.enum is not None:
        return {heading: [NO_VALUE if value is None else safe(str(value), _NAME_WIDTH) for value in values]}
    known = [value if isinstance(value, int | float) else None for value in values]
    if spec.unit == "bytes":
        return in_bytes(heading, known)
    if spec.dtype == np.bool_:
        return {heading: ["yes" if value else "no" for value in values]}
    if not spec.unit:
        return {heading: ["?" if value is None else str(value) for value in known]}
    return {f"{heading} ({spec.unit})": numbers(known)}


def _bare(spec: Column) -> str:
    """A column's name without its unit."""
    return public_name(spec).removesuffix(_SUFFIX.get(spec.unit, ""))
