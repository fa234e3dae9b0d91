"""A window as it was, above the same window as it is predicted to be, on one scale of time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from overlapscope.measure.windows import of_range
from overlapscope.model.trace import Trace
from overlapscope.plot.canvas import add_legend, deepest, size_in
from overlapscope.plot.style import Appearance, rc
from overlapscope.plot.timeline import Window, check_suffix, paint, save_figure
from overlapscope.replay.prediction import Prediction
from overlapscope.timeline.lanes import Shown, lanes, work_window
from overlapscope.words import safe, time

_TITLE_IN = 0.2


def save_before_after(
    prediction: Prediction, path: str | Path, *, shown: Shown = Shown(), look: Appearance = Appearance()
) -> None:
    """Write the two timelines to ``path``; ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    Raises:
        OutputError: another suffix, or the file cannot be written.
    """
    path = Path(path)
    check_suffix(path)
    with mpl.rc_context(rc(look.font)):
        save_figure(before_after(prediction, shown=shown, look=look), path)


def before_after(prediction: Prediction, *, shown: Shown = Shown(), look: Appearance = Appearance()) -> Figure:
    """The two timelines as one figure."""
    traces = (prediction.trace, prediction.after)
    windows = [_window(trace, prediction.window.name) for trace in traces]
    span = max(end - start for start, end in windows)
    windows = [(start, start + span) for start, _ in windows]
    found = [lanes(trace, window, shown) for trace, window in zip(traces, windows, strict=True)]
    most = max((deepest(entry, *window) for entry, window in zip(found, windows, strict=True)), default=0)
    sizes = [size_in(entry, look) for entry in found]
    heights = [height for _, height in sizes]
    with mpl.rc_context(rc(look.font)):
        figure = Figure(figsize=(sizes[0][0], sum(heights) + 2 * _TITLE_IN), layout="constrained")
        axes = figure.subplots(2, 1, height_ratios=heights)
        rows = zip(axes, traces, found, windows, _titles(prediction), strict=True)
        hatched = set()
        for ax, trace, entry, window, title in rows:
            hatched |= paint(ax, trace, entry, window, replace(look, legend=False), most)
            ax.set_title(safe(title), loc="left", fontsize=mpl.rcParams["font.size"], pad=3)
        axes[0].set_xlabel("")  # the lower one's axis is for both
        axes[0].tick_params(labelbottom=False)
        if look.legend:
            add_legend(axes[-1], [lane for entry in found for lane in entry], look, hatched)
    return figure


def _titles(prediction: Prediction) -> tuple[str, str]:
    """What each is, with the time of its window, as it is told elsewhere."""
    changes = " + ".join(map(str, prediction.changes))
    return f"measured: {time(prediction.measured_ns)}", f"{changes}: {time(prediction.predicted_ns)} predicted"


def _window(trace: Trace, name: str | None) -> Window:
    if name is None:
        return work_window(trace)
    window = of_range(trace, name)
    return window.first_ns, window.last_ns
