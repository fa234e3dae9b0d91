"""The figures and the ranges of two sides, each before, after, and its change."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np

from overlapscope.comparison.side import Run, Side
from overlapscope.comparison.work import LISTED
from overlapscope.diagnosis.causes import Cause
from overlapscope.measure.host import host_blocking
from overlapscope.measure.places import STEP, STEPS, enclosing
from overlapscope.measure.windows import ends_with_work, ranges_within
from overlapscope.model.columns import NO_ID
from overlapscope.model.frames import Row
from overlapscope.report.data import DeviceAudit

SINGLE_SHARE = 0.04
"""With one trace a side, a change of less than this share is none; two times of one program differ by that at the
median (docs/predictions.md)."""
TENTH_SHARE = 0.16
"""Two times of one program differ by this share in every tenth case: a smaller change may be chance, and that is said
(docs/predictions.md)."""
LEAST_SHARE = 0.01
"""With several traces a side, a change below this share is none either, however close together they are."""
MENTIONED_SHARE = 0.02
"""From this share on, of the change or of the time, a part of the change or a finding's idle time is mentioned."""

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
        """The difference between the largest and the least value."""
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
        """The difference of the medians, positive where it is larger after."""
        return None if self.before is None or self.after is None else self.after.median - self.before.median

    @property
    def share(self) -> float | None:
        """The change as a share of before; None where there was nothing."""
        if self.before is None or self.change is None or not self.before.median:
            return None
        return self.change / self.before.median


def figures_of(before: Side, after: Side) -> tuple[Figure, ...]:
    """All figures that one of two sides has."""
    values = [[_of_run(side, run) for run in side.runs] for side in (before, after)]
    keys = dict.fromkeys(key for side in values for run in side for key in run)
    return tuple(_figure(key, values[0], values[1]) for key in keys)


def _figure(key: str, before: list[dict[str, Value]], after: list[dict[str, Value]]) -> Figure:
    one, two = (_spread([run.get(key, 0) for run in side]) for side in (before, after))
    return Figure(key, one, two, _changed(one, two, several=min(len(before), len(after)) > 1))


def _spread(values: Sequence[Value]) -> Spread | None:
    known = [value for value in values if value is not None]
    return Spread(statistics.median(known), min(known), max(known)) if len(known) == len(values) else None


def _changed(before: Spread | None, after: Spread | None, *, several: bool) -> bool:
    if before is None or after is None:
        return before is not after
    share = LEAST_SHARE if several else SINGLE_SHARE
    least = max(share * max(abs(before.median), abs(after.median)), before.width, after.width)
    return abs(after.median - before.median) > least


def _of_run(side: Side, run: Run) -> dict[str, Value]:
    """All figures of a run, by key: sums over its GPUs and threads, for one occurrence where occurrences differ."""
    devices, divisor = run.devices, side.divisor(run)
    total: dict[str, Value] = {
        "wall_ns": run.wall_ns,
        "recorded_ns": run.window.wall_ns,
        "busy_ns": _sum(devices, lambda device: device.activity.busy.total_ns),
        "idle_ns": _sum(devices, lambda device: device.activity.idle.total_ns),
        "only_copying_ns": _sum(devices, _only_copying_ns),
        "idle_or_copying_ns": _sum(devices, lambda device: device.activity.idle.total_ns + _only_copying_ns(device)),
        "kernels": run.audit.counts["kernels"],
        "kernel_busy_ns": _sum(devices, lambda device: device.activity.kernels.total_ns),
        "copy_busy_ns": _sum(devices, lambda device: device.activity.copies.total_ns),
        "hidden_ns": _sum(devices, lambda device: device.activity.overlap.total_ns),
        "blocked_ns": sum(row.blocked_ns for row in host_blocking(run.stated.trace, run.stated.window)),
        **_copies(devices),
        **{f"idle.{cause.name.lower()}_ns": run.idle_ns(cause) for cause in Cause},
    }
    return {key: None if value is None else value / divisor for key, value in total.items()}


def _sum(devices: Sequence[DeviceAudit], value: Callable[[DeviceAudit], int]) -> int:
    return sum(map(value, devices))


def _only_copying_ns(device: DeviceAudit) -> int:
    """The time for which a GPU copied and ran no kernel."""
    return device.activity.copies.total_ns - device.activity.overlap.total_ns


def _copies(devices: Sequence[DeviceAudit]) -> dict[str, Value]:
    """The copies by direction and memory on the host side: ``copies.HtoD.pageable.count``."""
    sums: dict[str, Value] = {}
    for group in (group for device in devices for group in device.memory):
        for name in ("count", "size_bytes", "total_ns", "hidden_ns", "exposed_ns", "blocked_ns"):
            key = f"copies.{group.key['direction']}.{group.key['memory']}.{name}"
            value, known = getattr(group, name), sums.get(key, 0)
            sums[key] = None if value is None or known is None else known + value
    return sums


def plain(value: float | None) -> float | int | None:
    """A number as JSON has it, times and counts whole; None for None."""
    return value if value is None or value != round(value) else int(value)


def by_key(figures: Sequence[Figure]) -> Mapping[str, Figure]:
    """The figures by their keys."""
    return {figure.key: figure for figure in figures}


@dataclass(frozen=True)
class RangeTimes(Row):
    """The occurrences of a range: how many, the median time of one, and the time of all."""

    occurrences: int
    median_ns: float
    total_ns: int


@dataclass(frozen=True)
class RangeChange(Row):
    """A range of one trace or both; None where a trace has not got it.

    Times go up to the end of the GPU work issued in an occurrence, and what an occurrence before it covers does not
    count: however far the host runs ahead, they add up to the time of all. Of a range within one that repeats, the end
    of its work only tells how much was queued before it: times are those ``on_host``.

    ``steps`` are the times of the first, second and further occurrences, before and after, None where one is missing.
    """

    name: str
    on_host: bool
    before: RangeTimes | None
    after: RangeTimes | None
    steps: tuple[tuple[int | None, int | None], ...]


def range_changes(before: Run, after: Run) -> tuple[RangeChange, ...]:
    """The ranges within the windows of two traces, at most `LISTED`, the longest first; only the common steps are."""
    sides = _Ranges(before), _Ranges(after)
    within = sides[0].within_repeated | sides[1].within_repeated
    times = [side.times(within) for side in sides]
    names = dict.fromkeys((*times[0], *times[1]))
    changes = [_change(name, name in within, *(side.get(name, []) for side in times)) for name in names]

    def total_ns(entry: RangeChange) -> int:
        return max(side.total_ns for side in (entry.before, entry.after) if side is not None)

    return tuple(sorted(changes, key=lambda entry: (-total_ns(entry), entry.name))[:LISTED])


class _Ranges:
    """The ranges within the window of a trace, in the order of their begins."""

    def __init__(self, run: Run) -> None:
        self._trace, ranges = run.stated.trace, ranges_within(run.stated.trace, run.stated.window)
        self._ranges = ranges.take(np.argsort(ranges.start_ns, kind="stable"))
        self._names = [STEPS if STEP.match(name) else name for name in self._trace.names.decode(self._ranges.name_id)]

    @cached_property
    def within_repeated(self) -> frozenset[str]:
        """The names of ranges that lie within a range of another name that occurs several times."""
        count, around = Counter(self._names), enclosing(self._ranges).tolist()
        pairs = [(name, self._names[row]) for name, row in zip(self._names, around, strict=True) if row != NO_ID]
        return frozenset(name for name, outer in pairs if outer != name and count[outer] > 1)

    def times(self, on_host: frozenset[str]) -> dict[str, list[int]]:
        """The times of the occurrences of each range, in their order; of some names those on the host."""
        times: dict[str, list[int]] = {}
        reached: dict[tuple[str, int], int] = {}
        columns = (
            self._ranges.start_ns,
            self._ranges.end_ns,
            ends_with_work(self._trace, self._ranges),
            self._ranges.process,
        )
        for name, begin, end, done, process in zip(self._names, *(column.tolist() for column in columns), strict=True):
            covered = max(begin, reached.get((name, process), begin))
            times.setdefault(name, []).append(end - begin if name in on_host else max(done - covered, 0))
            reached[name, process] = max(done, covered)
        return times


def _change(name: str, on_host: bool, before: list[int], after: list[int]) -> RangeChange:
    return RangeChange(name, on_host, _summed(before), _summed(after), tuple(zip_longest(before, after)))


def _summed(times: list[int]) -> RangeTimes | None:
    return RangeTimes(len(times), statistics.median(times), sum(times)) if times else None
