"""Facts that rows lack though every profiler writes them: files with another layout, or without their strings."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness.answer import Answer, Number, Verdict
from overlapscope.fitness.settings import EXPORT_AGAIN, Setting
from overlapscope.formatting import counted, safe
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64, stacked
from overlapscope.model.enums import ISSUING, Direction
from overlapscope.model.trace import Trace

MOST_MISSING = 0.05
"""With a smaller share of work without its call, or of calls without their work, figures hold: a few are cut off at
the ends of every trace."""
NAME_WIDTH = 40
"""Characters of a name from the trace in an answer."""


def without_name(trace: Trace, name_id: Int32) -> Bool:
    """The rows without a name."""
    nameless: Bool = np.isin(name_id, [NO_ID, *trace.names.find("")])
    return nameless


def without_place(trace: Trace, column: str) -> tuple[int, int]:
    """The number of kernels, copies and memsets without their ``device`` or ``stream``, and the number of all.

    Page migrations belong to no stream.
    """
    tables = trace.kernels, trace.copies.take(trace.copies.direction < Direction.UVM_HTOD), trace.memsets
    (values,) = stacked(tables, column)
    return int((values == NO_ID).sum()), len(values)


def issued(trace: Trace) -> tuple[Int64, Int64]:
    """The starts and calls of the work that a program issued; page migrations have no call."""
    tables = trace.kernels, trace.copies.take(trace.copies.direction < Direction.UVM_HTOD), trace.memsets
    start_ns, call = stacked(tables, "start_ns", "call")
    return start_ns, call.astype(np.int64)


def nameless_calls(trace: Trace, counts: dict[str, Number]) -> Answer | None:
    """The answer to what only the names of calls tell, where too many have none."""
    calls = trace.api_calls
    lost = int(without_name(trace, calls.name_id).sum())
    if lost <= MOST_MISSING * len(calls):
        return _of_other_runtime(trace, counts)
    text = f"{lost:,} of {counted(len(calls), 'call')} have no name, so that none is known to wait"
    return Answer(Verdict.NO, text, counts | {"nameless_calls": lost}, setting_of(trace), "calls have no names")


def other_runtime(trace: Trace) -> str:
    """The name of a call that issues work and is of neither CUDA nor ROCm, where many are so; else empty."""
    calls, (_, call) = trace.api_calls, issued(trace)
    issuing = np.unique(call[call != NO_ID])
    strange = issuing[~np.isin(calls.kind[issuing], ISSUING)]
    if len(strange) <= MOST_MISSING * len(issuing):
        return ""
    return trace.names[int(np.bincount(calls.name_id[strange]).argmax())]


def _of_other_runtime(trace: Trace, counts: dict[str, Number]) -> Answer | None:
    name = other_runtime(trace)
    if not name:
        return None
    text = f"calls of another runtime than CUDA and ROCm ({safe(name, NAME_WIDTH)}): none is known to wait"
    return Answer(Verdict.NO, text, counts, brief="of a runtime that is not known")


def setting_of(trace: Trace) -> Setting | None:
    """The setting that makes up for columns that are not there: another export by nsys; Kineto writes a file once."""
    return EXPORT_AGAIN if trace.metadata.format == "nsys" else None


def of_amd(trace: Trace) -> bool:
    """Whether ROCm ran the program: it records neither memory kinds nor what synchronisations wait for."""
    used = np.unique(trace.api_calls.name_id).tolist()
    named = any(trace.names[number].startswith("hip") for number in used)
    return named or any(key.startswith(("hip", "roc")) for key in trace.metadata.versions)
