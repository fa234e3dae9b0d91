"""What was lost, dropped or is doubtful in a trace, counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How far a warning reaches: a fact of the recording, doubt about figures, or lost data."""

    INFO = "info"
    WARNING = "warning"
    DAMAGE = "damage"


@dataclass(frozen=True)
class HealthWarning:
    """One thing to know before trusting a figure.

    ``share`` is ``count`` over the rows it could have concerned, from 0 to 1; None where that has no
    meaning (a file that was cut has no share).
    """

    code: str
    severity: Severity
    count: int
    share: float | None
    message: str


@dataclass(frozen=True)
class Health:
    """All warnings of a trace, and how many of the file's events were read and kept.

    Events that are kept out by design (flow arrows, counters, the device's copies of host annotations)
    are read but not kept, without a warning.
    """

    warnings: tuple[HealthWarning, ...] = ()
    events_read: int = 0
    events_kept: int = 0

    def __iter__(self) -> Iterator[HealthWarning]:
        return iter(self.warnings)

    def __len__(self) -> int:
        return len(self.warnings)

    @property
    def damaged(self) -> bool:
        """Whether data was lost."""
        return any(warning.severity is Severity.DAMAGE for warning in self.warnings)

    def has(self, code: str) -> bool:
        """Whether a warning of this code is there."""
        return any(warning.code == code for warning in self.warnings)
