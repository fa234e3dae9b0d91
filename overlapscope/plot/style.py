"""How timelines look: sizes for paper, fonts, and palettes that the colour-blind and a grey printer can tell apart.

Pageable memory is hatched as well as red or orange: it is what one looks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from overlapscope.timeline.bars import Style
from overlapscope.timeline.colours import COLOURS

Width = Literal["column", "page"]
Font = Literal["sans", "serif"]
Palette = Literal["colour", "grey"]


@dataclass(frozen=True)
class Look:
    """Fill and hatch of a bar. A hatch is drawn in white, and only where a bar is wide enough to show it."""

    color: str
    hatch: str = ""


_RISING, _FALLING = "//////", "\\\\" * 3
_HATCHES = {Style.HTOD_PAGEABLE: _RISING, Style.DTOH_PAGEABLE: _FALLING}
LOOKS: dict[Style, Look] = {style: Look(COLOURS[style], _HATCHES.get(style, "")) for style in Style}
GREYS: dict[Style, Look] = {
    Style.RANGE: Look("#EDEDED"),
    Style.CALL: Look("#DADADA"),
    Style.BLOCKED_BY_COPY: Look("#000000"),
    Style.BLOCKED_BY_SYNC: Look("#B4B4B4", "......"),
    Style.BLOCKED_BY_OTHER: Look("#787878", "||||||"),
    Style.KERNEL: Look("#C6C6C6"),
    Style.COLLECTIVE: Look("#303030", "xxxxxx"),
    Style.MEMSET: Look("#A4A4A4", "------"),
    Style.HTOD_PAGEABLE: Look("#161616", _RISING),
    Style.HTOD_PINNED: Look("#686868"),
    Style.DTOH_PAGEABLE: Look("#3E3E3E", _FALLING),
    Style.DTOH_PINNED: Look("#969696", _FALLING),
    Style.COPY_ON_DEVICE: Look("#808080", "......"),
    Style.COPY_OTHER: Look("#AFAFAF", "++++++"),
    Style.HIDDEN: Look("#A9A9A9", "||||||"),
    Style.EXPOSED: Look("#3A3A3A", "xxxxxx"),
    Style.KERNELS_ONLY: Look("#EAEAEA"),
    Style.QUEUED: Look("#8A8A8A"),
    Style.IDLE: Look("#F2F2F2"),
    Style.OVL000: Look("#DCDCDC", "......"),
    Style.OVL001: Look("#161616", _RISING),
    Style.OVL002: Look("#5A5A5A"),
    Style.OVL003: Look("#9A9A9A", "++++++"),
    Style.OVL004: Look("#B4B4B4", "||||||"),
    Style.OVL005: Look("#383838", "......"),
    Style.OVL006: Look("#7C7C7C", _FALLING),
    Style.OVL007: Look("#2A2A2A", "xxxxxx"),
    Style.OVL008: Look("#CDCDCD"),
    Style.OVL009: Look("#4A4A4A", "------"),
    Style.OVL010: Look("#8C8C8C", "oooooo"),
    Style.OVL011: Look("#E4E4E4", _RISING),
    Style.OVL012: Look("#000000"),
    Style.OVL013: Look("#6A6A6A", "++++++"),
    Style.OVL017: Look("#404040", _FALLING),
}
PALETTES: dict[Palette, dict[Style, Look]] = {"colour": LOOKS, "grey": GREYS}
SHADES: dict[Palette, str] = {"colour": "#FBE3D6", "grey": "#F3F3F3"}
"""Behind the streams of a device while its copies are exposed."""

WIDTHS_IN: dict[Width, float] = {"column": 3.5, "page": 7.16}
"""Widths of a column and of a page in the usual two-column paper, in inches."""

_FONTS: dict[Font, dict[str, Any]] = {
    "sans": {"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]},
    "serif": {"font.family": "STIXGeneral", "font.size": 8.0},  # looks like Times, and comes with matplotlib
}
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
    """Settings of matplotlib for a figure in one of the fonts."""
    return _RC | _FONTS[font]


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
