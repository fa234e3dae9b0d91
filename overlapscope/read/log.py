"""Collect warnings while a trace is read; they become its `Health`."""

from __future__ import annotations

from overlapscope.model.health import Health, HealthSeverity, HealthWarning

UNKNOWN_CATEGORY = "unknown-category:"
"""Prefix of the codes of warnings about events of unknown categories."""
_ORDER = {HealthSeverity.DAMAGE: 0, HealthSeverity.WARNING: 1, HealthSeverity.INFO: 2}


class HealthLog:
    """Warnings by code, in the order of their first appearance."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._texts: dict[str, tuple[HealthSeverity, str, int | None]] = {}
        self.events_read = 0
        self.events_kept = 0

    def add(self, code: str, severity: HealthSeverity, count: int, message: str, of: int | None = None) -> None:
        """Add ``count`` to the warning ``code``, of at most ``of`` rows that it could concern; 0 does nothing."""
        if count <= 0:
            return
        self._counts[code] = self._counts.get(code, 0) + count
        self._texts[code] = (severity, message, of)

    def has_prefix(self, prefix: str) -> bool:
        """Whether a warning's code starts like this."""
        return any(code.startswith(prefix) for code in self._counts)

    def damage(self, code: str, count: int, message: str, of: int | None = None) -> None:
        """Add a warning that data was lost."""
        self.add(code, HealthSeverity.DAMAGE, count, message, of)

    def warn(self, code: str, count: int, message: str, of: int | None = None) -> None:
        """Add a warning that some figures are doubtful."""
        self.add(code, HealthSeverity.WARNING, count, message, of)

    def note(self, code: str, count: int, message: str, of: int | None = None) -> None:
        """Add a fact about the recording."""
        self.add(code, HealthSeverity.INFO, count, message, of)

    def health(self) -> Health:
        """All warnings, the worst first."""
        warnings = [
            HealthWarning(code, severity, count, min(1.0, count / of) if of else None, message)
            for (code, count), (severity, message, of) in zip(self._counts.items(), self._texts.values(), strict=True)
        ]
        warnings.sort(key=lambda warning: _ORDER[warning.severity])
        return Health(tuple(warnings), self.events_read, self.events_kept)
