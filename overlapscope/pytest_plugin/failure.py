"""What a failing assertion says: the limits that are broken, and where the timeline and the trace are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from overlapscope.budget.result import CheckResult
from overlapscope.budget.text import detail_of
from overlapscope.errors import OverlapscopeError
from overlapscope.measure.windows import Window, of_range
from overlapscope.plot.timeline import save_timeline

_T = TypeVar("_T")


def plainly(call: Callable[..., _T], *args: Any) -> _T:
    """Call something; of a documented error, pytest shows the test's own line and the sentence."""
    __tracebackhide__ = True
    try:
        return call(*args)
    except OverlapscopeError as error:
        raise error.with_traceback(None) from None


def explained(result: CheckResult, figure: Path, trace: Path) -> str:
    """The broken limits with their findings, places and fixes; the timeline is drawn into ``figure``."""
    lines = [line for outcome in result.violations for line in detail_of(outcome)]
    return "\n".join([f"overlap {result.summary}", *lines, f"  figure: {drawn(result, figure)}", f"  trace: {trace}"])


def drawn(result: CheckResult, figure: Path) -> str:
    """The path of the figure; why there is none where it cannot be drawn."""
    try:
        figure.parent.mkdir(parents=True, exist_ok=True)
        save_timeline(result.trace, figure, _window(result))
    except (OverlapscopeError, OSError) as error:
        return f"none ({error})"
    return str(figure)


def _window(result: CheckResult) -> Window | None:
    """The time of the range that a limit is broken in; None for the whole trace."""
    name = result.violations[0].range
    return None if name is None else of_range(result.trace, name)
