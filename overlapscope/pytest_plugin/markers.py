"""The limits in ``@pytest.mark.overlap(...)``, by their short names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlapscope.budget.configuration import check_names, limits_from
from overlapscope.budget.limits import ALL_CAUSES, Limits
from overlapscope.errors import BudgetNotUnderstood

_WITHIN = "within"
_NO_LIMITS = "overlap: has to be given limits by name, such as syncs=1"
NAMES = {
    "no": "no_findings",
    "syncs": "synchronisations_per_step",
    "scalar_reads": "scalar_reads_per_step",
    "pageable_bytes": "pageable_bytes",
    "blocked": "blocked_share",
    "hidden": "hidden_share",
    "idle": "idle_share",
    "saving": "saving_share",
}
"""The limit that each argument means; ``idle`` is a share, or shares by cause or rule."""


def limits_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str | None, Limits]:
    """The range and the limits in the arguments of a marker.

    >>> limits_of((), {"within": "step", "syncs": 1})[1].synchronisations_per_step
    1

    Raises:
        BudgetNotUnderstood: an argument is unknown or malformed; the text names it.
    """
    if args:
        raise BudgetNotUnderstood(_NO_LIMITS)
    check_names(kwargs, (*NAMES, _WITHIN), ("overlap",))
    within = kwargs.get(_WITHIN)
    if not isinstance(within, str | None):
        raise BudgetNotUnderstood(f"overlap.{_WITHIN}: has to be the name of a range")
    found = limits_named({name: value for name, value in kwargs.items() if name != _WITHIN})
    if not list(found):
        raise BudgetNotUnderstood(_NO_LIMITS)
    return within, found


def limits_named(values: Mapping[str, Any]) -> Limits:
    """Limits by their short names.

    Raises:
        BudgetNotUnderstood: one is malformed; the text names it.
    """
    idle = values.get("idle")
    shares = {} if idle is None or isinstance(idle, Mapping) else {"idle": {ALL_CAUSES: idle}}
    return limits_from({NAMES[name]: value for name, value in {**values, **shares}.items()}, ("overlap",))
