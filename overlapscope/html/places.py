"""Stretches of the timeline that parts of a report are about: findings, and rows of tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.diagnosis.finding import Finding
from overlapscope.diagnosis.intervals import finding_intervals, longest
from overlapscope.measure.copies import host_kind
from overlapscope.measure.groups import CopyGroup
from overlapscope.measure.host import HostBlocking
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.report.data import Audit, DeviceAudit
from overlapscope.report.tables import Cells

_MOST = 20


@dataclass(frozen=True)
class Places:
    """The longest of some stretches, the longest first, and how many there are."""

    longest: tuple[tuple[int, int], ...]
    count: int

    @classmethod
    def of(cls, start_ns: Int64, end_ns: Int64) -> Places:
        """Places out of stretches of a trace."""
        return cls(tuple(longest(start_ns, end_ns, _MOST)), len(start_ns))


def of_finding(audit: Audit, finding: Finding) -> Places:
    """Where a finding shows."""
    return Places.of(*finding_intervals(audit.diagnosis, finding))


def of_rows(audit: Audit, of: str, rows: list[Cells]) -> list[Places]:
    """Where each row of a table shows; nothing for a table that is not known here."""
    found = {
        "devices": [_idle(device) for device in audit.devices],
        "groups": [_copies(audit, device, group) for device in audit.devices for group in device.memory],
        "copies": [_stretch(copy.start_ns, copy.start_ns + copy.total_ns) for copy in audit.costly],
        "calls": [_calls(audit, entry) for entry in audit.host_blocking if entry.blocked_ns],
    }.get(of, [])
    if of == "occurrences":
        chosen = sorted(audit.occurrences, key=lambda entry: -entry.wall_ns)[: len(rows)]
        found = [_stretch(entry.start_ns, entry.end_ns) for entry in sorted(chosen, key=lambda entry: entry.start_ns)]
    return found[: len(rows)] if len(found) >= len(rows) else []


def _stretch(start_ns: int, end_ns: int) -> Places:
    return Places(((start_ns, end_ns),), 1)


def _idle(device: DeviceAudit) -> Places:
    return Places.of(device.activity.idle.start_ns, device.activity.idle.end_ns)


def _copies(audit: Audit, device: DeviceAudit, group: CopyGroup) -> Places:
    table = audit.trace.copies
    mine = device.key.rows(table) & audit.window.touches(table.process, table.start_ns, table.end_ns)
    ways = [way for way in Direction if way.label == group.key["direction"]]
    kinds = [kind for kind in MemoryKind if kind.label == group.key["memory"]]
    mine &= np.isin(table.direction, ways) & np.isin(host_kind(table), kinds)
    return Places.of(table.start_ns[mine], table.end_ns[mine])


def _calls(audit: Audit, row: HostBlocking) -> Places:
    calls = audit.trace.api_calls
    mine = (calls.process == row.process) & (calls.thread == row.thread) & (calls.parent == NO_ID)
    mine &= np.isin(calls.name_id, audit.trace.names.find(row.api))
    mine &= audit.window.touches(calls.process, calls.start_ns, calls.end_ns)
    return Places.of(calls.start_ns[mine], calls.end_ns[mine])
