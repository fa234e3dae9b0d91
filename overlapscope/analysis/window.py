"""The one place where a range, a step, an interval or a GPU becomes the window of an analysis."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np

from overlapscope.errors import RangeNotFound, WindowEmpty
from overlapscope.measure.devices import device_keys
from overlapscope.measure.places import STEP, is_step
from overlapscope.measure.ranges import filling_range
from overlapscope.measure.truncation import complete_until
from overlapscope.measure.windows import Window, of_occurrence, of_range, whole, work_window
from overlapscope.model.trace import Trace

_MS = 1e6
_ENDLESS_MS = 1e12
_LISTED = 10  # steps in an error


def window_of(
    trace: Trace, within: str | Window | None = None, step: int | None = None, device: int | None = None
) -> Window:
    """The window of a trace: all of it, the occurrences of a range, a step of torch's profiler, or a given window.

    Args:
        trace: an opened trace.
        within: the name of a range (``*`` and ``?`` match), or a window; None for all of the trace, of a truncated one
            up to where it is complete.
        step: the number of a step of torch's profiler; where it numbered none, an occurrence of the range that repeats
            and fills the trace, 1 for the first.
        device: analyse only the GPUs of this number; None for those of the given window, else all.

    Raises:
        ValueError: both a range and a step are given.
        RangeNotFound: the trace has no such range or step.
        WindowEmpty: the GPU has no work in the trace.
    """
    if step is not None and within is not None:
        raise ValueError("choose the window by a range or by a step, not by both")
    if step is not None:
        window = _of_step(trace, step)
    elif isinstance(within, str):
        window = of_range(trace, within)
    else:
        window = _all_of(trace) if within is None else _cut(trace, within)
    return window if device is None else replace(window, device=_known_device(trace, device))


def _of_step(trace: Trace, step: int) -> Window:
    """A step of torch's profiler; without any, an occurrence of the range that repeats and fills the trace."""
    name, count = filling_range(trace)
    if count and not is_step(trace).any():
        return of_occurrence(trace, name, step)
    recorded = [
        int(found[1]) for name in trace.names.decode(np.unique(trace.ranges.name_id)) if (found := STEP.match(name))
    ]
    if recorded and step not in recorded:
        raise RangeNotFound(f"no step {step} was recorded; recorded: {', '.join(map(str, sorted(recorded)[:_LISTED]))}")
    return of_range(trace, f"ProfilerStep#{step}")


def _all_of(trace: Trace) -> Window:
    """The whole trace; of a truncated one the GPU's work up to where the trace is complete."""
    first, last = work_window(trace)
    complete = complete_until(trace)
    return whole(trace) if complete >= last else Window.between(first, max(complete, first))


def _cut(trace: Trace, window: Window) -> Window:
    """Intervals without what lies outside of the trace; other windows, and one beside the trace, as they are."""
    start_ns, end_ns = np.maximum(window.start_ns, trace.start_ns), np.minimum(window.end_ns, trace.end_ns)
    inside = end_ns > start_ns
    as_given = np.array_equal(start_ns, window.start_ns) and np.array_equal(end_ns, window.end_ns)
    if window.name is not None or as_given or not inside.any():
        return window
    return replace(window, start_ns=start_ns, end_ns=end_ns).take(inside)


def _known_device(trace: Trace, device: int) -> int:
    known = sorted({key.device for key in device_keys(trace)})
    if device not in known:
        raise WindowEmpty(f"no work of a GPU {device} in the trace: there is {', '.join(map(str, known)) or 'none'}")
    return device


def between_ms(trace: Trace, from_ms: float | None, to_ms: float | None) -> Window:
    """The window between two times, in ms since the begin of the trace, cut to the trace.

    None stands for the first begin or the last end of device work, as a figure shows it.

    Raises:
        WindowEmpty: nothing of the trace is there.
    """
    if from_ms is None and to_ms is None:
        return _all_of(trace)
    zero, edges = trace.start_ns, zip((from_ms, to_ms), work_window(trace), strict=True)
    limits = [((default - zero) / _MS if at is None else at, at, default) for at, default in edges]
    asked = " to ".join(f"{shown:g}" for shown, *_ in limits) + " ms"
    if any(isnan(shown) for shown, *_ in limits):
        raise WindowEmpty(f"no window from {asked}")
    first, last = (
        default if at is None else zero + round(min(max(at, -_ENDLESS_MS), _ENDLESS_MS) * _MS)
        for _, at, default in limits
    )
    first, last = max(first, trace.start_ns), min(last, trace.end_ns)
    if last <= first:
        raise WindowEmpty(f"nothing of the trace is in the window from {asked}")
    return Window.between(first, last)
