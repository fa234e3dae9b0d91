"""The figures of a comparison as rows of text, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from overlapscope.comparison.figures import Figure, Spread, by_key
from overlapscope.comparison.result import Comparison
from overlapscope.comparison.sentences import percent
from overlapscope.diagnosis.causes import Cause
from overlapscope.formatting import size, time
from overlapscope.report.tables import Cells

_SHOWN_SHARE = 0.01
"""Times below this share of the window are left out; runs scatter by as much."""
_COPIES = ("count", "size_bytes", "total_ns", "hidden_ns", "blocked_ns")


def figure_rows(found: Comparison, shown_share: float = _SHOWN_SHARE) -> list[Cells]:
    """The figures that matter: before, after, and the change, ``same`` where it is none."""
    return [
        {
            "name": name,
            "before": cell(figure.before, form),
            "after": cell(figure.after, form),
            "difference": difference(figure),
        }
        for name, figure, form in _chosen(found, shown_share)
    ]


Form = Callable[[float], str]


def _chosen(found: Comparison, shown_share: float) -> Iterator[tuple[str, Figure, Form]]:
    """The figures with their names, in the order of a report."""
    figures = by_key(found.figures)
    least_ns = shown_share * max(side.median for side in (found.wall.before, found.wall.after) if side is not None)

    def matters(figure: Figure) -> bool:
        return any(side is None or side.median >= least_ns for side in (figure.before, figure.after))

    yield f"time, {'without the profiler' if found.before.unprofiled else 'as recorded'}", figures["wall_ns"], time
    if found.before.unprofiled:
        yield "time, as recorded", figures["recorded_ns"], time
    for key, name in {"busy_ns": "GPU busy", "kernel_busy_ns": "  kernels", "copy_busy_ns": "  copies"}.items():
        yield name, figures[key], time
    yield "  copies hidden under kernels", figures["hidden_ns"], time
    for group in _groups(found):
        yield from group.rows(figures, matters)
    yield "host blocked in CUDA calls", figures["blocked_ns"], time
    yield "GPU idle or only copying", figures["idle_or_copying_ns"], time
    yield "  only copying", figures["only_copying_ns"], time
    for cause in Cause:
        figure = figures[f"idle.{cause.name.lower()}_ns"]
        if matters(figure):
            yield f"  {cause.label}", figure, time


@dataclass(frozen=True)
class _Group:
    """The copies of one direction and memory."""

    direction: str
    memory: str

    def rows(
        self, figures: Mapping[str, Figure], matters: Callable[[Figure], bool]
    ) -> Iterator[tuple[str, Figure, Form]]:
        """Their number and bytes; their time, and what of it is hidden, where that is not next to nothing."""
        count, amount, total, hidden, blocked = (
            figures[f"copies.{self.direction}.{self.memory}.{name}"] for name in _COPIES
        )
        yield f"{self.direction} copies, {self.memory}", count, number
        yield "  bytes", amount, _bytes
        for name, figure in {"time": total, "hidden": hidden, "host blocked": blocked}.items():
            if matters(figure):
                yield f"  {name}", figure, time


def _groups(found: Comparison) -> list[_Group]:
    keys = [figure.key.split(".") for figure in found.figures if figure.key.startswith("copies.")]
    return [_Group(*key) for key in dict.fromkeys((direction, memory) for _, direction, memory, _ in keys)]


def number(value: float) -> str:
    """A count, which is no whole number where it is one of several occurrences'."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _bytes(value: float) -> str:
    return size(round(value))


def cell(spread: Spread | None, form: Form) -> str:
    """The median of one side, ``-`` for nothing."""
    if spread is None:
        return "?"
    return form(spread.median) if spread.median else "-"


def difference(figure: Figure) -> str:
    """The change of a figure as a share; ``same`` where it is none, ``gone`` and ``new`` where one side has nothing."""
    if figure.before is None or figure.after is None:
        return "?"
    if not figure.changed:
        return "same"
    if not figure.after.median:
        return "gone"
    return percent(figure.share)
