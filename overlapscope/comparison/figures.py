"""The figures of two sides, each before, after, and its change."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.side import Run, Side
from overlapscope.diagnosis.causes import Cause
from overlapscope.report.data import DeviceAudit

Value = float | None
"""A figure; None where the trace does not record it."""


@dataclass(frozen=True)
class Spread:
    """A figure of several traces: its median, its least and its largest value."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """From the least to the largest."""
        return self.high - self.low


@dataclass(frozen=True)
class Figure:
    """One figure of both sides; None where a side does not record it.

    ``changed`` says whether the change is larger than the spread of the sides, or than what runs of one program differ
    by where there is one trace a side.
    """

    key: str
    before: Spread | None
    after: Spread | None
    changed: bool

    @property
    def change(self) -> float | None:
        """By how much the median is larger after."""
        return None if self.before is None or self.after is None else self.after.median - self.before.median

    @property
    def share(self) -> float | None:
        """That as a share of before; None where there was nothing."""
        if self.before is None or self.change is None or not self.before.median:
            return None
        return self.change / self.before.median


def figures(before: Side, after: Side, config: CompareConfig) -> tuple[Figure, ...]:
    """Every figure that one side has."""
    values = [[_of_run(side, run) for run in side.runs] for side in (before, after)]
    keys = dict.fromkeys(key for side in values for run in side for key in run)
    return tuple(_figure(key, values[0], values[1], config) for key in keys)


def _figure(key: str, before: list[dict[str, Value]], after: list[dict[str, Value]], config: CompareConfig) -> Figure:
    one, two = (_spread([run.get(key, 0) for run in side]) for side in (before, after))
    return Figure(key, one, two, _changed(one, two, several=min(len(before), len(after)) > 1, config=config))


def _spread(values: Sequence[Value]) -> Spread | None:
    known = [value for value in values if value is not None]
    return Spread(statistics.median(known), min(known), max(known)) if len(known) == len(values) else None


def _changed(before: Spread | None, after: Spread | None, *, several: bool, config: CompareConfig) -> bool:
    if before is None or after is None:
        return before is not after
    share = config.least_share if several else config.single_share
    least = max(share * max(abs(before.median), abs(after.median)), before.width, after.width)
    return abs(after.median - before.median) > least


def _of_run(side: Side, run: Run) -> dict[str, Value]:
    """All figures of a run, by key: sums over its GPUs and threads, for one occurrence where occurrences differ."""
    found, divisor = run.audit, side.divisor(run)
    total: dict[str, Value] = {
        "wall_ns": run.wall_ns(unprofiled=side.unprofiled),
        "recorded_ns": run.window.wall_ns,
        "busy_ns": _sum(found.devices, lambda device: device.activity.busy.total_ns),
        "idle_ns": _sum(found.devices, lambda device: device.activity.idle.total_ns),
        "only_copying_ns": _sum(found.devices, _only_copying_ns),
        "idle_or_copying_ns": _sum(
            found.devices, lambda device: device.activity.idle.total_ns + _only_copying_ns(device)
        ),
        "kernels": found.counts["kernels"],
        "kernel_busy_ns": _sum(found.devices, lambda device: device.activity.kernels.total_ns),
        "copy_busy_ns": _sum(found.devices, lambda device: device.activity.copies.total_ns),
        "hidden_ns": _sum(found.devices, lambda device: device.activity.overlap.total_ns),
        "blocked_ns": sum(row.blocked_ns for row in found.host_blocking),
        **_copies(found.devices),
        **{f"idle.{cause.name.lower()}_ns": run.idle_ns(cause) for cause in Cause},
    }
    return {key: None if value is None else value / divisor for key, value in total.items()}


def _sum(devices: Sequence[DeviceAudit], value: Callable[[DeviceAudit], int]) -> int:
    return sum(map(value, devices))


def _only_copying_ns(device: DeviceAudit) -> int:
    """For how long a GPU copied and ran no kernel."""
    return device.activity.copies.total_ns - device.activity.overlap.total_ns


def _copies(devices: Sequence[DeviceAudit]) -> dict[str, Value]:
    """The copies by direction and memory on the host side: ``copies.HtoD.pageable.count``."""
    found: dict[str, Value] = {}
    for group in (group for device in devices for group in device.memory):
        for name in ("count", "size_bytes", "total_ns", "hidden_ns", "exposed_ns", "blocked_ns"):
            key = f"copies.{group.key['direction']}.{group.key['memory']}.{name}"
            value, known = getattr(group, name), found.get(key, 0)
            found[key] = None if value is None or known is None else known + value
    return found


def plain(value: float) -> float | int:
    """A number as JSON has it: times and counts whole."""
    return int(value) if value == round(value) else value


def side_dict(found: Sequence[Figure], side: Callable[[Figure], Spread | None]) -> dict[str, Any]:
    """The medians of one side by key, as JSON-ready data."""
    return {figure.key: None if (spread := side(figure)) is None else plain(spread.median) for figure in found}


def spread_dict(found: Sequence[Figure], side: Callable[[Figure], Spread | None]) -> dict[str, Any]:
    """The least and the largest value of one side by key, as JSON-ready data."""
    known = {figure.key: side(figure) for figure in found}
    return {key: None if spread is None else [plain(spread.low), plain(spread.high)] for key, spread in known.items()}


def by_key(found: Sequence[Figure]) -> Mapping[str, Figure]:
    """Figures by their key."""
    return {figure.key: figure for figure in found}
