"""The time of a GPU in parts: kernels, exposed collectives and copies, and idle time by rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.causes import Lateness
from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.measure.devices import Activity, DeviceKey
from overlapscope.measure.spans import covered, merge, subtract
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID
from overlapscope.model.frames import Row, frame

if TYPE_CHECKING:
    import pandas

KERNELS, COLLECTIVES, MEMSETS, COPIES, OUTSIDE = (
    "kernels",
    "exposed_collectives",
    "memsets",
    "exposed_copies",
    "before_and_after",
)
SHOWN_SHARE = 0.01
"""Parts below this share of a GPU's time are shown as one, "other"."""
_BUSY = (KERNELS, COLLECTIVES, MEMSETS)


@dataclass(frozen=True)
class TimePart(Row):
    """A part of a GPU's time: its key in JSON, its name, and how long it is in ns."""

    key: str
    label: str
    time_ns: int

    @property
    def is_idle(self) -> bool:
        """Whether the GPU did nothing."""
        return self.key.startswith("idle_")


@dataclass(frozen=True)
class GpuTime:
    """The time of one GPU within the window, in disjoint parts that add up to it.

    Kernels other than collectives come first; a collective is exposed where no such kernel runs, a memset where no
    kernel does, and a copy where neither does. The rest is idle time by rule, as in the findings, and the time before
    the first GPU work of the window and after its last.
    """

    device: DeviceKey
    parts: tuple[TimePart, ...]

    @property
    def total_ns(self) -> int:
        """The length of the window: all parts together."""
        return sum(part.time_ns for part in self.parts)

    @property
    def waiting_ns(self) -> int:
        """Time without a kernel or a memset: idle or only copying."""
        return self.total_ns - self.of(*_BUSY)

    @property
    def copies_ns(self) -> int:
        """Time that copies cost: exposed, or idle by a rule about copies."""
        return self.of(COPIES, *(_key(rule.code) for rule in RULES if rule.about_copies))

    def of(self, *keys: str) -> int:
        """The time of the parts with these keys."""
        return sum(part.time_ns for part in self.parts if part.key in keys)

    def largest(self, least_share: float = SHOWN_SHARE, most: int | None = None) -> tuple[TimePart, ...]:
        """Parts above a share of it, and kernels: these first, the others by their length; the rest is one part.

        There are ``most`` parts at most.
        """
        least_ns = round(least_share * self.total_ns)
        shown = [part for part in self.parts if part.time_ns > (0 if part.key == KERNELS else least_ns)]
        kernels = [part for part in shown if part.key == KERNELS]
        others = sorted((part for part in shown if part.key != KERNELS), key=lambda part: -part.time_ns)
        if most is not None and len(kernels) + len(others) >= most:
            others = others[: most - 1 - len(kernels)]
        rest = self.total_ns - sum(part.time_ns for part in (*kernels, *others))
        return (*kernels, *others, *([TimePart("other", "other", rest)] if rest else []))

    def to_dict(self) -> dict[str, Any]:
        """The parts that are not empty, as JSON-ready data: ``time`` of a device in an audit."""
        return {"total_ns": self.total_ns, "parts": [part.to_dict() for part in self.parts if part.time_ns]}

    def to_pandas(self) -> pandas.DataFrame:
        """The parts, one per row."""
        return frame(part.to_dict() for part in self.parts)


def gpu_time(active: Activity, device: DeviceDiagnosis | None, window: Window) -> GpuTime:
    """Split a GPU's time within a window; ``device`` has its idle intervals, None where it is hardly used."""
    within = window.of(active.key.process)
    memsets = subtract(active.memsets, active.kernels)
    copies = subtract(active.copies, merge(active.kernels, active.memsets))
    idle = () if device is None else tuple(_idle(active, device))
    rest = active.idle.total_ns - sum(part.time_ns for part in idle)
    parts = (
        TimePart(KERNELS, "kernels", active.compute.total_ns),
        TimePart(COLLECTIVES, "exposed collectives", active.exposed_collectives.total_ns),
        TimePart(MEMSETS, "memsets", memsets.total_ns),
        TimePart(COPIES, "exposed copies", copies.total_ns),
        *idle,
        TimePart("idle_other", "idle: between queued work" if device else "idle: hardly used", rest),
        TimePart(OUTSIDE, "before the first and after the last work", within.total_ns - active.span_ns),
    )
    return GpuTime(active.key, parts)


def _idle(active: Activity, device: DeviceDiagnosis) -> Iterator[TimePart]:
    """The idle time of each rule in which no copy ran either."""
    intervals = device.idle
    idle_ns = covered(intervals.start_ns, intervals.end_ns, active.idle)
    yield TimePart("idle_start", "idle: before the first launch", int(idle_ns[device.reason == NO_ID].sum()))
    for number, rule in enumerate(RULES):
        of_rule = device.reason == number
        parts = {"": (rule.waited_for, of_rule)}
        if rule.by_kind:
            kinds = map(Lateness, np.unique(device.lateness[of_rule]).tolist())
            parts = {f"_{kind.name.lower()}": (kind.waited_for, of_rule & (device.lateness == kind)) for kind in kinds}
        for suffix, (waited_for, mask) in parts.items():
            time_ns = int(idle_ns[mask].sum())
            yield TimePart(_key(rule.code) + suffix, f"idle: {waited_for} ({rule.code})", time_ns)


def _key(code: str) -> str:
    return f"idle_{code}"
