"""Compute overlap as other tools define it, for comparison: HTA and TraceLens.

HTA (HolisticTraceAnalysis): a collective is a kernel whose name starts with ``nccl``; memory is copies and
memsets together; times are rounded inwards to whole microseconds; where there are several profiler steps, only device
work issued by calls within them counts, without the last step by default. Source:
``hta/analyzers/communication_analysis.py``,
``hta/utils/utils.py`` and ``hta/common/trace_parser.py`` of HTA 0.5.

TraceLens: a collective is a kernel with ``nccl`` in its name; memsets count as computation; exposed copy
time is what neither computation nor communication covers; work without a recorded call is left out. Source:
``TreePerf/gpu_event_analyser.py``, and the reference tables that TraceLens keeps beside its test traces.

Both merge all devices of a process into one timeline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from overlapscope.measure.grouping import at
from overlapscope.measure.places import named, steps
from overlapscope.measure.spans import Spans, intersect, merge, spans_of, subtract, union
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.frames import Row
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace

Definition = Literal["hta", "tracelens"]


@dataclass(frozen=True)
class TheirFigures(Row):
    """The overlap figures of one process by another tool's definition, in ns.

    ``exposed_*`` and ``overlap_fraction`` follow that tool; ``overlap_fraction`` is the share of
    communication under computation for HTA, the share of copy time under other work for TraceLens, and
    None where its denominator is zero.
    """

    definition: Definition
    process: int
    computation_ns: int
    communication_ns: int
    memory_ns: int
    exposed_communication_ns: int
    exposed_memory_ns: int
    busy_ns: int
    idle_ns: int
    total_ns: int
    overlap_fraction: float | None


def their_overlap(trace: Trace, definition: Definition, *, last_step: bool = False) -> tuple[TheirFigures, ...]:
    """The overlap figures that HTA or TraceLens gives for ``trace``, one row per process with device work.

    Args:
        trace: any trace.
        definition: ``"hta"`` or ``"tracelens"``.
        last_step: with ``"hta"``, include the last profiler step (its ``include_last_profiler_step``).

    Raises:
        ValueError: there is no such definition.
    """
    if definition not in ("hta", "tracelens"):
        raise ValueError(f"unknown definition {definition!r}: 'hta' or 'tracelens'")
    processes = np.unique(np.concatenate([table.process for table in trace.device_work])).tolist()
    parts = _hta if definition == "hta" else _tracelens
    return tuple(_figures(definition, process, *parts(trace, process, last_step)) for process in processes)


def _hta(trace: Trace, process: int, last_step: bool) -> tuple[Spans, Spans, Spans]:
    """Computation, communication and memory as HTA counts them."""
    until = _steps_end(trace, process, last_step)

    def spans(table: DeviceWork, rows: Bool | bool = True) -> Spans:
        rows = rows & (table.process == process)
        if until is not None:  # work without a call is not within the steps
            rows = rows & (at(trace.api_calls.start_ns, table.call, until) < until)
        return union(*_whole_microseconds(table.start_ns[rows], table.end_ns[rows]))

    collective = named(trace.kernels, re.compile("^nccl"))
    memory = merge(spans(trace.copies), spans(trace.memsets))
    return spans(trace.kernels, ~collective), spans(trace.kernels, collective), memory


def _tracelens(trace: Trace, process: int, _last_step: bool) -> tuple[Spans, Spans, Spans]:
    """Computation, communication and memory as TraceLens counts them."""

    def spans(table: DeviceWork, rows: Bool | bool = True) -> Spans:
        return spans_of(table, rows & (table.process == process) & (table.call != NO_ID))

    collective = named(trace.kernels, re.compile("nccl"))
    computation = merge(spans(trace.kernels, ~collective), spans(trace.memsets))
    return computation, spans(trace.kernels, collective), spans(trace.copies)


def _figures(
    definition: Definition, process: int, computation: Spans, communication: Spans, memory: Spans
) -> TheirFigures:
    busy = merge(computation, communication, memory)
    total = int(busy.end_ns[-1] - busy.start_ns[0]) if len(busy) else 0
    exposed_memory = subtract(memory, merge(computation, communication))
    if definition == "hta":
        under = intersect(computation, communication).total_ns
        fraction = under / communication.total_ns if communication.total_ns else None
    else:
        fraction = 1 - exposed_memory.total_ns / memory.total_ns if memory.total_ns else None
    return TheirFigures(
        definition=definition,
        process=process,
        computation_ns=computation.total_ns,
        communication_ns=communication.total_ns,
        memory_ns=memory.total_ns,
        exposed_communication_ns=subtract(communication, computation).total_ns,
        exposed_memory_ns=exposed_memory.total_ns,
        busy_ns=busy.total_ns,
        idle_ns=total - busy.total_ns,
        total_ns=total,
        overlap_fraction=fraction,
    )


def _steps_end(trace: Trace, process: int, last_step: bool) -> int | None:
    """The time up to which HTA counts calls with their device work; None where it counts all."""
    table = steps(trace)
    table = table.take(table.process == process)
    if len(table) < 2:  # noqa: PLR2004 - a single step is not cut
        return None
    return int(table.end_ns.max() if last_step else table.start_ns.max())


def _whole_microseconds(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """Round begins up and ends down to whole microseconds, as HTA does."""
    return -(-start_ns // 1000) * 1000, end_ns // 1000 * 1000
