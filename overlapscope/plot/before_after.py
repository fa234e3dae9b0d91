"""A window as it was, above the same window as it is predicted to be, on one scale of time."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from overlapscope.errors import OutputError
from overlapscope.measure.windows import of_range
from overlapscope.model.trace import Trace
from overlapscope.plot.lanes import lanes, work_window
from overlapscope.plot.style import RC, Width
from overlapscope.plot.timeline import Window, add_legend, check_suffix, draw_timeline, size_in, undated
from overlapscope.replay.prediction import Prediction
from overlapscope.words import safe, time

_DOTS_PER_IN = 300
_TITLE_IN = 0.2


def save_before_after(prediction: Prediction, path: str | Path, *, width: Width = "column") -> None:
    """Write the two timelines to ``path``; ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    Raises:
        OutputError: another suffix, or the file cannot be written.
    """
    path = Path(path)
    check_suffix(path)
    traces = (prediction.trace, prediction.after)
    windows = [_window(trace, prediction.window.name) for trace in traces]
    span = max(end - start for start, end in windows)
    windows = [(start, start + span) for start, _ in windows]
    shown = [lanes(trace, window) for trace, window in zip(traces, windows, strict=True)]
    heights = [size_in(entry, width)[1] for entry in shown]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(_width(width), sum(heights) + 2 * _TITLE_IN), layout="constrained")
        axes = figure.subplots(2, 1, height_ratios=heights)
        for ax, trace, window, title in zip(axes, traces, windows, _titles(prediction), strict=True):
            draw_timeline(trace, window, ax=ax, width=width, legend=False)
            ax.set_title(safe(title), loc="left", fontsize=RC["font.size"], pad=3)
        add_legend(axes[-1], [lane for entry in shown for lane in entry])
        try:
            figure.savefig(path, dpi=_DOTS_PER_IN, metadata=undated(path))
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _titles(prediction: Prediction) -> tuple[str, str]:
    changes = " + ".join(map(str, prediction.changes))
    return f"measured: {time(prediction.measured_ns)}", f"{changes}: {time(prediction.predicted_ns)} predicted"


def _width(width: Width) -> float:
    return size_in((), width)[0]


def _window(trace: Trace, name: str | None) -> Window:
    if name is None:
        return work_window(trace)
    window = of_range(trace, name)
    return window.first_ns, window.last_ns
