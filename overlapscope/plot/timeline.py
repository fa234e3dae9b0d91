"""Timelines as figures: of a trace, or of several stretches above one another on one scale of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from overlapscope.analysis.analysis import Source, analyse
from overlapscope.comparison.document import views_of
from overlapscope.comparison.result import Comparison
from overlapscope.formatting import safe
from overlapscope.measure.windows import Window
from overlapscope.plot.canvas import LANE_IN, Canvas, rows_of, total_height
from overlapscope.plot.labels import Legend
from overlapscope.plot.style import (
    WIDTHS_IN,
    Appearance,
    Clock,
    Font,
    Palette,
    Width,
    check_suffix,
    png_of,
    rc,
    save_figure,
)
from overlapscope.timeline.bars import Lane
from overlapscope.timeline.comparison import View, of_prediction, on_one_scale
from overlapscope.timeline.lanes import arrows as arrows_of
from overlapscope.timeline.pixels import deepest
from overlapscope.timeline.view import Shown, drawn, edges_of
from overlapscope.whatif.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ANY_IN = 2.0  # height of a figure before its legend is known
_AXIS_IN = 0.4
_TITLE_IN = 0.16
_GAP_IN = 0.1  # between panels
_EDGE_IN = 0.05  # free at the edges of the figure


def draw_timeline(  # noqa: PLR0913 - keyword-only settings, each with a default
    source: Source,
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
    codes: bool = False,
    clock: Clock = "window",
) -> Axes:
    """Draw the per-stream timeline of a trace.

    Args:
        source: an opened trace, its path, or an analysis, whose window is drawn where no other is given.
        window: (start, end) in ns on the trace's clock, like all times of tables: add ``trace.start_ns`` to times
            since its begin, which the command line has. Without a window, from the first call that issues device work
            to the end of that work.
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
        codes: name findings by the codes of their rules, as an audit does, instead of in words.
        clock: the time axis starts at 0 with the ``"window"``, or at the begin of the ``"trace"``, from which tables
            and the command line count.

    Returns:
        The axes. The label of the time axis says which clock it has.

    Raises:
        WindowEmpty: nothing of the trace is in the window.
        RangeNotFound: the trace has no such range.
    """
    look = Appearance(width, font, palette, legend, arrows, scale_bar, exposed, kernel_names, codes, clock)
    view = _view(source, window, within, look)
    if ax is None:
        import matplotlib.pyplot as plt

        # Outside of our settings: a notebook's backend starts with the first figure, and makes settings of its own.
        figure = plt.figure(figsize=(WIDTHS_IN[width], _ANY_IN), layout="constrained")
        return _fill(figure, [(view, view.lanes(shown))], look)[0]
    with mpl.rc_context(rc(font)):
        canvas = Canvas(ax, view, view.lanes(shown), look)
        canvas.frame()
        _settle(ax)
        _paint(canvas, view, look)
        if legend:
            Legend(canvas.told, look, canvas.shaded).add(ax, of_axes=True)
        _settle(ax)
    return ax


def save_timeline(
    source: Source,
    path: str | Path,
    window: tuple[int, int] | Window | None = None,
    *,
    within: str | Window | None = None,
    shown: Shown = Shown(),
    look: Appearance = Appearance(),
) -> None:
    """Write the timeline to ``path``; ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    Args:
        source: an opened trace, its path, or an analysis, whose window is drawn where no other is given.
        path: the file.
        window: (start, end) in ns on the trace's clock, as for `draw_timeline`.
        within: the window by the name of a range, as for `draw_timeline`.
        shown: which ranges, threads, streams and strips.
        look: width, font, palette and the rest of what `draw_timeline` takes by name.

    Raises:
        OutputError: another suffix, or the file cannot be written.
        WindowEmpty: nothing of the trace is in the window.
        RangeNotFound: the trace has no such range.
    """
    view = _view(source, window, within, look)
    _save(path, look, lambda: _figure_of([view], shown, look))


def timeline_png(
    source: Source,
    window: tuple[int, int] | Window | None = None,
    *,
    within: str | Window | None = None,
    shown: Shown = Shown(),
    look: Appearance = Appearance(width="page"),
) -> bytes:
    """The timeline as a PNG for the screen, such as a notebook shows; arguments as for `save_timeline`."""
    return png_of(_figure_of([_view(source, window, within, look)], shown, look))


Panels = Iterable[tuple[str, Source]] | Prediction | Comparison
"""Panels of a figure: titles with what they show, or the two sides of a prediction or a comparison."""


def draw_timelines(panels: Panels, *, shown: Shown = Shown(), look: Appearance = Appearance()) -> Figure:
    """Draw several timelines above one another, on one scale of time and with one legend.

    Args:
        panels: pairs of a title and what is drawn below it: an analysis, whose window is drawn, or a trace, opened or
            by its path, with all its device work. Or a `Prediction`, as measured and as predicted; or a `Comparison`,
            the typical traces of its sides. Each panel is as long as the longest, and its time starts at 0.
        shown: which ranges, threads, streams and strips.
        look: width, font, palette and the rest of what `draw_timeline` takes by name.

    Returns:
        The figure, which pyplot knows nothing of: ``figure.savefig("figure.pdf")`` writes it.

    Raises:
        ValueError: there are no panels.
        WindowEmpty: the GPU has no work in a trace.
    """
    views = [replace(view, zero_ns=view.first_ns) for view in _views(panels)]
    return _figure_of(views, shown, replace(look, clock="window"))


def save_timelines(
    panels: Panels, path: str | Path, *, shown: Shown = Shown(), look: Appearance = Appearance()
) -> None:
    """Write the figure of `draw_timelines` to ``path``; ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    Raises:
        OutputError: another suffix, or the file cannot be written.
    """
    _save(path, look, lambda: draw_timelines(panels, shown=shown, look=look))


def timelines_png(panels: Panels) -> bytes:
    """The figure of `draw_timelines` as a PNG for the screen, such as a notebook shows."""
    return png_of(draw_timelines(panels, look=Appearance(width="page")))


def _views(panels: Panels) -> list[View]:
    if isinstance(panels, Prediction):
        return of_prediction(panels)
    if isinstance(panels, Comparison):
        return views_of(panels)
    labelled = [(title, analyse(source)) for title, source in panels]
    if not labelled:
        raise ValueError("no panels to draw")
    return on_one_scale(*labelled)


def _save(path: str | Path, look: Appearance, draw: Callable[[], Figure]) -> None:
    """Draw a figure and write it to a file; nothing is drawn for a file of another suffix."""
    path = Path(path)
    check_suffix(path)
    with mpl.rc_context(rc(look.font)):
        save_figure(draw(), path)


def _view(
    source: Source, window: tuple[int, int] | Window | None, within: str | Window | None, look: Appearance
) -> View:
    analysis, part = drawn(source, window, within)
    first, last = edges_of(analysis.trace, part)
    return View("", analysis, first if look.clock == "window" else analysis.trace.start_ns, first, last)


def _figure_of(views: Sequence[View], shown: Shown, look: Appearance) -> Figure:
    """A figure that pyplot knows nothing of, with the lanes of each view below its label."""
    figure = Figure(figsize=(WIDTHS_IN[look.width], _ANY_IN), layout="constrained")
    _fill(figure, [(view, view.lanes(shown)) for view in views], look)
    return figure


def _fill(figure: Figure, panels: Sequence[tuple[View, Sequence[Lane]]], look: Appearance) -> list[Axes]:
    """Draw lanes below the label of each view, and make the figure as high as they and the legend are."""
    most = max(deepest(lanes, *view.window) for view, lanes in panels)
    heights = [total_height(rows_of(lanes)) * LANE_IN for _, lanes in panels]
    with mpl.rc_context(rc(look.font)):
        every = figure.subplots(len(panels), 1, height_ratios=heights if len(panels) > 1 else None, squeeze=False)
        axes: list[Axes] = list(every[:, 0])
        canvases = [Canvas(ax, view, lanes, look, most) for ax, (view, lanes) in zip(axes, panels, strict=True)]
        for canvas, ax, (view, _) in zip(canvases, axes, panels, strict=True):
            canvas.frame()
            if view.label:
                ax.set_title(safe(view.label), loc="left", fontsize=mpl.rcParams["font.size"], pad=3)
        for ax in axes[:-1]:  # the lowest one's axis is for all
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
        figure.draw_without_rendering()
        for canvas, (view, _) in zip(canvases, panels, strict=True):
            _paint(canvas, view, look)
        styles = set().union(*(canvas.told for canvas in canvases))
        legend = Legend(styles, look, any(canvas.shaded for canvas in canvases))
        width, titles = figure.get_figwidth(), sum(_TITLE_IN for view, _ in panels if view.label)
        below = legend.height_in(width) if look.legend else 0.0
        figure.set_size_inches(width, sum(heights) + titles + _GAP_IN * (len(panels) - 1) + _AXIS_IN + below)
        if look.legend:
            legend.add(axes[-1])
    return axes


def _paint(canvas: Canvas, view: View, look: Appearance) -> None:
    """Paint the lanes of a view, and arrows where they are wanted."""
    canvas.paint()
    if look.arrows:
        canvas.paint_arrows(arrows_of(view.trace, *view.window))


def _settle(ax: Axes) -> None:
    """Make axes smaller until all that belongs to them is inside the figure, and off its other axes.

    Where the figure has a layout engine, that does it.
    """
    figure = ax.figure
    if not isinstance(figure, Figure):
        return
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        return
    tight = ax.get_tightbbox()
    if tight is None:
        return
    needed, now, least = figure.transFigure.inverted().transform_bbox(tight), ax.get_position(), _least(ax, figure)
    left, bottom = max(least.x0 - needed.x0, 0.0), max(least.y0 - needed.y0, 0.0)
    ax.set_position((now.x0 + left, now.y0 + bottom, max(now.width - left, 0.05), max(now.height - bottom, 0.05)))


def _least(ax: Axes, figure: Figure) -> Bbox:
    """The left and lower ends of the room of axes: half way to other axes, or the edge of the figure."""
    now, edge = ax.get_position(), (_EDGE_IN / figure.get_figwidth(), _EDGE_IN / figure.get_figheight())
    others = [other.get_position() for other in figure.axes if other is not ax]
    left = [box.x1 for box in others if box.x1 <= now.x0 and box.y0 < now.y1 and box.y1 > now.y0]
    below = [box.y1 for box in others if box.y1 <= now.y0 and box.x0 < now.x1 and box.x1 > now.x0]
    x0 = (max(left) + now.x0) / 2 if left else edge[0]
    y0 = (max(below) + now.y0) / 2 if below else edge[1]
    return Bbox.from_extents(x0, y0, now.x1, now.y1)
