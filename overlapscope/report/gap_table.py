"""The table ``gaps``: each stretch in which a GPU had no work of its own, with its cause and its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import DeviceDiagnosis, Diagnosis
from overlapscope.diagnosis.places import Moments
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64, Table, column
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.given import WITHOUT_PLAN, diagnosis_of
from overlapscope.report.words import PLACE, Words, places_of


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GapTable(Table):
    """Every stretch in which a GPU of the window did no work of its own, with one cause."""

    row_meaning: ClassVar[str] = "One stretch in which a GPU did no work of its own, with one cause."

    start_ns: Int64 = column("i8", "begin, on the trace's clock", unit="ns")
    end_ns: Int64 = column("i8", "end, exclusive", unit="ns")
    duration_ns: Int64 = column("i8", "its length", unit="ns")
    code_id: Int32 = column("i4", "rule that it counts for; unknown for the start-up", text=True, null=NO_ID)
    cause_id: Int32 = column("i4", "what it is attributed to", text=True, null=NO_ID)
    inferred: Bool = column("?", "whether the wait was inferred from times rather than recorded")
    copy_row: Int64 = column("i8", "row of the copy concerned in the trace's copies", null=NO_ID)
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    range_id: Int32 = column("i4", "ranges around the place to look at, outermost first", text=True, null=NO_ID)
    source_id: Int32 = column("i4", "line of user code there", text=True, null=NO_ID)
    op_id: Int32 = column("i4", "PyTorch operator there", text=True, null=NO_ID)
    api_id: Int32 = column(
        "i4", "CUDA call there: it blocked the thread, issued the copy, or was running", text=True, null=NO_ID
    )


def gap_table(given: Trace | Diagnosis | Audit) -> GapTable:
    """Every stretch in which a GPU had no work of its own, of all devices, in the order of time.

    It is that of the window that a diagnosis or audit is about, or of a whole trace.
    """
    found, words = diagnosis_of(given, WITHOUT_PLAN), Words()
    trace = found.trace
    idle = [device.idle for device in found.devices]
    start = _together([table.start_ns for table in idle])
    order = np.argsort(start, kind="stable")
    reasons = [device.codes[row] if row >= 0 else None for device in found.devices for row in device.reason.tolist()]
    causes = [Cause(number).name.lower() for table in idle for number in table.cause.tolist()]
    columns: dict[str, npt.NDArray[Any]] = {
        "start_ns": start,
        "end_ns": _together([table.end_ns for table in idle]),
        "duration_ns": _together([table.duration_ns for table in idle]),
        "code_id": words.ids(reasons),
        "cause_id": words.ids(causes),
        "inferred": _together([table.inferred for table in idle]).astype(np.bool_),
        "copy_row": _together([table.copy for table in idle]),
        "process": _together([np.full(len(device.idle), device.key.process) for device in found.devices]),
        "device": _together([np.full(len(device.idle), device.key.device) for device in found.devices]),
        **_places(trace, found.devices, words),
    }
    return GapTable.build(words.names, len(start), columns).take(order)


def _together(parts: list[Int64] | list[Int32] | list[Bool]) -> Int64:
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def _places(trace: Trace, devices: Iterable[DeviceDiagnosis], words: Words) -> dict[str, npt.NDArray[Any]]:
    parts = [places_of(trace, Moments.of_idle(trace, each.idle, each.idle.copy), words) for each in devices]
    names = [f"{name}_id" for name in PLACE]
    return {name: np.concatenate([np.empty(0, np.int32), *(part[name] for part in parts)]) for name in names}
