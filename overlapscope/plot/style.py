"""How timelines look: sizes for paper, fonts, and palettes that the colour-blind and a grey printer can tell apart.

Pageable memory is hatched as well as red or orange: it is what one looks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.font_manager import fontManager

from overlapscope.formatting import changed
from overlapscope.timeline.bars import Style
from overlapscope.timeline.colours import COLOURS

Width = Literal["column", "page"]
Font = Literal["sans", "serif"]
Palette = Literal["colour", "grey"]


@dataclass(frozen=True)
class Look:
    """Fill and hatch of a bar. A hatch is drawn only where a bar is wide enough to show it."""

    color: str
    hatch: str = ""
    hatch_color: str = "white"


_RISING, _FALLING = "//////", "\\\\" * 3
_HATCHES = {Style.HTOD_PAGEABLE: _RISING, Style.DTOH_PAGEABLE: _FALLING}
_HATCH_COLOR = "#7A3600"  # darker than the bars: white lines would take a part of them away
LOOKS: dict[Style, Look] = {style: Look(COLOURS[style], _HATCHES.get(style, ""), _HATCH_COLOR) for style in Style}
GREYS: dict[Style, Look] = {
    Style.RANGE: Look("#EDEDED"),
    Style.CALL: Look("#CFCFCF"),
    Style.BLOCKED_BY_COPY: Look("#000000"),
    Style.BLOCKED_BY_SYNC: Look("#ACACAC", "......"),
    Style.BLOCKED_BY_OTHER: Look("#6A6A6A", "||||||"),
    Style.KERNEL: Look("#4C4C4C"),
    Style.COLLECTIVE: Look("#7A7A7A", "xxxxxx"),
    Style.MEMSET: Look("#AFAFAF", "------"),
    Style.HTOD_PAGEABLE: Look("#000000", _RISING),
    Style.HTOD_PINNED: Look("#989898"),
    Style.DTOH_PAGEABLE: Look("#242424", _FALLING),
    Style.DTOH_PINNED: Look("#C2C2C2", _FALLING),
    Style.COPY_ON_DEVICE: Look("#8A8A8A", "......"),
    Style.COPY_OTHER: Look("#B4B4B4", "++++++"),
    Style.HIDDEN: Look("#9A9A9A", "||||||"),
    Style.EXPOSED: Look("#1A1A1A", "xxxxxx"),
    Style.KERNELS_ONLY: Look("#E2E2E2"),
    Style.QUEUED: Look("#8A8A8A"),
    Style.IDLE: Look("#F4F4F4"),
    Style.OVL000: Look("#E4E4E4"),
    Style.OVL001: Look("#1A1A1A", _RISING),
    Style.OVL002: Look("#7E7E7E"),
    Style.OVL003: Look("#969696", "++++++"),
    Style.OVL004: Look("#A8A8A8", "||||||"),
    Style.OVL005: Look("#3A3A3A", "......"),
    Style.OVL006: Look("#6E6E6E", _FALLING),
    Style.OVL007: Look("#262626", "xxxxxx"),
    Style.OVL008: Look("#C6C6C6"),
    Style.OVL009: Look("#5A5A5A", "------"),
    Style.OVL010: Look("#8C8C8C", "oooooo"),
    Style.OVL011: Look("#D6D6D6"),
    Style.OVL012: Look("#000000"),
    Style.OVL013: Look("#646464", "++++++"),
    Style.OVL017: Look("#484848", _FALLING),
    Style.OVL018: Look("#5A5A5A", "||||||"),
    Style.OVL019: Look("#262626", "......"),
    Style.OVL020: Look("#B8B8B8", "oooooo"),
}
PALETTES: dict[Palette, dict[Style, Look]] = {"colour": LOOKS, "grey": GREYS}
SHADES: dict[Palette, str] = {"colour": "#FBE3D6", "grey": "#F3F3F3"}
"""Behind the streams of a device while its copies are exposed."""

WIDTHS_IN: dict[Width, float] = {"column": 3.5, "page": 7.16}
"""Widths of a column and of a page in the usual two-column paper, in inches."""

SANS = ("Liberation Sans", "Arial", "DejaVu Sans")
"""What papers want, from the first to the last choice; the last one comes with matplotlib."""
_SERIF: dict[str, Any] = {"font.family": "STIXGeneral", "font.size": 8.0}  # looks like Times, and comes with matplotlib
_RC: dict[str, Any] = {
    "font.size": 7.0,
    "axes.linewidth": 0.5,
    "xtick.major.width": 0.5,
    "hatch.linewidth": 0.5,
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "svg.hashsalt": "overlapscope",  # the same trace gives the same file
}


def rc(font: Font = "sans") -> dict[Any, Any]:
    """Settings of matplotlib for a figure in one of the fonts: of sans serif ones, the first that is installed."""
    if font == "serif":
        return _RC | _SERIF
    installed = {entry.name for entry in fontManager.ttflist}
    first = next((name for name in SANS if name in installed), SANS[-1])
    return _RC | {"font.family": [first, "sans-serif"], "font.sans-serif": list(SANS)}


@dataclass(frozen=True)
class Appearance:
    """Everything about a figure that is not its content; see `overlapscope.draw_timeline`."""

    width: Width = "column"
    font: Font = "sans"
    palette: Palette = "colour"
    legend: bool = True
    arrows: bool = False
    scale_bar: bool = False
    exposed: bool = True
    kernel_names: bool = False

    __repr__ = changed
