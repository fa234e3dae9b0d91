"""The part of a trace that a command is about: by range, step, time and GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from overlapscope.errors import WindowEmpty

if TYPE_CHECKING:
    from overlapscope.measure.windows import Window
    from overlapscope.model.trace import Trace


@dataclass(frozen=True)
class Selection:
    """What the options ``--within``, ``--step``, ``--from``, ``--to`` and ``--device`` select."""

    within: str | None = None
    step: int | None = None
    from_ms: float | None = None
    to_ms: float | None = None
    device: int | None = None

    def __post_init__(self) -> None:
        """Raise a usage error where more than one option chooses the time."""
        chosen = (self.within, self.step, self.from_ms if self.to_ms is None else self.to_ms)
        if sum(choice is not None for choice in chosen) > 1:
            raise typer.BadParameter("choose the window by one of --within, --step and --from/--to")

    @property
    def range_name(self) -> str | None:
        """The name of the selected range; None without one."""
        return self.within if self.step is None else f"ProfilerStep#{self.step}"

    @property
    def is_interval(self) -> bool:
        """Whether a time interval is selected."""
        return self.from_ms is not None or self.to_ms is not None

    def interval_ns(self, trace: Trace) -> tuple[int, int]:
        """The selected time interval.

        Raises:
            WindowEmpty: nothing of the trace is there.
        """
        from overlapscope.timeline import view

        return view.of_time(trace, self.from_ms, self.to_ms)

    def window(self, trace: Trace) -> Window | None:
        """The window to analyse; None for all of the trace.

        Raises:
            RangeNotFound: the trace has no such range.
            WindowEmpty: nothing of the trace is in the interval, or on the device.
        """
        from overlapscope.measure.windows import Window, window_of

        if self == Selection():
            return None
        interval = self.interval_ns(trace) if self.is_interval else None
        window = window_of(trace, self.range_name) if interval is None else Window.between(*interval)
        return replace(window, device=self.device_of(trace))

    def device_of(self, trace: Trace) -> int | None:
        """The number of the selected GPU; None for all.

        Raises:
            WindowEmpty: it has no work in the trace.
        """
        from overlapscope.measure.devices import device_keys

        there = sorted({key.device for key in device_keys(trace)})
        if self.device is not None and self.device not in there:
            known = ", ".join(map(str, there)) or "none"
            raise WindowEmpty(f"no work of a GPU {self.device} in the trace: there is {known}")
        return self.device
