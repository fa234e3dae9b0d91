"""The health of a trace: counted warnings about lost, dropped and doubtful data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class HealthSeverity(StrEnum):
    """Severity of a warning: a fact about the recording, doubtful figures, or lost data."""

    INFO = "info"
    WARNING = "warning"
    DAMAGE = "damage"


@dataclass(frozen=True)
class HealthWarning:
    """One warning about a trace.

    ``share`` is ``count`` over the number of rows that it could concern, from 0 to 1; None where that has no meaning,
    as for a truncated file.
    """

    code: str
    severity: HealthSeverity
    count: int
    share: float | None
    message: str


@dataclass(frozen=True)
class Health:
    """All warnings of a trace, and how many events of the file were read and kept.

    Events that the model leaves out by design (flow arrows, counters, device-side copies of host annotations) are read
    but not kept, without a warning.
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
        return any(warning.severity is HealthSeverity.DAMAGE for warning in self.warnings)

    def has(self, code: str) -> bool:
        """Whether there is a warning with this code."""
        return any(warning.code == code for warning in self.warnings)
