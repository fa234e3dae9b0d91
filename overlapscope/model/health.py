"""The health of a trace: counted warnings about lost, dropped and doubtful data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from overlapscope.model.frames import Row, frame

if TYPE_CHECKING:
    import pandas


class HealthSeverity(StrEnum):
    """Severity of a warning: a fact about the recording, doubtful figures, or lost data."""

    INFO = "info"
    WARNING = "warning"
    DAMAGE = "damage"


@dataclass(frozen=True)
class HealthWarning(Row):
    """One warning about a trace.

    ``share`` is ``count`` over the number of rows that it could concern, from 0 to 1; None where that has no meaning,
    as for a truncated file.
    """

    code: str
    severity: HealthSeverity
    count: int
    share: float | None
    message: str

    @property
    def of_the_file(self) -> bool:
        """Whether it is about the file as a whole, and counts nothing."""
        return self.message.startswith(_OF_THE_FILE)

    @property
    def text(self) -> str:
        """The message, after what it counts."""
        return self.message if self.of_the_file else f"{self._counted} {self.message}"

    @property
    def _counted(self) -> str:
        return f"{self.count:,}" if self.share is None else f"{self.count:,} ({100 * self.share:.3g} %)"


_OF_THE_FILE = ("the ", "no ", "missing ", "bytes ")
"""Begins of messages about the file as a whole."""

MISSING_COLUMN = "missing-column:"
"""Prefix of the codes of warnings that a table, or a column of it, is missing that every file of its format has."""
_NO_DEVICE_WORK = ("no-device-work", "device-work-lost", "unknown-device-work")
"""Codes of the warnings that say why there is no device work."""


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

    def to_dict(self) -> dict[str, Any]:
        """The warnings and counts as JSON-ready data; the keys are those of an audit."""
        warnings = [warning.to_dict() for warning in self.warnings]
        return {"health": warnings, "events_read": self.events_read, "events_kept": self.events_kept}

    def to_pandas(self) -> pandas.DataFrame:
        """The warnings, one per row."""
        columns = [entry.name for entry in fields(HealthWarning)]
        return frame((warning.to_dict() for warning in self.warnings), columns)

    @property
    def damaged(self) -> bool:
        """Whether data was lost."""
        return any(warning.severity is HealthSeverity.DAMAGE for warning in self.warnings)

    @property
    def no_device_work(self) -> str:
        """What kind of trace it is that has no device work, and why, as a phrase; empty where it has some."""
        return next((warning.message for warning in self.warnings if warning.code in _NO_DEVICE_WORK), "")

    @property
    def incomplete(self) -> tuple[HealthWarning, ...]:
        """The warnings about tables and columns that every file of its format has, and this one lacks."""
        return tuple(warning for warning in self.warnings if warning.code.startswith(MISSING_COLUMN))

    def has(self, code: str) -> bool:
        """Whether there is a warning with this code."""
        return any(warning.code == code for warning in self.warnings)
