"""``--fail-on``: which findings make a command end with an exit status of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from overlapscope.diagnosis.finding import Diagnosis

_SEVERITIES = ("hazard", "high", "medium", "low")
"""From the most severe on; what is only information fails nothing."""


@dataclass(frozen=True)
class FailOn:
    """A severity, or a share of the window for which a GPU was idle because of findings."""

    severity: str | None = None
    share: float | None = None

    def met_by(self, found: Diagnosis) -> bool:
        """Whether a finding is at least this severe, or findings explain at least this much idle time of one GPU."""
        if self.share is not None:
            return max(_idle_shares(found), default=0.0) >= self.share
        severe = _SEVERITIES[: _SEVERITIES.index(self.severity or "hazard") + 1]
        return any(str(finding.severity) in severe for finding in found.findings)


def parse_fail_on(text: str) -> FailOn:
    """Read a severity or a percentage.

    >>> parse_fail_on("high").severity, parse_fail_on("5 %").share
    ('high', 0.05)
    """
    if text.lower() in _SEVERITIES:
        return FailOn(severity=text.lower())
    number = text.removesuffix("%").strip()
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not text.endswith("%") or not 0 < share <= 1:
        raise typer.BadParameter(f"{text!r} is neither {', '.join(_SEVERITIES)} nor a percentage such as 5%")
    return FailOn(share=share)


def complete_fail_on(begun: str) -> list[str]:
    """Severities that begin like this, for shell completion."""
    return [name for name in _SEVERITIES if name.startswith(begun)]


def _idle_shares(found: Diagnosis) -> list[float]:
    """For each GPU, the share of the window in which it was idle for a reason that is a finding."""
    shares = []
    for device in found.devices:
        mine = [entry for entry in found.findings if found.device_of(entry) is device]
        costs = [entry.idle_ns for entry in mine if str(entry.severity) in _SEVERITIES]
        shares.append(sum(costs) / device.span_ns if device.span_ns else 0.0)
    return shares
