"""A window before a change above the same window after it, measured or predicted, on one scale of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from overlapscope.comparison.result import Comparison
from overlapscope.comparison.views import views_of
from overlapscope.formatting import safe
from overlapscope.plot.files import check_suffix, png_of, save_figure
from overlapscope.plot.legend import add_legend, entries_of, is_shaded
from overlapscope.plot.style import Appearance, rc
from overlapscope.plot.timeline import paint, size_in
from overlapscope.timeline.bars import Style
from overlapscope.timeline.comparison import View, of_prediction
from overlapscope.timeline.pixels import deepest
from overlapscope.timeline.shown import Shown
from overlapscope.whatif.prediction import Prediction

_TITLE_IN = 0.2


def save_before_after(
    shown_of: Prediction | Comparison, path: str | Path, *, shown: Shown = Shown(), look: Appearance = Appearance()
) -> None:
    """Write the two timelines to ``path``; ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    Raises:
        OutputError: another suffix, or the file cannot be written.
    """
    path = Path(path)
    check_suffix(path)
    with mpl.rc_context(rc(look.font)):
        save_figure(before_after(shown_of, shown=shown, look=look), path)


def before_after_png(
    shown_of: Prediction | Comparison, *, shown: Shown = Shown(), look: Appearance = Appearance(width="page")
) -> bytes:
    """The two timelines as a PNG for the screen, such as a notebook shows."""
    return png_of(before_after(shown_of, shown=shown, look=look))


def before_after(
    shown_of: Prediction | Comparison, *, shown: Shown = Shown(), look: Appearance = Appearance()
) -> Figure:
    """The two timelines of a prediction, or of the typical traces of a comparison, as one figure."""
    views = views_of(shown_of) if isinstance(shown_of, Comparison) else of_prediction(shown_of)
    return stacked(views, shown=shown, look=look)


def stacked(views: Sequence[View], *, shown: Shown = Shown(), look: Appearance = Appearance()) -> Figure:
    """Several stretches, each under its label, above one another on one scale of time."""
    found = [view.lanes(shown) for view in views]
    most = max(deepest(entry, *view.window) for entry, view in zip(found, views, strict=True))
    sizes = [size_in(entry, view.window, look) for entry, view in zip(found, views, strict=True)]
    heights = [height for _, height in sizes]
    with mpl.rc_context(rc(look.font)):
        figure = Figure(figsize=(sizes[0][0], sum(heights) + len(views) * _TITLE_IN), layout="constrained")
        axes = figure.subplots(len(views), 1, height_ratios=heights, squeeze=False)[:, 0]
        hatched: set[Style] = set()
        styles: set[Style] = set()
        shade = False
        for ax, view, entry in zip(axes, views, found, strict=True):
            canvas = paint(ax, view.trace, entry, view.window, replace(look, legend=False), view.first_ns, most)
            hatched |= canvas.hatched
            styles |= set(entries_of(entry, view.window, canvas.inches, look))
            shade |= is_shaded(entry, view.window, look)
            ax.set_title(safe(view.label), loc="left", fontsize=mpl.rcParams["font.size"], pad=3)
        for ax in axes[:-1]:  # the lowest one's axis is for all
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
        if look.legend:
            add_legend(axes[-1], [style for style in Style if style in styles], look, hatched, shade=shade)
    return figure
