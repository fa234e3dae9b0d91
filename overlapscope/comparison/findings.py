"""Findings that are gone, new or changed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.side import Side
from overlapscope.diagnosis.finding import Finding, Severity
from overlapscope.model.columns import known

Key = tuple[str, str | None, int]
"""Code, kind, and which GPU of its trace, by their order."""


@dataclass(frozen=True)
class SideFinding:
    """A finding of one side: that of a typical trace, and the median of its GPU idle time."""

    finding: Finding
    idle_ns: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        found = self.finding
        return {
            "severity": str(found.severity),
            "idle_ns": round(self.idle_ns),
            "blocked_ns": found.blocked_ns,
            "where": found.where.to_dict(),
            "message": found.message,
        }


@dataclass(frozen=True)
class FindingChange:
    """A finding of one side or both; None where a side has not got it."""

    code: str
    name: str
    kind: str | None
    before: SideFinding | None
    after: SideFinding | None

    @property
    def title(self) -> str:
        """Its code and name, and its kind where the rule has several."""
        return f"{self.code} {self.name}" + (f": {self.kind}" if self.kind else "")

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data: an entry of ``findings``."""
        return {
            "code": self.code,
            "name": self.name,
            "kind": self.kind,
            "before": None if self.before is None else self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
        }


@dataclass(frozen=True)
class FindingChanges:
    """All findings by what became of them, the most idle time first; ``same`` are on both sides and cost as much."""

    gone: tuple[FindingChange, ...]
    new: tuple[FindingChange, ...]
    changed: tuple[FindingChange, ...]
    same: tuple[FindingChange, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data: ``findings`` of a comparison."""
        kinds = {"gone": self.gone, "new": self.new, "changed": self.changed, "same": self.same}
        return {name: [entry.to_dict() for entry in entries] for name, entries in kinds.items()}


def finding_changes(before: Side, after: Side, config: CompareConfig) -> FindingChanges:
    """Compare the findings of two sides: those of one rule and kind on the same GPU are the same."""
    sides = _of_side(before), _of_side(after)
    least_ns = config.mentioned_share * max(side.wall_ns(side.typical) for side in (before, after))
    changes = [_change(key, *(side.get(key) for side in sides)) for key in dict.fromkeys((*sides[0], *sides[1]))]
    both = [entry for entry in changes if entry.before and entry.after]
    changed = [entry for entry in both if _differs(entry, least_ns)]
    return FindingChanges(
        gone=_ranked(entry for entry in changes if entry.after is None),
        new=_ranked(entry for entry in changes if entry.before is None),
        changed=_ranked(changed),
        same=_ranked(entry for entry in both if entry not in changed),
    )


def _of_side(side: Side) -> dict[Key, SideFinding]:
    """The findings that most traces of a side have."""
    found: dict[Key, list[tuple[Finding, float]]] = {}
    for run in (side.typical, *(run for run in side.runs if run is not side.typical)):
        devices = [(known(device.key.process), known(device.key.device)) for device in run.audit.devices]
        for finding in run.audit.diagnosis.findings:
            place = (finding.where.process, finding.where.device)
            key = (finding.code, finding.kind, devices.index(place) if place in devices else -1)
            found.setdefault(key, []).append((finding, finding.idle_ns / side.divisor(run)))
    return {
        key: SideFinding(entries[0][0], statistics.median(idle for _, idle in entries))
        for key, entries in found.items()
        if 2 * len(entries) > len(side.runs)
    }


def _change(key: Key, before: SideFinding | None, after: SideFinding | None) -> FindingChange:
    code, kind, _ = key
    name = next(side.finding.name for side in (before, after) if side is not None)
    return FindingChange(code, name, kind, before, after)


def _differs(entry: FindingChange, least_ns: float) -> bool:
    """Whether a finding of both sides became cheaper or more expensive, or a hazard."""
    if entry.before is None or entry.after is None:
        return True
    hazards = [side.finding.severity is Severity.HAZARD for side in (entry.before, entry.after)]
    return hazards[0] != hazards[1] or abs(entry.after.idle_ns - entry.before.idle_ns) > least_ns


def _ranked(entries: Iterable[FindingChange]) -> tuple[FindingChange, ...]:
    def idle_ns(entry: FindingChange) -> float:
        return max(side.idle_ns for side in (entry.before, entry.after) if side is not None)

    return tuple(sorted(entries, key=lambda entry: (-idle_ns(entry), entry.code)))
