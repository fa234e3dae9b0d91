"""What a figure's colours stand for, below it: those that cover some of it and are not explained in a bar."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from overlapscope.measure.spans import union
from overlapscope.plot.style import PALETTES, SHADES, Appearance
from overlapscope.plot.texts import texts_in
from overlapscope.timeline.bars import Lane, LaneKind, Style

ROW_IN = 0.135
"""Height of a row."""
_COLUMN_IN = 1.65
_LEAST_SHARE = 0.005  # of the width: what covers less than that of every lane is not explained
_SIZE = 6.0  # points


def entries_of(found: Sequence[Lane], window: tuple[int, int], inches: float, look: Appearance) -> list[Style]:
    """The styles that need an entry, in the order of their declaration, for axes some inches wide."""
    said = {
        text.style
        for lane in found
        for text in texts_in(lane, window, inches, shorten=look.kernel_names)
        if text.explains
    }
    seen = {bars.style for lane in found for bars in lane.bars if _share(lane, bars.style, window) >= _LEAST_SHARE}
    seen |= {Style.QUEUED for lane in found if lane.curve is not None}
    return [style for style in Style if style in seen - said - {Style.RANGE}]


def is_shaded(found: Sequence[Lane], window: tuple[int, int], look: Appearance) -> bool:
    """Whether the shade behind streams while copies are exposed can be seen."""
    strips = [lane for lane in found if lane.kind is LaneKind.OVERLAP]
    return look.exposed and any(
        _share(strip, Style.EXPOSED, window) >= _LEAST_SHARE and any(is_stream_of(lane, strip) for lane in found)
        for strip in strips
    )


def is_stream_of(lane: Lane, strip: Lane) -> bool:
    """Whether a lane is a stream of a strip's device."""
    return lane.kind is LaneKind.STREAM and lane.place[:2] == strip.place


def height_in(entries: int, width_in: float) -> float:
    """The height of a legend below a figure of some width."""
    return -(-entries // _columns(width_in)) * ROW_IN


def add_legend(
    ax: Axes,
    styles: Sequence[Style],
    look: Appearance,
    hatched: Collection[Style],
    *,
    shade: bool,
    own: bool = False,
) -> None:
    """Put a legend of some styles below the figure, hatched where they are, and of the shade.

    With ``own`` it belongs to the axes, and is below these.
    """
    looks = PALETTES[look.palette]
    handles = [
        Patch(
            facecolor=looks[style].color,
            hatch=looks[style].hatch if style in hatched else None,
            edgecolor=looks[style].hatch_color if style in hatched else "none",
            linewidth=0,
            label=style.value,
        )
        for style in styles
    ]
    if shade:
        handles.append(Patch(facecolor=SHADES[look.palette], edgecolor="none", label="no kernel, copy exposed"))
    if not handles or not isinstance(ax.figure, Figure):
        return
    width = ax.get_window_extent().width / ax.figure.dpi if own else ax.figure.get_figwidth()
    place: dict[str, Any] = {"loc": "outside lower center"}
    if own:
        tight, dots = ax.get_tightbbox(), ax.figure.dpi
        below_in = 0.0 if tight is None else (tight.y0 - ax.get_window_extent().y0) / dots  # of labels of the axis
        under = ax.transAxes + ScaledTranslation(0, below_in, ax.figure.dpi_scale_trans)
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": under, "borderaxespad": 0.3}
    (ax if own else ax.figure).legend(
        handles=handles,
        **place,
        ncols=_columns(width),
        frameon=False,
        fontsize=_SIZE,
        handlelength=1.2,
        handleheight=0.8,
        columnspacing=1.0,
        labelspacing=0.25,
        borderpad=0.1,
    )


def _columns(width_in: float) -> int:
    return max(1, int(width_in / _COLUMN_IN))


def _share(lane: Lane, style: Style, window: tuple[int, int]) -> float:
    """The part of a window that a style covers in a lane."""
    spans = [union(bars.start_ns, bars.end_ns) for bars in lane.bars if bars.style is style]
    return sum(entry.total_ns for entry in spans) / max(window[1] - window[0], 1)
