"""A timeline in axes that somebody else made: titles of lanes and the legend find room there."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

_EDGE_IN = 0.05  # free at the edges of the figure


def fit(ax: Axes) -> None:
    """Make axes smaller until all that belongs to them is inside the figure, and off its other axes.

    Where the figure has a layout engine, that does it when the figure is drawn.
    """
    figure = ax.figure
    if not isinstance(figure, Figure) or figure.get_layout_engine() is not None:
        return
    tight = ax.get_tightbbox()
    if tight is None:
        return
    needed, mine, least = figure.transFigure.inverted().transform_bbox(tight), ax.get_position(), _least(ax, figure)
    left, bottom = max(least.x0 - needed.x0, 0.0), max(least.y0 - needed.y0, 0.0)
    ax.set_position((mine.x0 + left, mine.y0 + bottom, max(mine.width - left, 0.05), max(mine.height - bottom, 0.05)))


def _least(ax: Axes, figure: Figure) -> Bbox:
    """The left and lower ends of the room of axes: half way to what is there, or the edge of the figure."""
    mine, edge = ax.get_position(), (_EDGE_IN / figure.get_figwidth(), _EDGE_IN / figure.get_figheight())
    others = [other.get_position() for other in figure.axes if other is not ax]
    left = [box.x1 for box in others if box.x1 <= mine.x0 and box.y0 < mine.y1 and box.y1 > mine.y0]
    below = [box.y1 for box in others if box.y1 <= mine.y0 and box.x0 < mine.x1 and box.x1 > mine.x0]
    x0 = (max(left) + mine.x0) / 2 if left else edge[0]
    y0 = (max(below) + mine.y0) / 2 if below else edge[1]
    return Bbox.from_extents(x0, y0, mine.x1, mine.y1)
