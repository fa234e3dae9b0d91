"""The findings of two sides that are gone, new or changed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from overlapscope.comparison.figures import MENTIONED_SHARE
from overlapscope.comparison.side import Side
from overlapscope.diagnosis.finding import Finding, Severity
from overlapscope.model.columns import known
from overlapscope.model.frames import Row

Key = tuple[str, str | None, int]
"""The code and kind of a finding, and the place of its GPU among those of its trace."""


@dataclass(frozen=True)
class SideFinding:
    """A finding of one side: that of a typical trace, and the median and the spread of its GPU idle time.

    Traces without it count as 0. ``frequent`` says whether most traces have it.
    """

    finding: Finding
    idle_ns: float
    spread_ns: float = 0.0
    frequent: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The finding of the side as JSON-ready data."""
        return {
            "severity": str(self.finding.severity),
            "no_kernel_ns": round(self.idle_ns),
            "blocked_ns": self.finding.blocked_ns,
            "where": self.finding.where.to_dict(),
            "message": self.finding.message,
        }


@dataclass(frozen=True)
class FindingChange(Row):
    """A finding of one side or both; None where a side has not got it."""

    code: str
    name: str
    kind: str | None
    before: SideFinding | None
    after: SideFinding | None

    @property
    def title(self) -> str:
        """The code and name of the rule, and the kind of the finding where the rule has several."""
        return f"{self.code} {self.name}" + (f": {self.kind}" if self.kind else "")


@dataclass(frozen=True)
class FindingChanges(Row):
    """All findings by what became of them, the most idle time first; ``same`` are on both sides and cost as much."""

    gone: tuple[FindingChange, ...]
    new: tuple[FindingChange, ...]
    changed: tuple[FindingChange, ...]
    same: tuple[FindingChange, ...]

    @property
    def by_kind(self) -> dict[str, tuple[FindingChange, ...]]:
        """The findings by what became of them: ``gone``, ``new``, ``changed`` and ``same``."""
        return {"gone": self.gone, "new": self.new, "changed": self.changed, "same": self.same}


def finding_changes(before: Side, after: Side) -> FindingChanges:
    """Compare the findings of two sides: those of one rule and kind on the same GPU are the same.

    A finding is gone or new where most traces of one side have it, and none of the other, or where its idle time
    differs by more than among the traces of a side.
    """
    sides = _of_side(before), _of_side(after)
    least_ns = MENTIONED_SHARE * max(side.wall_ns(side.typical) for side in (before, after))
    frequent = [key for side in sides for key, finding in side.items() if finding.frequent]
    changes = [_change(key, sides[0].get(key), sides[1].get(key), least_ns) for key in dict.fromkeys(frequent)]
    both = [entry for entry in changes if entry.before and entry.after]
    changed = [entry for entry in both if _differs(entry, least_ns)]
    return FindingChanges(
        gone=_ranked(entry for entry in changes if entry.after is None),
        new=_ranked(entry for entry in changes if entry.before is None),
        changed=_ranked(changed),
        same=_ranked(entry for entry in both if entry not in changed),
    )


def _of_side(side: Side) -> dict[Key, SideFinding]:
    """The findings that traces of a side have."""
    of_runs: dict[Key, list[tuple[Finding, float]]] = {}
    for run in (side.typical, *(run for run in side.runs if run is not side.typical)):
        devices = [(known(device.key.process), known(device.key.device)) for device in run.devices]
        for finding in run.findings:
            place = (finding.where.process, finding.where.device)
            key = (finding.code, finding.kind, devices.index(place) if place in devices else -1)
            of_runs.setdefault(key, []).append((finding, finding.idle_ns / side.divisor(run)))
    return {key: _of_runs(entries, len(side.runs)) for key, entries in of_runs.items()}


def _of_runs(entries: list[tuple[Finding, float]], runs: int) -> SideFinding:
    frequent, times = 2 * len(entries) > runs, [idle_ns for _, idle_ns in entries]
    spread_ns = max(times) - (min(times) if len(entries) >= runs else 0.0)
    return SideFinding(entries[0][0], statistics.median(times) if frequent else 0.0, spread_ns, frequent)


def _change(key: Key, before: SideFinding | None, after: SideFinding | None, least_ns: float) -> FindingChange:
    code, kind, _ = key
    name = next(side.finding.name for side in (before, after) if side is not None)
    if before and after and not (before.frequent and after.frequent) and _beyond(before, after, least_ns):
        before, after = (side if side.frequent else None for side in (before, after))
    return FindingChange(code, name, kind, before, after)


def _beyond(before: SideFinding, after: SideFinding, least_ns: float) -> bool:
    """Whether the idle time differs by more than it does among the traces of a side."""
    return abs(after.idle_ns - before.idle_ns) > max(least_ns, before.spread_ns, after.spread_ns)


def _differs(entry: FindingChange, least_ns: float) -> bool:
    """Whether a finding of both sides became cheaper or more expensive, or a hazard."""
    if entry.before is None or entry.after is None:
        return True
    hazards = [side.finding.severity is Severity.HAZARD for side in (entry.before, entry.after)]
    return hazards[0] != hazards[1] or _beyond(entry.before, entry.after, least_ns)


def _ranked(entries: Iterable[FindingChange]) -> tuple[FindingChange, ...]:
    def idle_ns(entry: FindingChange) -> float:
        return max(side.idle_ns for side in (entry.before, entry.after) if side is not None)

    return tuple(sorted(entries, key=lambda entry: (-idle_ns(entry), entry.code)))
