"""What was wrong with the text of a trace before it was scrubbed: the scrubbed one is whole, and says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from overlapscope.calibration.values import count
from overlapscope.model.health import HealthSeverity, HealthWarning
from overlapscope.read.log import HealthLog

KEY = "overlapscopeHealth"
"""The top-level key of these warnings."""
_OF_TEXT = {
    "bad-header", "bad-trailer", "corrupt-gzip", "lost-events", "repaired-events", "second-trace", "trailing-bytes",
    "truncated",
}  # fmt: skip
_LONGEST_MESSAGE = 300


def health_before(warnings: Iterable[HealthWarning]) -> list[dict[str, Any]]:
    """The warnings about the text, as they are written."""
    return [
        {"code": each.code, "severity": str(each.severity), "count": each.count, "message": each.message}
        for each in warnings
        if each.code in _OF_TEXT
    ]


def note_before(log: HealthLog, written: Any) -> None:
    """Log what a scrubbed trace says; what nobody writes there is left out."""
    for each in written if isinstance(written, list) else ():
        if not isinstance(each, dict) or each.get("code") not in _OF_TEXT:
            continue
        severity, number, message = each.get("severity"), count(each.get("count")), each.get("message")
        if severity in set(HealthSeverity) and number is not None and isinstance(message, str):
            log.add(each["code"], HealthSeverity(severity), number, message[:_LONGEST_MESSAGE])
            log.events_read += number if each["code"] == "lost-events" else 0
