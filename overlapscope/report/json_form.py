"""The audit as JSON, schema ``overlapscope.audit/1``. Unknown is null; nothing is rounded."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from overlapscope.measure.groups import CopyGroup
from overlapscope.model.columns import NO_ID
from overlapscope.model.trace import Trace

if TYPE_CHECKING:
    from overlapscope.report.content import Audit, DeviceAudit

SCHEMA = "overlapscope.audit/1"


def as_json(audit: Audit) -> dict[str, Any]:
    """One entry of ``traces``."""
    return {
        "source": _source(audit.trace),
        "health": [asdict(warning) for warning in audit.trace.health],
        "events_read": audit.trace.health.events_read,
        "events_kept": audit.trace.health.events_kept,
        "window": _window(audit),
        "devices": [_device(device) for device in audit.devices],
        "host_blocking": [
            asdict(row) | {"process": _known(row.process), "thread": _known(row.thread)} for row in audit.host_blocking
        ],
        "costly_copies": [asdict(copy) for copy in audit.costly],
        "counts": audit.counts,
        "verdict": audit.verdict,
    }


def _source(trace: Trace) -> dict[str, Any]:
    used = {int(number) for table in (trace.kernels, trace.copies, trace.memsets) for number in table.device}
    gpus = [device.name for device in trace.metadata.devices if device.number in used]
    return {
        "format": trace.metadata.format,
        "path": trace.metadata.path,
        "tool": trace.metadata.tool,
        "schema_version": trace.metadata.schema_version,
        "rank": trace.metadata.rank,
        "gpus": gpus or [device.name for device in trace.metadata.devices],
    }


def _window(audit: Audit) -> dict[str, Any]:
    window = audit.window
    occurrences = [
        {"start_ns": start, "end_ns": end, "wall_ns": end - start}
        for start, end in zip(window.start_ns.tolist(), window.end_ns.tolist(), strict=True)
    ]
    return {
        "name": window.name,
        "start_ns": window.first_ns,
        "end_ns": window.last_ns,
        "wall_ns": window.wall_ns,
        "occurrences": occurrences,
    }


def _device(device: DeviceAudit) -> dict[str, Any]:
    activity = device.activity
    return {
        "process": _known(device.key.process),
        "device": _known(device.key.device),
        "name": device.name,
        "kernel_busy_ns": activity.kernels.total_ns,
        "copy_busy_ns": activity.copies.total_ns,
        "memset_busy_ns": activity.memsets.total_ns,
        "busy_ns": activity.busy.total_ns,
        "overlap_ns": activity.overlap.total_ns,
        "idle_ns": activity.idle.total_ns,
        "span_ns": activity.span_ns,
        "hidden_fraction": activity.hidden_fraction,
        "compute_busy_ns": activity.compute.total_ns,
        "collective_busy_ns": activity.collectives.total_ns,
        "exposed_collective_ns": activity.exposed_collectives.total_ns,
        "exposed_copy_ns": activity.copies.total_ns - activity.overlap.total_ns,
        "kernel_concurrency_ns": activity.kernel_concurrency.total_ns,
        "copy_concurrency_ns": activity.copy_concurrency.total_ns,
        "idle_causes": asdict(device.idle),
        "kernel_gap_causes": asdict(device.kernel_gaps),
        "launches": asdict(device.launches),
        "staging": [
            {
                "direction": row.direction,
                "count": row.count,
                "bytes": row.size_bytes,
                "total_ns": row.total_ns,
                "compared": row.compared,
                "cost_ns": row.cost_ns,
            }
            for row in device.staging
        ],
        "directions": _directions(device),
        "streams": [asdict(row) | {"stream": _known(row.stream)} for row in device.streams],
    }


def _directions(device: DeviceAudit) -> dict[str, Any]:
    result: dict[str, Any] = {group.key["direction"]: {"memory": {}} | _group(group) for group in device.directions}
    for group in device.memory:
        result[group.key["direction"]]["memory"][group.key["memory"]] = _group(group)
    return result


def _group(group: CopyGroup) -> dict[str, int]:
    return {
        "count": group.count,
        "bytes": group.size_bytes,
        "total_ns": group.total_ns,
        "union_ns": group.union_ns,
        "hidden_ns": group.hidden_ns,
        "exposed_ns": group.exposed_ns,
        "held_ns": group.held_ns,
    }


def _known(value: int) -> int | None:
    return None if value == NO_ID else value
