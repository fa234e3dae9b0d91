"""Draw a trace's lanes with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from overlapscope.errors import OutputError
from overlapscope.model.columns import Bool
from overlapscope.model.trace import Trace
from overlapscope.plot.lanes import Bars, Lane, LaneKind, Style, binned, for_pixels, lanes, work_window
from overlapscope.plot.style import LOOKS, RC, WIDTHS_IN, Width
from overlapscope.words import safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Window = tuple[int, int]
Place = tuple[float, float]
"""Centre and height of bars on the y axis."""

_DOTS_PER_IN = 300  # of pixel files; nothing finer is drawn in vector files either
_LANE_IN = 0.17
_LEGEND_ROW_IN = 0.14
_AXIS_IN = 0.42
_GROUP_GAP = 0.45  # lanes of free space between groups
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SUFFIXES = (".png", ".svg", ".pdf")
_CHAR_IN = 0.062  # width of a character of the small font
_HEIGHTS = {
    LaneKind.RANGES: 0.85,
    LaneKind.THREAD: 1.0,
    LaneKind.STREAM: 1.0,
    LaneKind.OVERLAP: 0.75,
    LaneKind.NOTE: 0.8,
}
_HATCH_IN = 0.04  # width from which on a bar can show a hatch
_SHORTEST_NAME = 4  # characters of a name that still say something
_SLIGHT = 0.4  # height, of its lane, of a mark for bars too thin to draw


def draw_timeline(
    trace: Trace,
    window: Window | None = None,
    *,
    ax: Axes | None = None,
    width: Width = "column",
    legend: bool = True,
) -> Axes:
    """Draw the per-stream timeline of ``trace``.

    Args:
        trace: any trace.
        window: (start, end) in ns on the trace's clock; without one, from the first call that issues device
            work to the end of that work.
        ax: axes to draw into; made, in a figure of the right size, without one.
        width: ``"column"`` (3.5 in) or ``"page"`` (7.16 in) of a two-column paper, for a figure made here.
        legend: whether to put a legend below the figure.

    Returns:
        The axes. The time axis starts at 0 at the window's start.
    """
    window = window or work_window(trace)
    shown = lanes(trace, window)
    with mpl.rc_context(RC):
        if ax is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=size_in(shown, width), layout="constrained")
            ax = figure.add_subplot()
        _draw(ax, shown, window)
        if legend:
            add_legend(ax, shown)
    return ax


def save_timeline(trace: Trace, path: str | Path, window: Window | None = None, *, width: Width = "column") -> None:
    """Write the timeline to ``path``; ``.png``, ``.svg`` or ``.pdf`` by its suffix.

    Raises:
        OutputError: another suffix, or the file cannot be written.
    """
    path = Path(path)
    check_suffix(path)
    window = window or work_window(trace)
    shown = lanes(trace, window)
    with mpl.rc_context(RC):
        figure = Figure(figsize=size_in(shown, width), layout="constrained")
        ax = figure.add_subplot()
        _draw(ax, shown, window)
        add_legend(ax, shown)
        try:
            figure.savefig(path, dpi=_DOTS_PER_IN, metadata=undated(path))
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def check_suffix(path: Path) -> None:
    """Raise `OutputError` when a timeline cannot be written to a file of this name."""
    if path.suffix.lower() not in _SUFFIXES:
        raise OutputError(f"{path}: cannot draw to {path.suffix or 'a file without suffix'}; use .png, .svg or .pdf")


def undated(path: Path) -> dict[str, Any] | None:
    """No date in the file, so that the same trace gives the same bytes."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())


def size_in(shown: Sequence[Lane], width: Width) -> tuple[float, float]:
    """Width and height of a figure for some lanes, in inches."""
    columns = _legend_columns(WIDTHS_IN[width])
    legend = -(-len(_styles(shown)) // columns) * _LEGEND_ROW_IN
    return WIDTHS_IN[width], _total_height(shown) * _LANE_IN + legend + _AXIS_IN


def _legend_columns(width_in: float) -> int:
    return max(1, int(width_in / 1.6))


def _styles(shown: Sequence[Lane]) -> list[Style]:
    """The styles that need an entry in the legend, in the order of their declaration."""
    used = {bars.style for lane in shown for bars in lane.bars}
    return [style for style in Style if style in used and style is not Style.RANGE]


def _total_height(shown: Sequence[Lane]) -> float:
    return sum(height for _, height in _rows(shown)) + _GROUP_GAP


def _rows(shown: Sequence[Lane]) -> list[tuple[Lane, float]]:
    """Each lane with its height, the gap above a new group included."""
    rows = []
    for index, lane in enumerate(shown):
        new_group = index > 0 and shown[index - 1].group != lane.group
        rows.append((lane, _HEIGHTS[lane.kind] + (_GROUP_GAP if new_group else 0.0)))
    return rows


def _draw(ax: Axes, shown: Sequence[Lane], window: Window) -> None:
    first, last = window
    scale, unit = next((s, u) for s, u in _UNITS if last - first >= s or u == "ns")
    pixels = max(1, round(ax.get_window_extent().width / ax.figure.dpi * _DOTS_PER_IN))
    bottom = -_total_height(shown)
    ticks, top = [], 0.0
    for lane, height in _rows(shown):
        own = _HEIGHTS[lane.kind]
        centre = top - (height - own) - own / 2
        if lane.kind is LaneKind.OVERLAP:
            _draw_strip(ax, lane, (centre, own), window, scale, pixels)
        else:
            for bars in lane.bars:
                full, slight = for_pixels(bars, first, last, pixels)
                _draw_bars(ax, full, (centre, own), window, scale)
                _draw_bars(ax, slight, (centre - own * _SLIGHT / 2, own * _SLIGHT), window, scale)
        if lane.kind is LaneKind.RANGES:
            _label_ranges(ax, lane, centre, window, scale)
        ticks.append((centre, lane))
        top -= height
    ax.set_xlim(0, max(last - first, 1) / scale)
    ax.set_ylim(bottom, _GROUP_GAP / 2)
    ax.set_xlabel(f"time ({unit})", labelpad=1)
    _label_lanes(ax, ticks)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="x", length=2, pad=2)


def _draw_strip(ax: Axes, lane: Lane, place: Place, window: Window, scale: float, pixels: int) -> None:
    """The overlap strip: each pixel by what fills most of it, and copies that fill less of it as low marks."""
    centre, height = place
    main, minor = binned(lane, *window, pixels)
    for bars in main.bars:
        _draw_bars(ax, bars, place, window, scale)
    for bars in minor.bars:
        if bars.style is not Style.KERNELS_ONLY:
            _draw_bars(ax, bars, (centre - height * (1 - _SLIGHT) / 2, height * _SLIGHT), window, scale)


def _draw_bars(ax: Axes, bars: Bars, place: Place, window: Window, scale: float) -> None:
    if not len(bars.start_ns):
        return
    look = LOOKS[bars.style]
    wide_ns = _HATCH_IN * (window[1] - window[0]) / (ax.get_window_extent().width / ax.figure.dpi)
    wide = bars.end_ns - bars.start_ns >= wide_ns
    framed = bars.style is Style.RANGE or bool(look.hatch)
    # White edges and hatches would erase what is thinner than they are.
    for rows, frame in ((wide, framed), (~wide, False)):
        if rows.any():
            corners = _corners(bars, rows, place, look.height, window[0], scale)
            ax.add_collection(
                PolyCollection(
                    corners,
                    facecolor=look.color,
                    edgecolor="white" if frame else "none",
                    linewidth=0.3 if frame else 0.0,
                    hatch=look.hatch if frame and look.hatch else None,
                )
            )


def _corners(bars: Bars, rows: Bool, place: Place, share: float, first: int, scale: float) -> list[Any]:
    centre, height = place
    left, right = (bars.start_ns[rows] - first) / scale, (bars.end_ns[rows] - first) / scale
    low, high = np.full(len(left), centre - share * height / 2), np.full(len(left), centre + share * height / 2)
    return list(np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(-1, 4, 2))


def _label_ranges(ax: Axes, lane: Lane, centre: float, window: Window, scale: float) -> None:
    """Write a range's name into its bar where there is room for it."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    per_ns = inches / max(window[1] - window[0], 1)
    for bars in lane.bars:
        for start, end, name in zip(bars.start_ns.tolist(), bars.end_ns.tolist(), bars.labels, strict=False):
            room = int((end - start) * per_ns / _CHAR_IN)
            text = safe(name, room) if room >= _SHORTEST_NAME else ""
            if text:
                middle = ((start + end) / 2 - window[0]) / scale
                ax.text(middle, centre, text, ha="center", va="center", fontsize=5.5, clip_on=True, parse_math=False)


def _label_lanes(ax: Axes, ticks: Sequence[tuple[float, Lane]]) -> None:
    ax.set_yticks([centre for centre, _ in ticks], [safe(lane.title, 24) for _, lane in ticks])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.tick_params(axis="y", length=0, pad=2)


def add_legend(ax: Axes, shown: Sequence[Lane]) -> None:
    """Put a legend of all styles that some lanes use below the figure."""
    handles = [
        Patch(
            facecolor=look.color,
            hatch=look.hatch or None,
            edgecolor="white" if look.hatch else "none",
            label=style.value,
        )
        for style in _styles(shown)
        for look in (LOOKS[style],)
    ]
    if not handles or not isinstance(ax.figure, Figure):
        return
    ax.figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=_legend_columns(ax.figure.get_figwidth()),
        frameon=False,
        fontsize=6,
        handlelength=1.2,
        handleheight=0.8,
        columnspacing=1.0,
        labelspacing=0.25,
        borderpad=0.1,
    )
