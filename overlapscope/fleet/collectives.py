"""Rows of the collectives of one trace, each with a number that is the same for it in all ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from overlapscope.measure.devices import DeviceKey, is_collective
from overlapscope.measure.places import step_of
from overlapscope.measure.spans import Spans, covered
from overlapscope.measure.windows import Window, inside
from overlapscope.model.columns import NO_ID, Int64, known
from overlapscope.model.trace import Trace

_OPERATION = re.compile(r"(?:nccl|rccl|msccl)\w*?(?:Dev)?Kernel_?([A-Za-z]+?)(?:_|\(|$)", re.IGNORECASE)
_LONGEST_OPERATION = 40
_STEP_NUMBER = re.compile(r"^ProfilerStep#(\d{1,18})$")


def collective_rows(trace: Trace, window: Window, compute: Mapping[DeviceKey, Spans]) -> list[dict[str, Any]]:
    """The collectives of a trace, in the order of their begin; ``compute`` has the time of other kernels by device.

    One that has no call in the trace was launched before the recording began. Where nothing but the order matches
    collectives, it has no number: another rank may have recorded its call.
    """
    kernels = trace.kernels
    rows = np.flatnonzero(is_collective(trace, kernels.name_id) & inside(trace, kernels, window))
    steps, counts = step_numbers(trace, rows), dict[Any, int]()
    found = [_row(trace, row, step, counts) for row, step in zip(rows.tolist(), steps.tolist(), strict=True)]
    beside = _beside(trace, rows, compute).tolist()
    return [row | {"kernels_ns": kernels_ns} for row, kernels_ns in zip(found, beside, strict=True)]


def _beside(trace: Trace, rows: Int64, compute: Mapping[DeviceKey, Spans]) -> Int64:
    """The time with other kernels beside each collective, on its GPU."""
    kernels, found = trace.kernels, np.zeros(len(rows), np.int64)
    for key, spans in compute.items():
        mine = np.flatnonzero((kernels.process[rows] == key.process) & (kernels.device[rows] == key.device))
        found[mine] = covered(kernels.start_ns[rows[mine]], kernels.end_ns[rows[mine]], spans)
    return found


def _row(trace: Trace, row: int, step: int, counts: dict[Any, int]) -> dict[str, Any]:
    """One collective; ``counts`` has how many of each kind came before it."""
    kernels = trace.kernels
    op, process = operation(trace.names[int(kernels.name_id[row])]), int(kernels.process[row])
    group, sequence = trace.names[int(kernels.group_id[row])], known(kernels.sequence[row])
    launched, match = int(kernels.call[row]) != NO_ID, None
    if group and sequence is not None:
        match = _number("recorded", group, sequence, op, _next(counts, (process, group, sequence, op)))
    elif launched:
        match = _number("order", group, op, step, _next(counts, (process, group, op, step)))
    return {
        "process": known(process),
        "device": known(kernels.device[row]),
        "stream": known(kernels.stream[row]),
        "group": group,
        "sequence": sequence,
        "op": op,
        "step": None if step == NO_ID else step,
        "position": _next(counts, (process, op, step)) if launched else None,
        "match": match,
        "start_ns": int(kernels.start_ns[row]),
        "end_ns": int(kernels.end_ns[row]),
    }


def operation(kernel: str) -> str:
    """The operation of a collective, from the name of its kernel.

    >>> operation("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)")
    'AllReduce'
    >>> operation("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)")
    'SendRecv'
    """
    found = _OPERATION.search(kernel)
    return found[1] if found else kernel.split("(", 1)[0][:_LONGEST_OPERATION]


def step_numbers(trace: Trace, rows: Int64) -> Int64:
    """For each kernel, the number of the profiler step in which it was launched; `NO_ID` where there is none."""
    call = trace.kernels.call[rows]
    moments = np.append(trace.api_calls.start_ns, trace.start_ns - 1)  # the last one for no call: before all steps
    launched = moments[np.where(call == NO_ID, len(trace.api_calls), call)]
    step = step_of(trace, trace.kernels.process[rows], launched)
    numbers = {row: step_number(trace, row) for row in np.unique(step).tolist()}
    return np.array([numbers[row] for row in step.tolist()], np.int64)


def step_number(trace: Trace, row: int) -> int:
    """The number in the name of a profiler step; `NO_ID` for no step."""
    found = None if row == NO_ID else _STEP_NUMBER.search(trace.names[int(trace.ranges.name_id[row])])
    return int(found[1]) if found else NO_ID


def _next(counts: dict[Any, int], key: Any) -> int:
    counts[key] = counts.get(key, 0) + 1
    return counts[key]


def _number(*parts: Any) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "big", signed=True)
