"""Draw a trace's lanes with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.plot.canvas import Canvas
from overlapscope.plot.files import DOTS_PER_IN, check_suffix, png_of, save_figure
from overlapscope.plot.fitting import fit
from overlapscope.plot.layout import LANE_IN, rows_of, total_height
from overlapscope.plot.legend import add_legend, entries_of, height_in, is_shaded
from overlapscope.plot.style import WIDTHS_IN, Appearance, Font, Palette, Width, rc
from overlapscope.timeline.arrows import arrows as arrows_of
from overlapscope.timeline.bars import Lane
from overlapscope.timeline.lanes import lanes
from overlapscope.timeline.shown import Shown
from overlapscope.timeline.view import edges_of, shown_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AXES_SHARE = 0.775  # of a figure's width, before lanes have their titles
_AXIS_IN = 0.42


def draw_timeline(  # noqa: PLR0913 - keyword-only settings, each with a default
    trace: Trace,
    window: tuple[int, int] | Window | None = None,
    *,
    within: str | Window | None = None,
    ax: Axes | None = None,
    shown: Shown = Shown(),
    width: Width = "column",
    font: Font = "sans",
    palette: Palette = "colour",
    legend: bool = True,
    arrows: bool = False,
    scale_bar: bool = False,
    exposed: bool = True,
    kernel_names: bool = False,
) -> Axes:
    """Draw the per-stream timeline of ``trace``.

    Args:
        trace: any trace.
        window: (start, end) in ns on the trace's clock, like all times of tables: add ``trace.start_ns`` to times
            since its begin, which the axis and the command line have. Without a window, from the first call that
            issues device work to the end of that work.
        within: the window by the name of a range (``*`` and ``?`` match), such as ``"ProfilerStep#3"``, or a `Window`.
        ax: axes to draw into, which get room for titles and a legend; made, in a figure of the right size, without.
        shown: which ranges, threads, streams and strips.
        width: ``"column"`` (3.5 in) or ``"page"`` (7.16 in) of a two-column paper, for a figure made here.
        font: ``"sans"`` or ``"serif"``.
        palette: ``"colour"``, which the colour-blind can tell apart, or ``"grey"`` for print without colours.
        legend: whether to put a legend below the figure.
        arrows: draw arrows from calls to the work they issued, where there are no more than 40 of them.
        scale_bar: a bar of a round length instead of a time axis.
        exposed: shade the streams of a device where its copies are exposed.
        kernel_names: write names of kernels also where they have to be shortened.

    Returns:
        The axes. The time axis has the time since the begin of the trace.

    Raises:
        WindowEmpty: nothing of the trace is in the window.
        RangeNotFound: the trace has no such range.
    """
    part = shown_window(trace, window, within)
    edges = edges_of(trace, part)
    look = Appearance(width, font, palette, legend, arrows, scale_bar, exposed, kernel_names)
    found = lanes(trace, part, shown)
    given = ax is not None
    if ax is None:
        import matplotlib.pyplot as plt

        # Outside of our settings: a notebook's backend starts with the first figure, and makes settings of its own.
        figure = plt.figure(figsize=size_in(found, edges, look), layout="constrained")
        with mpl.rc_context(rc(font)):
            ax = figure.add_subplot()
    with mpl.rc_context(rc(font)):
        paint(ax, trace, found, edges, look, own_legend=given)
        if given:
            fit(ax)
    return ax


def save_timeline(  # noqa: PLR0913 - keyword-only settings, each with a default
    trace: Trace,
    path: str | Path,
    window: tuple[int, int] | Window | None = None,
    *,
    within: str | Window | None = None,
    idle: Sequence[DeviceDiagnosis] | None = None,
    shown: Shown = Shown(),
    look: Appearance = Appearance(),
) -> None:
    """Write the timeline to ``path``; ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    Args:
        trace: any trace.
        path: the file.
        window: (start, end) in ns on the trace's clock, as for `draw_timeline`.
        within: the window by the name of a range, as for `draw_timeline`.
        idle: why devices were idle, as in `Diagnosis.devices`; attributed here without it.
        shown: which ranges, threads, streams and strips.
        look: width, font, palette and the rest of what `draw_timeline` takes by name.

    Raises:
        OutputError: another suffix, or the file cannot be written.
        WindowEmpty: nothing of the trace is in the window.
        RangeNotFound: the trace has no such range.
    """
    path = Path(path)
    check_suffix(path)
    part = shown_window(trace, window, within)
    with mpl.rc_context(rc(look.font)):
        save_figure(_figure(trace, part, shown, look, idle), path)


def timeline_png(
    trace: Trace,
    window: tuple[int, int] | Window | None = None,
    *,
    within: str | Window | None = None,
    shown: Shown = Shown(),
    look: Appearance = Appearance(width="page"),
) -> bytes:
    """The timeline as a PNG for the screen, such as a notebook shows; arguments as for `save_timeline`."""
    return png_of(_figure(trace, shown_window(trace, window, within), shown, look))


def _figure(
    trace: Trace, part: Window | None, shown: Shown, look: Appearance, idle: Sequence[DeviceDiagnosis] | None = None
) -> Figure:
    """The timeline as a figure that pyplot knows nothing of."""
    found, edges = lanes(trace, part, shown, idle), edges_of(trace, part)
    with mpl.rc_context(rc(look.font)):
        figure = Figure(figsize=size_in(found, edges, look), layout="constrained")
        paint(figure.add_subplot(), trace, found, edges, look)
    return figure


def size_in(found: Sequence[Lane], window: tuple[int, int], look: Appearance) -> tuple[float, float]:
    """Width and height of a figure for some lanes, in inches."""
    width = WIDTHS_IN[look.width]
    legend = 0.0
    if look.legend:
        with mpl.rc_context(rc(look.font)):
            entries = len(entries_of(found, window, width * _AXES_SHARE, look)) + is_shaded(found, window, look)
        legend = height_in(entries, width)
    return width, total_height(rows_of(found)) * LANE_IN + legend + _AXIS_IN


def paint(  # noqa: PLR0913, PLR0917 - what two figures have in common
    ax: Axes,
    trace: Trace,
    found: Sequence[Lane],
    window: tuple[int, int],
    look: Appearance,
    zero_ns: int | None = None,
    most: int = 0,
    *,
    own_legend: bool = False,
) -> Canvas:
    """Draw lanes and everything that goes with them into some axes; curves up to ``most`` at least.

    Times are shown from ``zero_ns`` on; from the begin of the trace without it. The legend is the figure's, or that of
    the axes.
    """
    canvas = Canvas(ax, found, window, look, DOTS_PER_IN, trace.start_ns if zero_ns is None else zero_ns, most)
    canvas.paint()
    if look.arrows:
        canvas.paint_arrows(arrows_of(trace, *window))
    if look.legend:
        styles = entries_of(found, window, canvas.inches, look)
        add_legend(ax, styles, look, canvas.hatched, shade=is_shaded(found, window, look), own=own_legend)
    return canvas
