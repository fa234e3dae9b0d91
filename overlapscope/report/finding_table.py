"""The table ``findings``: one row each, ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64, Table, column
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit
from overlapscope.report.given import diagnosis_of
from overlapscope.report.words import Words


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FindingTable(Table):
    """Every finding, with its cost and the place with the most GPU idle time; columns as `Diagnosis.to_pandas`."""

    row_meaning: ClassVar[str] = "One finding, with the place that has the most GPU idle time."

    rank: Int64 = column("i8", "1 for the finding to look at first")
    code_id: Int32 = column("i4", "code of the rule", text=True)
    name_id: Int32 = column("i4", "name of the rule", text=True)
    kind_id: Int32 = column("i4", "kind, of a rule that has several", text=True, null=NO_ID)
    severity_id: Int32 = column("i4", "hazard, high, medium, low or info", text=True)
    confidence_id: Int32 = column("i4", "high, medium or low", text=True)
    idle_ns: Int64 = column("i8", "GPU idle time attributed to it", unit="ns")
    blocked_ns: Int64 = column("i8", "host time for which its calls blocked their threads", unit="ns")
    change_id: Int32 = column("i4", "change that what-if simulates for it", text=True, null=NO_ID)
    saving_ns: Int64 = column("i8", "simulated saving of that change", unit="ns", null=NO_ID)
    saving_high_ns: Int64 = column("i8", "upper bound of the saving, where it is uncertain", unit="ns", null=NO_ID)
    offered: Bool = column("?", "whether its change is worth trying")
    message_id: Int32 = column("i4", "what was found, as one sentence", text=True)
    range_id: Int32 = column("i4", "ranges around the call, outermost first", text=True, null=NO_ID)
    source_id: Int32 = column("i4", "line of user code of the call", text=True, null=NO_ID)
    op_id: Int32 = column("i4", "PyTorch operator of the call", text=True, null=NO_ID)
    api_id: Int32 = column("i4", "the CUDA call", text=True, null=NO_ID)
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    thread: Int64 = column("i8", "operating-system thread id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    stream: Int64 = column("i8", "stream id", null=NO_ID)
    copies: Int64 = column("i8", "number of copies concerned")


def finding_table(given: Trace | Diagnosis | Audit) -> FindingTable:
    """The findings, ranked: of a diagnosis or audit, or of a whole trace."""
    words, rows = Words(), [finding.row() for finding in diagnosis_of(given).findings]
    columns = {}
    for spec in FindingTable.columns():
        values = [row[spec.name.removesuffix("_id")] for row in rows]
        filled = [NO_ID if value is None else value for value in values]
        columns[spec.name] = words.ids(values) if spec.text else np.array(filled, spec.dtype)
    return FindingTable.build(words.names, len(rows), columns)
