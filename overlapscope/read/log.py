"""Collects what goes wrong while reading; becomes the trace's `Health`."""

from __future__ import annotations

from overlapscope.model.health import Health, HealthWarning, Severity

UNKNOWN_CATEGORY = "unknown-category:"
"""Starts the code of a warning about events of a category that is not understood."""
_ORDER = {Severity.DAMAGE: 0, Severity.WARNING: 1, Severity.INFO: 2}


class HealthLog:
    """Warnings by code, in the order of their first appearance."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._texts: dict[str, tuple[Severity, str, int | None]] = {}
        self.events_read = 0
        self.events_kept = 0

    def add(self, code: str, severity: Severity, count: int, message: str, of: int | None = None) -> None:
        """Count ``count`` cases of ``code``; does nothing for 0. ``of`` is how many rows it could concern."""
        if count <= 0:
            return
        self._counts[code] = self._counts.get(code, 0) + count
        self._texts[code] = (severity, message, of)

    def has_prefix(self, prefix: str) -> bool:
        """Whether a warning's code starts like this."""
        return any(code.startswith(prefix) for code in self._counts)

    def damage(self, code: str, count: int, message: str, of: int | None = None) -> None:
        """Data was lost."""
        self.add(code, Severity.DAMAGE, count, message, of)

    def warn(self, code: str, count: int, message: str, of: int | None = None) -> None:
        """Some figures are doubtful."""
        self.add(code, Severity.WARNING, count, message, of)

    def note(self, code: str, count: int, message: str, of: int | None = None) -> None:
        """A fact of the recording."""
        self.add(code, Severity.INFO, count, message, of)

    def health(self) -> Health:
        """The finished record, worst first."""
        warnings = [
            HealthWarning(code, severity, count, min(1.0, count / of) if of else None, message)
            for (code, count), (severity, message, of) in zip(self._counts.items(), self._texts.values(), strict=True)
        ]
        warnings.sort(key=lambda warning: _ORDER[warning.severity])
        return Health(tuple(warnings), self.events_read, self.events_kept)
