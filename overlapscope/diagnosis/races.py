"""Reports about accesses to the same memory that nothing orders."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.device_context import DeviceContext, unique
from overlapscope.diagnosis.rule import Report
from overlapscope.formatting import counted
from overlapscope.model.columns import NO_ID
from overlapscope.ordering.accesses import Races


def races_of_device(context: DeviceContext, races: Races) -> Races:
    """The races of a device whose earlier work lies in the window."""
    work, key, first = context.graph.work, context.key, races.first
    of_device = (work.process[first] == key.process) & (work.device[first] == key.device)
    of_device &= context.window.touches(work.process[first], work.start_ns[first], work.end_ns[first])
    return races.take(of_device)


def race_report(
    context: DeviceContext, all_races: Races, message: str, confirm_with: str, noun: str = "upload"
) -> Report | None:
    """The report about the races of a device: certain where the later access began too early; None without any.

    ``{}`` in the message is the number of races, with the noun.
    """
    races = races_of_device(context, all_races)
    if not len(races):
        return None
    seen = int(races.seen.sum())
    early = f"{counted(seen, 'access', 'accesses')} began before the earlier one had ended."
    how = early if seen else "Here they came one after the other, by chance."
    work = context.graph.work
    both = np.concatenate([races.first, races.then[races.then != NO_ID]])
    copies = unique(work.copy[both])
    calls = unique(context.graph.calls.row[work.call[both[work.call[both] != NO_ID]]])
    return Report(
        f"{message.format(counted(len(races), noun))} {how}",
        {"unordered": len(races), "began_early": seen},
        "" if seen else confirm_with,
        hazard=True,
        copies=copies,
        calls=calls,
    )
