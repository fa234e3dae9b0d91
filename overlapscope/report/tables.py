"""The tables of an audit and its plan as texts, and any table of numbers as text.

A heading names the unit of its column; all numbers of a column have that unit, and as many decimals each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Plan, Step
from overlapscope.diagnosis.intervals import longest
from overlapscope.document import nodes
from overlapscope.document.nodes import table
from overlapscope.formatting import numbers, safe, share, size_unit, time_unit
from overlapscope.measure.copies import CopyGroup, host_kind
from overlapscope.measure.host import HostBlocking
from overlapscope.model.columns import NO_ID, Column, Int64, Table, public_name
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.report.data import Audit, CostlyCopy, DeviceAudit, Occurrence
from overlapscope.report.headline import simulated

Texts = Mapping[str, Sequence[str]]
"""A table column by column: the texts of each heading."""

NO_NAMES: Mapping[str, str] = MappingProxyType({})
NO_VALUE = "-"
"""Shown where a text is not known."""
_NAME_WIDTH = 80  # most characters shown of a name from the trace
_CELL_WIDTH = 200  # most characters of a text; a terminal shows fewer
_SAME_SHARE = 0.01  # bounds nearer than that say nothing
_OCCURRENCE_ROWS = 8
_BLOCKING_ROWS = 5
_MOST_PLACES = 20  # of a row or finding
_SUFFIX = {"ns": "_ns", "bytes": "_bytes", "GB/s": "_gb_s"}


def tables(audit: Audit, *, with_places: bool = False) -> list[nodes.Table]:
    """The tables of an audit that have rows; with the places of the rows on a timeline, where that is asked for."""
    occurrences = _longest(audit.occurrences)
    groups = [(device, group) for device in audit.devices for group in device.memory]
    blocking = [row for row in audit.host_blocking[:_BLOCKING_ROWS] if row.blocked_ns]
    every: tuple[tuple[str, Texts, Sequence[Any], Callable[[Any], nodes.Places]], ...] = (
        (_occurrence_title(audit), _occurrences(audit, occurrences), occurrences, _of_one),
        ("Devices", _devices(audit.devices), audit.devices, _of_idle),
        ("Copies", _copies(groups), groups, lambda row: _of_copies(audit, *row)),
        (_costly_title(audit), _costly(audit.costly, audit.trace.start_ns), audit.costly, _of_one),
        ("Blocking CUDA calls", _blocking(blocking), blocking, lambda row: _of_calls(audit, row)),
    )
    return [
        table(title, columns, places=[place(row) for row in rows] if with_places else ())
        for title, columns, rows, place in every
        if rows
    ]


def places(start_ns: Int64, end_ns: Int64) -> nodes.Places:
    """Stretches of the timeline, of which the longest are kept."""
    return nodes.Places(tuple(longest(start_ns, end_ns, _MOST_PLACES)), len(start_ns))


def _of_one(row: Occurrence | CostlyCopy) -> nodes.Places:
    return nodes.Places(((row.start_ns, row.end_ns),), 1)


def _of_idle(row: DeviceAudit) -> nodes.Places:
    return places(row.activity.idle.start_ns, row.activity.idle.end_ns)


def _of_copies(audit: Audit, device: DeviceAudit, group: CopyGroup) -> nodes.Places:
    """The copies of a GPU in one direction, from or to one kind of memory."""
    copies = audit.trace.copies
    chosen = device.key.rows(copies) & audit.window.touches(copies.process, copies.start_ns, copies.end_ns)
    ways = [way for way in Direction if way.label == group.key["direction"]]
    kinds = [kind for kind in MemoryKind if kind.label == group.key["memory"]]
    chosen &= np.isin(copies.direction, ways) & np.isin(host_kind(copies), kinds)
    return places(copies.start_ns[chosen], copies.end_ns[chosen])


def _of_calls(audit: Audit, row: HostBlocking) -> nodes.Places:
    """The calls of one function on one thread."""
    calls = audit.trace.api_calls
    chosen = (calls.process == row.process) & (calls.thread == row.thread) & (calls.parent == NO_ID)
    chosen &= np.isin(calls.name_id, audit.trace.names.find(row.api))
    chosen &= audit.window.touches(calls.process, calls.start_ns, calls.end_ns)
    return places(calls.start_ns[chosen], calls.end_ns[chosen])


def in_time(**columns: Sequence[float | None]) -> dict[str, Sequence[str]]:
    """Columns of times in ns, all in one unit; ``_`` in their names stands for a space."""
    length, unit = time_unit(value for values in columns.values() for value in values)
    return {f"{name.replace('_', ' ')} ({unit})": numbers(values, length) for name, values in columns.items()}


def in_bytes(heading: str, values: Sequence[float | None]) -> dict[str, Sequence[str]]:
    """A column of numbers of bytes."""
    length, unit = size_unit(values)
    return {f"{heading} ({unit})": numbers(values, length)}


def plan_table(plan: Plan) -> nodes.Table:
    """The time of the window on the plan's baseline, and after each step; bounds where they differ from it."""
    every = [plan.baseline_ns, *(step.time_ns for step in plan.steps)]
    low = [None, *(_bound(step.time_low_ns, step) for step in plan.steps)]
    high = [None, *(_bound(step.time_high_ns, step) for step in plan.steps)]
    times: dict[str, Sequence[int | None]] = {"time": every, "low": low, "high": high}
    shown = in_time(**{name: values for name, values in times.items() if any(values)})
    columns = {
        "changes": ["none", *(" + ".join(step.changes) for step in plan.steps)],
        "fixes": ["", *(", ".join(step.fixes) for step in plan.steps)],
        **{name: ["" if text == "?" else text for text in texts] for name, texts in shown.items()},
        "change (%)": [_percent(ns - plan.baseline_ns, plan.baseline_ns) for ns in every],
        "where": ["", *(step.places[0] if step.places else "" for step in plan.steps)],
    }
    return table(f"Fixes one after the other, {simulated(plan)}", columns)


def _bound(bound_ns: int, step: Step) -> int | None:
    """A bound of a step's time, unless both are almost the same."""
    return bound_ns if step.time_high_ns - step.time_low_ns > _SAME_SHARE * step.time_ns else None


def _longest(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    """The occurrences that are shown, in the order of time; a single one is the whole window."""
    several = occurrences if len(occurrences) > 1 else ()
    longest = sorted(several, key=lambda entry: -entry.wall_ns)[:_OCCURRENCE_ROWS]
    return sorted(longest, key=lambda entry: entry.start_ns)


def _occurrence_title(audit: Audit) -> str:
    count = len(audit.occurrences)
    return "Occurrences" if count <= _OCCURRENCE_ROWS else f"The {_OCCURRENCE_ROWS} longest of {count:,} occurrences"


def _occurrences(audit: Audit, shown: Sequence[Occurrence]) -> Texts:
    return in_time(
        start=[entry.start_ns - audit.trace.start_ns for entry in shown],
        wall=[entry.wall_ns for entry in shown],
        kernel_busy=[entry.kernel_busy_ns for entry in shown],
        copy_busy=[entry.copy_busy_ns for entry in shown],
        overlap=[entry.overlap_ns for entry in shown],
    )


def _devices(devices: Sequence[DeviceAudit]) -> Texts:
    active = [device.activity for device in devices]
    return {
        "process": [_id(device.key.process) for device in devices],
        "device": [_id(device.key.device) for device in devices],
        **in_time(
            span=[activity.span_ns for activity in active],
            kernel_busy=[activity.kernels.total_ns for activity in active],
            copy_busy=[activity.copies.total_ns for activity in active],
            overlap=[activity.overlap.total_ns for activity in active],
            no_work=[activity.idle.total_ns for activity in active],
            no_kernel=[device.kernel_gaps.total_ns for device in devices],
            in_copy_call=[device.kernel_gaps.sum_ns(Cause.COPY_CALL) for device in devices],
        ),
    }


def _copies(shown: Sequence[tuple[DeviceAudit, CopyGroup]]) -> Texts:
    groups = [group for _, group in shown]
    return {
        "process": [_id(device.key.process) for device, _ in shown],
        "device": [_id(device.key.device) for device, _ in shown],
        "direction": [group.key["direction"] for group in groups],
        "memory": [_memory(group.key["memory"]) for group in groups],
        "copies": [f"{group.count:,}" for group in groups],
        **in_bytes("size", [group.size_bytes for group in groups]),
        **in_time(
            time=[group.total_ns for group in groups],
            exposed=[group.exposed_ns for group in groups],
            host_blocked=[group.blocked_ns for group in groups],
        ),
        **_staging([_staging_ns(device, group) for device, group in shown]),
        "hidden (%)": [_hidden(device, group) for device, group in shown],
        "bandwidth (GB/s)": numbers([_bandwidth(group) for group in groups]),
    }


def _staging(costs_ns: Sequence[int | None]) -> Texts:
    """What pageable memory cost in device time, for rows of which that is known; nothing where it is of none."""
    if all(cost is None for cost in costs_ns):
        return {}
    return {name: ["" if text == "?" else text for text in texts] for name, texts in in_time(staging=costs_ns).items()}


def _staging_ns(device: DeviceAudit, group: CopyGroup) -> int | None:
    if group.key["memory"] != MemoryKind.PAGEABLE.label:
        return None
    return next((row.staging_cost_ns for row in device.staging if row.direction == group.key["direction"]), None)


def _hidden(device: DeviceAudit, group: CopyGroup) -> str:
    return _percent(group.hidden_ns, group.total_ns) if device.activity.kernels.total_ns else "undefined"


def _percent(part: float, whole: float) -> str:
    return share(part, whole).removesuffix(" %")


def _bandwidth(group: CopyGroup) -> float | None:
    return group.size_bytes / group.unclipped_ns if group.size_bytes and group.unclipped_ns else None


def _costly_title(audit: Audit) -> str:
    count, total = len(audit.costly), audit.counts["copies"]
    return "Copies by cost" if count == total else f"The {count} most expensive of {total:,} copies"


def _costly(copies: Sequence[CostlyCopy], zero_ns: int) -> Texts:
    return {
        **in_time(start=[copy.start_ns - zero_ns for copy in copies]),
        "process": [_id(copy.process) for copy in copies],
        "device": [_id(copy.device) for copy in copies],
        "stream": [_id(copy.stream) for copy in copies],
        "direction": [copy.direction for copy in copies],
        "memory": [_memory(copy.memory) for copy in copies],
        **in_bytes("size", [copy.size_bytes for copy in copies]),
        **in_time(exposed=[copy.exposed_ns for copy in copies], host_blocked=[copy.blocked_ns for copy in copies]),
        "call": [safe(copy.call or "?", _NAME_WIDTH) for copy in copies],
        "range": [safe(copy.range or NO_VALUE, _NAME_WIDTH) for copy in copies],
    }


def _blocking(blocking: Sequence[HostBlocking]) -> Texts:
    return {
        "process": [_id(row.process) for row in blocking],
        "thread": [_id(row.thread) for row in blocking],
        "API": [safe(row.api, _NAME_WIDTH) for row in blocking],
        "calls": [f"{row.calls:,}" for row in blocking],
        **in_time(total=[row.total_ns for row in blocking], blocked=[row.blocked_ns for row in blocking]),
    }


def _memory(label: str) -> str:
    return label.upper() if label == "pageable" else label


def _id(value: int | None) -> str:
    return "?" if value is None or value < 0 else str(value)


def text_table(
    title: str, rows: Table, shown: Sequence[str], zero_ns: int, called: Mapping[str, str] = NO_NAMES
) -> nodes.Table:
    """Some columns of a table of numbers, by their public names; ``called`` has other headings for some.

    Starts and ends count from ``zero_ns``, and all durations share a unit.
    """
    specs = {public_name(spec): spec for spec in rows.columns()}
    values = rows.to_dict()
    moments = [name for name in shown if name in ("start_ns", "end_ns")]
    lengths = [name for name in shown if specs[name].unit == "ns" and name not in moments]
    texts = {
        **in_time(**{_bare(specs[name]): [value - zero_ns for value in values[name]] for name in moments}),
        **in_time(**{called.get(name, _bare(specs[name])): values[name] for name in lengths}),
    }
    headings = {heading.rpartition(" (")[0]: heading for heading in texts}
    ordered: dict[str, Sequence[str]] = {}
    for name in shown:
        heading = headings.get(called.get(name, _bare(specs[name])).replace("_", " "))
        ordered |= {heading: texts[heading]} if heading else _column(specs[name], values[name])
    return table(title, ordered)


def _column(spec: Column, values: list[object]) -> dict[str, Sequence[str]]:
    heading = _bare(spec).replace("_", " ")
    if spec.text or spec.enum is not None:
        return {heading: [NO_VALUE if value is None else safe(str(value), _CELL_WIDTH) for value in values]}
    known = [value if isinstance(value, int | float) else None for value in values]
    if spec.unit == "bytes":
        return in_bytes(heading, known)
    if spec.dtype == np.bool_:
        return {heading: ["yes" if value else "no" for value in values]}
    if not spec.unit:
        return {heading: ["?" if value is None else str(value) for value in known]}
    return {f"{heading} ({spec.unit})": numbers(known)}


def _bare(spec: Column) -> str:
    """A column's name without its unit."""
    return public_name(spec).removesuffix(_SUFFIX.get(spec.unit, ""))
