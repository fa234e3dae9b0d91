"""Every figure that a limit is about, by the name of the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from overlapscope.budget import counts, shares
from overlapscope.budget.figure import Figure
from overlapscope.budget.limits import ALL_CAUSES, CAUSES, Limits
from overlapscope.budget.scope import Scope

_WHOLE: dict[str, Callable[[Scope], Figure]] = {
    "scalar_reads_per_step": counts.scalar_reads_per_step,
    "synchronisations_per_step": counts.synchronisations,
    "pageable_bytes": counts.pageable_bytes,
    "blocked_share": shares.blocked_share,
    "hidden_share": shares.hidden_share,
    "saving_share": shares.saving_share,
}
_BY_PART: dict[str, Callable[[Scope, str], Figure]] = {
    "idle_share": shares.idle_share,
    "no_findings": shares.findings,
}


def measured(scope: Scope, name: str, part: str | None = None) -> Figure:
    """A figure by its name, and by its part where it has parts."""
    return _WHOLE[name](scope) if part is None else _BY_PART[name](scope, part)


def stored(scope: Scope) -> dict[str, Any]:
    """All figures as JSON-ready data, as a baseline has them: None for what the trace does not have.

    Causes without idle time are left out.
    """
    values: dict[str, Any] = {}
    for entry in fields(Limits):
        if entry.name in _WHOLE:
            values[entry.name] = measured(scope, entry.name).value
    idle = {cause: measured(scope, "idle_share", cause).value for cause in CAUSES}
    some = {cause: share for cause, share in idle.items() if share or cause == ALL_CAUSES}
    values["idle_share"] = None if idle[ALL_CAUSES] is None else some
    values["findings"] = sorted({finding.code for finding in scope.diagnosis.findings})
    return values
