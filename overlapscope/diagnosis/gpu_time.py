"""What a GPU's time went to: kernels, exposed collectives and copies, and idle time by cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overlapscope.diagnosis.causes import Cause, Group, IdleByCause
from overlapscope.measure.devices import Activity, DeviceKey
from overlapscope.measure.spans import merge, subtract
from overlapscope.measure.windows import Window
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
_BUSY = (KERNELS, COLLECTIVES, MEMSETS)


@dataclass(frozen=True)
class TimePart(Row):
    """A part of a GPU's time: its key in JSON, its name, and how long it is in ns."""

    key: str
    label: str
    time_ns: int


@dataclass(frozen=True)
class GpuTime:
    """The time of one GPU within the window, in disjoint parts that add up to it.

    Kernels other than collectives come first; a collective is exposed where no such kernel runs, a memset where no
    kernel does, and a copy where neither does. The rest is idle time by cause, and the time before the first GPU work
    of the window and after its last.
    """

    device: DeviceKey
    parts: tuple[TimePart, ...]

    @property
    def total_ns(self) -> int:
        """All of it: the window."""
        return sum(part.time_ns for part in self.parts)

    @property
    def waiting_ns(self) -> int:
        """Time without a kernel or a memset: idle or only copying."""
        return self.total_ns - self.of(*_BUSY)

    @property
    def copies_ns(self) -> int:
        """Time that copies cost: exposed, or idle because a copy call blocked the host or work waited for a copy."""
        causes = (Cause.COPY_CALL, Cause.COPY_ONLY, *Cause.in_groups(Group.COPY))
        return self.of(COPIES, *map(_key, causes))

    def of(self, *keys: str) -> int:
        """Time of some parts."""
        return sum(part.time_ns for part in self.parts if part.key in keys)

    def largest(self, *, least_ns: int = 0) -> tuple[TimePart, ...]:
        """Parts longer than ``least_ns``: kernels first, the others by their length; the rest is one part."""
        shown = [part for part in self.parts if part.time_ns > least_ns]
        kernels = [part for part in shown if part.key == KERNELS]
        others = sorted((part for part in shown if part.key != KERNELS), key=lambda part: -part.time_ns)
        rest = self.total_ns - sum(part.time_ns for part in shown)
        return (*kernels, *others, *([TimePart("other", "other", rest)] if rest else []))

    def to_dict(self) -> dict[str, Any]:
        """The parts that are not empty, in ns, by key: ``time`` of a device in an audit."""
        return {part.key: part.time_ns for part in self.parts if part.time_ns}

    def to_pandas(self) -> pandas.DataFrame:
        """The parts, one per row."""
        return frame(part.to_dict() for part in self.parts)


def gpu_time(active: Activity, idle: IdleByCause, window: Window) -> GpuTime:
    """Split a GPU's time within a window; ``idle`` is its idle time by cause."""
    within = window.of(active.key.process)
    memsets = subtract(active.memsets, active.kernels)
    copies = subtract(active.copies, merge(active.kernels, active.memsets))
    busy = (
        TimePart(KERNELS, "kernels", active.compute.total_ns),
        TimePart(COLLECTIVES, "exposed collectives", active.exposed_collectives.total_ns),
        TimePart(MEMSETS, "memsets", memsets.total_ns),
        TimePart(COPIES, "exposed copies", copies.total_ns),
    )
    outside = TimePart(OUTSIDE, "before the first and after the last work", within.total_ns - active.span_ns)
    return GpuTime(active.key, (*busy, *_idle(idle), outside))


def _idle(idle: IdleByCause) -> Iterable[TimePart]:
    return (TimePart(_key(cause), f"idle: {cause.label}", idle.sum_ns(cause)) for cause in Cause)


def _key(cause: Cause) -> str:
    return f"idle_{cause.name.lower()}"
