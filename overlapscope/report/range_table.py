"""The table of range names: how often each occurs, and what the GPUs did then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.measure.ranges import figures_by_range
from overlapscope.measure.windows import Window
from overlapscope.model.columns import Int32, Int64, Table, column
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.given import trace_and_window
from overlapscope.report.words import Words


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RangeTable(Table):
    """Every name of a range, each occurrence counted up to the end of the device work issued in it."""

    row_meaning: ClassVar[str] = "All ranges of one name, each up to the end of the device work issued in it."

    name_id: Int32 = column("i4", "name of the range", text=True)
    occurrences: Int64 = column("i8", "how often it occurs")
    host_ns: Int64 = column("i8", "median time from its begin to its end on the host", unit="ns")
    after_ns: Int64 = column("i8", "median time for which its device work goes on after that", unit="ns")
    blocked_ns: Int64 = column("i8", "time for which calls in it blocked its thread, over all occurrences", unit="ns")
    wall_ns: Int64 = column("i8", "union of its occurrences", unit="ns")
    kernel_busy_ns: Int64 = column("i8", "time with a kernel in it, summed over devices", unit="ns")
    copy_busy_ns: Int64 = column("i8", "time with a copy in it, summed over devices", unit="ns")
    overlap_ns: Int64 = column("i8", "time with both, summed over devices", unit="ns")


def range_table(found: Trace | Diagnosis | Audit, within: str | Window | None = None) -> RangeTable:
    """Every range name of a window, the longest first; ranges nest, so their times do not add up.

    Without ``within``, of a whole trace, or of the window that a diagnosis or audit is about.

    Raises:
        RangeNotFound: the trace has no range that ``within`` names.
    """
    trace, window = trace_and_window(found, within)
    words, table = Words(), trace.ranges
    inside = window.covers(table.process, table.start_ns, table.end_ns) == table.duration_ns
    figures = figures_by_range(trace, table.take(inside), window=window)
    numbers = (
        "occurrences",
        "host_ns",
        "after_ns",
        "blocked_ns",
        "wall_ns",
        "kernel_busy_ns",
        "copy_busy_ns",
        "overlap_ns",
    )
    columns = {name: np.array([getattr(entry, name) for entry in figures]) for name in numbers}
    columns["name_id"] = words.ids(entry.name for entry in figures)
    return RangeTable.build(words.names, len(figures), columns)
