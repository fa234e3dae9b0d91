"""The map: one trace in, its rows for each table out. A pure function of the content of a file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.diagnosis import gpu_time
from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.causes import Lateness
from overlapscope.errors import TraceError
from overlapscope.fleet.schema import COLLECTIVES, COPIES, IDLE, KERNELS, MAPPED, NO_GPU_WORK, STEP_TIMES, schema
from overlapscope.measure.definitions import their_overlap
from overlapscope.measure.devices import DeviceKey, is_collective
from overlapscope.measure.places import STEP, is_step, step_of
from overlapscope.measure.spans import Spans, covered, intersect, merge, subtract, union
from overlapscope.measure.windows import Window, inside
from overlapscope.model.columns import NO_ID, Int64, known
from overlapscope.model.trace import HealthSeverity, Trace
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit
from overlapscope.report.data import Audit, DeviceAudit

if TYPE_CHECKING:
    import pyarrow

Part = dict[str, "pyarrow.Table"]
"""The rows of one trace by table; ``traces`` has a single one."""
Rows = list[dict[str, Any]]
SLOTS = 200
"""Slots of a step: as many as a map's narrow row shows, so that a step has at most so many rows."""
OTHER = "other"
"""Memsets, and what comes before the first work of the trace or after its last."""
_MOST_NUMBERS = 32  # of collectives: two traces with a tenth in common share some of these
_MOST_FIX = 2000  # characters; a fix is a few lines of code
_MOST_MESSAGE = 1000
_OPERATION = re.compile(r"(?:nccl|rccl|msccl)\w*?(?:Dev)?Kernel_?([A-Za-z]+?)(?:_|\(|$)", re.IGNORECASE)
_LONGEST_OPERATION = 40


def map_trace(path: str | Path, content: str) -> Part:
    """The rows of the trace in a local file, whose content has this hash; one that cannot be used has its error.

    One process reads a trace, since a fleet has others for the other traces.
    """
    try:
        return part_of(audit(open_trace(path, processes=1)), content)
    except TraceError as error:
        return failed(content, error.code, without(str(error), path))


def failed(content: str, code: str, error: str) -> Part:
    """The rows of a trace that cannot be used."""
    return _part({"traces": [{"content": content, "status": "failed", "code": code, "error": error}]})


def without(message: str, path: str | Path) -> str:
    """A message without the path before it, so that one content has one message wherever it lies."""
    return message.removeprefix(f"{path}: ")


def part_of(audited: Audit, content: str) -> Part:
    """The rows of an audited trace."""
    compute = {device.key: device.activity.compute for device in audited.devices}
    rows: dict[str, Rows] = {
        "findings": _findings(audited),
        "ranges": [figures.to_dict() for figures in audited.ranges],
        "collectives": collective_rows(audited.trace, audited.window, compute),
        "definitions": [
            figures.to_dict() for name in ("hta", "tracelens") for figures in their_overlap(audited.trace, name)
        ],
    }
    for device in audited.devices:
        key = {"process": known(device.key.process), "device": known(device.key.device)}
        for name, of_device in _of_device(audited, device).items():
            rows.setdefault(name, []).extend(key | row for row in of_device)
    numbers = sorted({row["match"] for row in rows["collectives"]} - {None})[:_MOST_NUMBERS]
    return _part(rows | {"traces": [_trace(audited, content) | {"collectives": " ".join(map(str, numbers))}]})


def _part(rows: Mapping[str, Rows]) -> Part:
    """The tables of rows; a column that a row lacks is unknown in it, and an entry without a column is left out."""
    import pyarrow as pa

    rows = {**rows, "traces": [{"lost": "", "collectives": ""} | row for row in rows["traces"]]}
    return {name: pa.Table.from_pylist(rows.get(name, []), schema=schema(name)) for name in MAPPED}


def _trace(audited: Audit, content: str) -> dict[str, Any]:
    """The row about the trace itself."""
    metadata, health = audited.trace.metadata, audited.trace.health
    lost = [
        warning.message.partition(";")[0] + ("" if warning.of_the_file else f" ({warning.count:,})")
        for warning in health
        if warning.severity is HealthSeverity.DAMAGE
    ]
    return {
        "content": content,
        "status": NO_GPU_WORK if health.no_device_work else "damaged" if health.damaged else "complete",
        "code": "",
        "error": health.no_device_work,
        "format": metadata.format,
        "recorded_rank": metadata.rank,
        "world_size": metadata.world_size,
        "gpus": len(metadata.devices) or None,
        "base_time_ns": metadata.base_time_ns,
        "start_ns": audited.window.first_ns,
        "wall_ns": audited.window.wall_ns,
        "events": health.events_kept,
        "lost": "; ".join(lost)[:_MOST_MESSAGE],
    }


def _findings(audited: Audit) -> Rows:
    return [
        finding.row()
        | {
            "order": finding.rank,
            "kind": finding.kind or "",
            "change": finding.change or "",
            "where": finding.where.words,
            "message": finding.message[:_MOST_MESSAGE],
            "fix": finding.fix[:_MOST_FIX] if finding.offered else "",
        }
        for finding in audited.diagnosis.findings
    ]


def _of_device(audited: Audit, device: DeviceAudit) -> dict[str, Rows]:
    """The rows about one GPU, by table."""
    active, time = device.activity, device.time
    numbers, start, end = _step_times(audited, device.key.process)
    parts = {
        KERNELS: active.compute,
        COLLECTIVES: active.exposed_collectives,
        COPIES: subtract(active.copies, merge(active.kernels, active.memsets)),
    }
    times = {STEP_TIMES[name]: covered(start, end, parts.get(name, active.idle)).tolist() for name in (*parts, IDLE)}
    steps = {"step": numbers, "start_ns": start.tolist(), "end_ns": end.tolist()} | times
    idle, idle_rows = dict[str, Spans](), Rows()
    for code, kind, spans in _idle_spans(audited, device):
        idle[code] = merge(idle[code], spans) if code in idle else spans
        both = (covered(start, end, each).tolist() for each in (spans, intersect(spans, active.copies)))
        idle_rows += [
            {"step": number, "code": code, "kind": kind, "no_kernel_ns": no_kernel_ns, "copying_ns": copying_ns}
            for number, no_kernel_ns, copying_ns in zip(numbers, *both, strict=True)
            if no_kernel_ns
        ]
    parts |= {code: subtract(spans, active.copies) for code, spans in idle.items()}
    return {
        "devices": [
            {
                "name": device.name,
                "window_ns": time.total_ns,
                "kernels_ns": time.of(gpu_time.KERNELS),
                "collectives_ns": active.collectives.total_ns,
                "exposed_collectives_ns": time.of(gpu_time.COLLECTIVES),
                "copies_ns": active.copies.total_ns,
                "exposed_copies_ns": time.of(gpu_time.COPIES),
                "idle_ns": active.idle.total_ns,
            }
        ],
        "copies": [group.to_dict() | group.key for group in device.memory],
        "steps": [dict(zip(steps, row, strict=True)) for row in zip(*steps.values(), strict=True)],
        "idle": idle_rows,
        "timeline": [
            {"step": numbers[step], "part": part, "start_ns": begin, "end_ns": until}
            for step, part, begin, until in _runs(start, end, parts)
        ],
    }


def _idle_spans(audited: Audit, device: DeviceAudit) -> Iterator[tuple[str, str, Spans]]:
    """When a GPU ran no kernel, by rule, and by kind where the kinds of a rule are findings of their own."""
    for diagnosed in audited.diagnosis.devices:
        if diagnosed.key != device.key:
            continue
        start, end = diagnosed.idle.start_ns, diagnosed.idle.end_ns
        for number, rule in enumerate(RULES):
            of_rule = diagnosed.reason == number
            kinds = np.unique(diagnosed.lateness[of_rule]).tolist() if rule.by_kind else [None]
            for kind in kinds:
                rows = of_rule if kind is None else of_rule & (diagnosed.lateness == kind)
                yield rule.code, "" if kind is None else Lateness(kind).label, union(start[rows], end[rows])


def _step_times(audited: Audit, process: int) -> tuple[list[int | None], Int64, Int64]:
    """Number, begin and end of each profiler step, up to the next one; the whole window where there is none.

    Of a damaged trace only steps before its last GPU work count: a later one may have lost its work.
    """
    trace, window, ranges = audited.trace, audited.window, audited.trace.ranges
    rows = np.flatnonzero(is_step(trace) & (ranges.process == process))
    rows = rows[window.covers(ranges.process[rows], ranges.start_ns[rows], ranges.end_ns[rows]) > 0]
    if not len(rows):
        return [None], np.array([window.first_ns]), np.array([window.last_ns])
    start, end = ranges.start_ns[rows], ranges.end_ns[rows].copy()
    end[:-1] = start[1:]
    if trace.health.damaged:
        worked = max((int(table.end_ns.max()) for table in trace.device_work if len(table)), default=0)
        rows, start, end = (values[end <= worked] for values in (rows, start, end))
    return [_step_number(trace, row) for row in rows.tolist()], start, end


def _runs(start_ns: Int64, end_ns: Int64, parts: Mapping[str, Spans]) -> Iterator[tuple[int, str, int, int]]:
    """The runs of slots in which one part has most of the time: step's row, part, begin and end.

    Args:
        start_ns: begin of each step.
        end_ns: their ends.
        parts: what the GPU did, by name; disjoint. What none of them covers is a part of its own.
    """
    if not len(start_ns):
        return
    edges = start_ns[:, None] + (end_ns - start_ns)[:, None] * np.arange(SLOTS + 1) // SLOTS
    names, starts, ends = [*parts, OTHER], edges[:, :-1].ravel(), edges[:, 1:].ravel()
    within = np.array([covered(starts, ends, spans) for spans in parts.values()])
    rest = np.maximum(ends - starts - within.sum(axis=0), 0)
    mostly = np.argmax(np.vstack([within, rest]), axis=0).reshape(len(start_ns), SLOTS)
    for row, slots in enumerate(mostly):
        first = np.flatnonzero(np.append(True, slots[1:] != slots[:-1])).tolist()
        for begin, end in zip(first, [*first[1:], SLOTS], strict=True):
            yield row, names[slots[begin]], int(edges[row, begin]), int(edges[row, end])


def collective_rows(trace: Trace, window: Window, compute: Mapping[DeviceKey, Spans]) -> Rows:
    """The collectives of a trace, in the order of their begin; ``compute`` has the time of other kernels by device.

    One that has no call in the trace was launched before the recording began. Where nothing but the order matches
    collectives, it has no number: another rank may have recorded its call.
    """
    kernels = trace.kernels
    rows = np.flatnonzero(is_collective(trace, kernels.name_id) & inside(kernels, window))
    beside = np.zeros(len(rows), np.int64)
    for key, spans in compute.items():
        here = np.flatnonzero((kernels.process[rows] == key.process) & (kernels.device[rows] == key.device))
        beside[here] = covered(kernels.start_ns[rows[here]], kernels.end_ns[rows[here]], spans)
    counts, steps = defaultdict[Any, Iterator[int]](lambda: count(1)), _steps_of(trace, rows)
    return [
        _collective(trace, row, step, counts) | {"kernels_ns": kernels_ns}
        for row, step, kernels_ns in zip(rows.tolist(), steps, beside.tolist(), strict=True)
    ]


def _collective(trace: Trace, row: int, step: int, counts: Mapping[Any, Iterator[int]]) -> dict[str, Any]:
    """One collective; ``counts`` counts those of each kind."""
    kernels = trace.kernels
    op, process = operation(trace.names[int(kernels.name_id[row])]), int(kernels.process[row])
    group, sequence = trace.names[int(kernels.group_id[row])], known(kernels.sequence[row])
    launched, match = int(kernels.call[row]) != NO_ID, None
    if group and sequence is not None:
        match = _number("recorded", group, sequence, op, next(counts[process, group, sequence, op]))
    elif launched:
        match = _number("order", group, op, step, next(counts[process, group, op, step]))
    return {
        "process": known(process),
        "device": known(kernels.device[row]),
        "stream": known(kernels.stream[row]),
        "group": group,
        "sequence": sequence,
        "op": op,
        "step": known(step),
        "position": next(counts[process, op, step]) if launched else None,
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
    match = _OPERATION.search(kernel)
    return match[1] if match else kernel.split("(", 1)[0][:_LONGEST_OPERATION]


def _steps_of(trace: Trace, rows: Int64) -> list[int]:
    """For each kernel, the number of the profiler step in which it was launched; `NO_ID` where there is none."""
    call = trace.kernels.call[rows]
    moments = np.append(trace.api_calls.start_ns, trace.start_ns - 1)  # the last one for no call: before all steps
    launched = moments[np.where(call == NO_ID, len(trace.api_calls), call)]
    steps = step_of(trace, trace.kernels.process[rows], launched).tolist()
    numbers = {row: _step_number(trace, row) for row in set(steps)}
    return [numbers[row] for row in steps]


def _step_number(trace: Trace, row: int) -> int:
    """The number in the name of a profiler step; `NO_ID` for no step."""
    match = None if row == NO_ID else STEP.search(trace.names[int(trace.ranges.name_id[row])])
    return int(match[1]) if match else NO_ID


def _number(*parts: Any) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "big", signed=True)
