"""Reports about accesses to the same memory that nothing orders."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.finding import Confidence
from overlapscope.diagnosis.rule import Report
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID
from overlapscope.ordering.accesses import Races


def of_device(context: DeviceContext, races: Races) -> Races:
    """Those of a device, as far as their earlier work lies in the window."""
    work, key = context.graph.work, context.activity.key
    first = races.first
    mine = (work.process[first] == key.process) & (work.device[first] == key.device)
    mine &= context.window.touches(work.process[first], work.start_ns[first], work.end_ns[first])
    return races.take(mine)


def race_report(context: DeviceContext, races: Races, message: str, confirm_with: str) -> Report:
    """A report about races: certain where the later access began too early; else nothing orders them."""
    seen = int(races.seen.sum())
    early = f"{counted(seen, 'access', 'accesses')} began before the earlier one had ended."
    how = early if seen else "Here they came one after the other, by chance."
    work = context.graph.work
    both = np.concatenate([races.first, races.then[races.then != NO_ID]])
    copies = unique(work.copy[both])
    calls = unique(context.graph.calls.row[work.call[both[work.call[both] != NO_ID]]])
    return Report(
        f"{message} {how}",
        {"unordered": len(races), "began_early": seen},
        Confidence.HIGH if seen else Confidence.MEDIUM,
        "" if seen else confirm_with,
        hazard=True,
        copies=copies,
        calls=calls,
        idle_ns=0,
    )
