"""The table ``copies``: each copy with what was measured of it, what it cost, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.diagnosis.places import Moments
from overlapscope.measure.copies import copy_facts
from overlapscope.measure.host import DEFAULT, HostConfig
from overlapscope.measure.windows import inside
from overlapscope.model.columns import NO_ID, Float64, Int8, Int32, Int64, Table, column
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.given import WITHOUT_PLAN, diagnosis_of
from overlapscope.report.words import Words, places_of


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CopyTable(Table):
    """Every copy of the window, with its cost, its cause and its place in the program."""

    row_meaning: ClassVar[str] = "One copy of the window, with its cost, its cause and its place in the program."

    row: Int64 = column("i8", "row in the trace's copies")
    start_ns: Int64 = column("i8", "begin, on the trace's clock", unit="ns")
    end_ns: Int64 = column("i8", "end, exclusive", unit="ns")
    duration_ns: Int64 = column("i8", "device time", unit="ns")
    hidden_ns: Int64 = column("i8", "part of it within the window that overlaps a kernel of its device", unit="ns")
    exposed_ns: Int64 = column("i8", "part of it within the window that overlaps no kernel", unit="ns")
    blocked_ns: Int64 = column("i8", "time for which its call blocked the host", unit="ns", null=NO_ID)
    idle_ns: Int64 = column("i8", "GPU idle time attributed to it", unit="ns")
    code_id: Int32 = column("i4", "rule that explains most of its cost", text=True, null=NO_ID)
    cause_id: Int32 = column("i4", "cause of most of the GPU idle time attributed to it", text=True, null=NO_ID)
    direction: Int8 = column("i1", "direction", enum=Direction)
    memory: Int8 = column("i1", "memory kind on the host side", enum=MemoryKind)
    size_bytes: Int64 = column("i8", "bytes copied", unit="bytes", null=NO_ID)
    bandwidth_gb_s: Float64 = column("f8", "bytes over device time; NaN where unknown", unit="GB/s")
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    stream: Int64 = column("i8", "stream id", null=NO_ID)
    range_id: Int32 = column("i4", "ranges around its call, outermost first", text=True, null=NO_ID)
    source_id: Int32 = column("i4", "line of user code of its call", text=True, null=NO_ID)
    op_id: Int32 = column("i4", "PyTorch operator of its call", text=True, null=NO_ID)
    api_id: Int32 = column("i4", "CUDA call that issued it", text=True, null=NO_ID)


def copy_table(given: Trace | Diagnosis | Audit, config: HostConfig = DEFAULT) -> CopyTable:
    """Every copy of the window that a diagnosis or audit is about, or of a whole trace, in the order of time."""
    found, words = diagnosis_of(given, WITHOUT_PLAN), Words()
    trace = found.trace
    rows = np.flatnonzero(inside(trace, trace.copies, found.window))
    copies, facts = trace.copies.take(rows), copy_facts(trace, found.window, config).take(rows)
    idle_ns, cause = _attributed(found)
    causes = [None if number == NO_ID else Cause(number).name.lower() for number in cause[rows].tolist()]
    columns = {
        "row": rows,
        "idle_ns": idle_ns[rows],
        "code_id": words.ids([found.copy_reasons[row] for row in rows.tolist()]),
        "cause_id": words.ids(causes),
        "memory": facts.host_kind,
        **{name: getattr(facts, name) for name in ("hidden_ns", "exposed_ns", "blocked_ns", "bandwidth_gb_s")},
        **{name: getattr(copies, name) for name in ("start_ns", "end_ns", "duration_ns", "direction", "size_bytes")},
        **{name: getattr(copies, name) for name in ("process", "device", "stream")},
        **places_of(trace, Moments.of_calls(trace, copies.call), words),
    }
    return CopyTable.build(words.names, len(rows), columns)


def _attributed(found: Diagnosis) -> tuple[Int64, Int64]:
    """For each copy of the trace the GPU idle time attributed to it, and the cause of most of that."""
    totals = np.zeros((len(found.trace.copies) + 1, len(Cause)), np.int64)
    for device in found.devices:
        np.add.at(totals, (device.idle.copy, device.idle.cause), device.idle.duration_ns)  # the last row: of no copy
    idle_ns = totals[:-1].sum(axis=1)
    return idle_ns, np.where(idle_ns > 0, totals[:-1].argmax(axis=1), NO_ID)
