"""Rows of one audited trace, for each table of the map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.diagnosis.gpu_time import COLLECTIVES, COPIES, KERNELS
from overlapscope.diagnosis.lateness import Lateness
from overlapscope.fleet.collectives import collective_rows, step_number
from overlapscope.fleet.schema import NO_GPU_WORK, ROWS, schema
from overlapscope.fleet.slots import parts_of, runs
from overlapscope.measure.definitions import their_overlap
from overlapscope.measure.places import is_step
from overlapscope.measure.spans import Spans, covered, intersect, merge, subtract, union
from overlapscope.model.columns import Int64, known
from overlapscope.model.health import HealthSeverity, HealthWarning
from overlapscope.model.trace import Trace
from overlapscope.report.data import Audit, DeviceAudit

if TYPE_CHECKING:
    import pyarrow

Rows = list[dict[str, Any]]
_MOST_FIX = 2000  # characters; a fix is a few lines of code
_MOST_MESSAGE = 1000


def tables_of(audit: Audit) -> dict[str, pyarrow.Table]:
    """The tables of the map, but for the one about the trace itself."""
    import pyarrow as pa

    compute = {device.key: device.activity.compute for device in audit.devices}
    rows: dict[str, Rows] = {
        "devices": [_device(device) for device in audit.devices],
        "copies": [row for device in audit.devices for row in _copies(device)],
        "steps": [row for device in audit.devices for row in _steps(audit, device)],
        "idle": [row for device in audit.devices for row in _idle(audit, device)],
        "timeline": [row for device in audit.devices for row in _timeline(audit, device)],
        "findings": _findings(audit),
        "ranges": [_fitting("ranges", figures.to_dict()) for figures in audit.ranges],
        "collectives": collective_rows(audit.trace, audit.window, compute),
        "definitions": list(_definitions(audit.trace)),
    }
    return {name: pa.Table.from_pylist(rows[name], schema=schema(name)) for name in ROWS}


def trace_row(audit: Audit) -> dict[str, Any]:
    """What is known of the trace itself."""
    trace, metadata = audit.trace, audit.trace.metadata
    nothing = trace.health.no_device_work
    lost = [warning for warning in trace.health if warning.severity is HealthSeverity.DAMAGE]
    return {
        "status": NO_GPU_WORK if nothing else "damaged" if trace.health.damaged else "complete",
        "code": "",
        "error": nothing,
        "format": metadata.format,
        "recorded_rank": metadata.rank,
        "world_size": metadata.world_size,
        "gpus": len(metadata.devices) or None,
        "base_time_ns": metadata.base_time_ns,
        "start_ns": audit.window.first_ns,
        "wall_ns": audit.window.wall_ns,
        "events": trace.health.events_kept,
        "lost": "; ".join(map(_loss, lost))[:_MOST_MESSAGE],
    }


def _loss(warning: HealthWarning) -> str:
    what = warning.message.partition(";")[0]
    return what if warning.of_the_file else f"{what} ({warning.count:,})"


def _device(device: DeviceAudit) -> dict[str, Any]:
    active, time = device.activity, device.time
    return _key(device) | {
        "name": device.name,
        "window_ns": time.total_ns,
        "kernels_ns": time.of(KERNELS),
        "collectives_ns": active.collectives.total_ns,
        "exposed_collectives_ns": time.of(COLLECTIVES),
        "copies_ns": active.copies.total_ns,
        "exposed_copies_ns": time.of(COPIES),
        "idle_ns": active.idle.total_ns,
    }


def _copies(device: DeviceAudit) -> Iterator[dict[str, Any]]:
    for group in device.memory:
        yield _key(device) | _fitting("copies", group.to_dict() | group.key)


def _steps(audit: Audit, device: DeviceAudit) -> Iterator[dict[str, Any]]:
    active = device.activity
    parts = {
        "kernels_ns": active.compute,
        "exposed_collectives_ns": active.exposed_collectives,
        "exposed_copies_ns": subtract(active.copies, merge(active.kernels, active.memsets)),
        "idle_ns": active.idle,
    }
    numbers, start, end = _step_times(audit, device.key.process)
    within = {name: covered(start, end, spans) for name, spans in parts.items()}
    for row, number in enumerate(numbers):
        times = {name: int(values[row]) for name, values in within.items()}
        yield _key(device) | {"step": number, "start_ns": int(start[row]), "end_ns": int(end[row])} | times


def _idle(audit: Audit, device: DeviceAudit) -> Iterator[dict[str, Any]]:
    numbers, start, end = _step_times(audit, device.key.process)
    for code, kind, idle in _idle_spans(audit, device):
        copying = covered(start, end, intersect(idle, device.activity.copies)).tolist()
        for row, idle_ns in enumerate(covered(start, end, idle).tolist()):
            if idle_ns:
                about = {"step": numbers[row], "code": code, "kind": kind}
                yield _key(device) | about | {"idle_ns": idle_ns, "copying_ns": copying[row]}


def _timeline(audit: Audit, device: DeviceAudit) -> Iterator[dict[str, Any]]:
    numbers, start, end = _step_times(audit, device.key.process)
    idle: dict[str, Spans] = {}
    for code, _, spans in _idle_spans(audit, device):
        idle[code] = merge(idle[code], spans) if code in idle else spans
    for step, part, begin, until in runs(start, end, parts_of(device.activity, idle)):
        yield _key(device) | {"step": numbers[step], "part": part, "start_ns": begin, "end_ns": until}


def _idle_spans(audit: Audit, device: DeviceAudit) -> Iterator[tuple[str, str, Spans]]:
    """When a GPU ran no kernel, by rule and kind."""
    diagnosed = next((each for each in audit.diagnosis.devices if each.key == device.key), None)
    if diagnosed is None:
        return
    for code, kind, mine in _reasons(diagnosed):
        yield code, kind, union(diagnosed.idle.start_ns[mine], diagnosed.idle.end_ns[mine])


def _reasons(device: DeviceDiagnosis) -> Iterator[tuple[str, str, np.ndarray[Any, np.dtype[np.bool_]]]]:
    """The idle intervals of each rule, and of each of its kinds where these are findings of their own."""
    for number, rule in enumerate(RULES):
        mine = device.reason == number
        if not rule.by_kind:
            yield rule.code, "", mine
            continue
        for kind in np.unique(device.lateness[mine]).tolist():
            yield rule.code, Lateness(kind).label, mine & (device.lateness == kind)


def _findings(audit: Audit) -> Rows:
    return [
        _fitting("findings", finding.row())
        | {
            "order": finding.rank,
            "kind": finding.kind or "",
            "change": finding.change or "",
            "where": finding.where.words,
            "message": finding.message[:_MOST_MESSAGE],
            "fix": finding.fix[:_MOST_FIX] if finding.offered else "",
        }
        for finding in audit.diagnosis.findings
    ]


def _definitions(trace: Trace) -> Iterator[dict[str, Any]]:
    for name in ("hta", "tracelens"):
        for figures in their_overlap(trace, name):
            yield _fitting("definitions", figures.to_dict())


def _step_times(audit: Audit, process: int) -> tuple[list[int | None], Int64, Int64]:
    """Number, begin and end of each profiler step, up to the next one; the whole window where there is none.

    Of a damaged trace only steps before its last GPU work count: a later one may have lost its work.
    """
    trace, window = audit.trace, audit.window
    ranges = trace.ranges
    rows = np.flatnonzero(is_step(trace) & (ranges.process == process))
    rows = rows[window.covers(ranges.process[rows], ranges.start_ns[rows], ranges.end_ns[rows]) > 0]
    if not len(rows):
        return [None], np.array([window.first_ns]), np.array([window.last_ns])
    start, end = ranges.start_ns[rows], ranges.end_ns[rows].copy()
    end[:-1] = start[1:]
    if trace.health.damaged:
        worked = max((int(table.end_ns.max()) for table in trace.device_work if len(table)), default=0)
        rows, start, end = (values[end <= worked] for values in (rows, start, end))
    return [step_number(trace, row) for row in rows.tolist()], start, end


def _key(device: DeviceAudit) -> dict[str, Any]:
    return {"process": known(device.key.process), "device": known(device.key.device)}


def _fitting(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """The entries that the table has."""
    return {name: row[name] for name in schema(table).names if name in row}
