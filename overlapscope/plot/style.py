"""How timelines look, and files of figures: sizes for paper, fonts, and two palettes.

The colour-blind can tell the colours apart, a grey printer the greys. Copies of pageable memory, which one looks for,
are hatched as well as red or orange.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from overlapscope.atomic_files import writing
from overlapscope.errors import OutputError
from overlapscope.formatting import changed
from overlapscope.timeline.bars import Style

Width = Literal["column", "page"]
Font = Literal["sans", "serif"]
Palette = Literal["colour", "grey"]
Clock = Literal["window", "trace"]


@dataclass(frozen=True)
class Look:
    """Fill and hatch of a bar. A hatch is drawn only where a bar is wide enough to show it."""

    color: str
    hatch: str = ""
    hatch_color: str = "white"


_HATCHED = (Style.HTOD_PAGEABLE, Style.DTOH_PAGEABLE)
_HATCH_COLOR = "#7A3600"  # darker than the bars: white lines would take a part of them away
_LIGHT = "#B0B0B0"  # from which on a hatch is dark
LOOKS: dict[Style, Look] = {
    style: Look(style.colour, style.hatch if style in _HATCHED else "", _HATCH_COLOR) for style in Style
}
GREYS: dict[Style, Look] = {
    style: Look(style.grey, style.hatch, "white" if style.grey < _LIGHT else "#404040") for style in Style
}
PALETTES: dict[Palette, dict[Style, Look]] = {"colour": LOOKS, "grey": GREYS}
SHADES: dict[Palette, str] = {"colour": "#FBE3D6", "grey": "#F7F7F7"}
"""Behind the streams of a device while its copies are exposed."""

WIDTHS_IN: dict[Width, float] = {"column": 3.5, "page": 7.16}
"""Widths of a column and of a page in a two-column paper, in inches."""
DOTS_PER_IN = 300
"""Resolution of pixel files; nothing finer is drawn in vector files either."""
SCREEN_DOTS_PER_IN = 110
"""Resolution of a figure that a screen shows."""
_SUFFIXES = (".png", ".svg", ".pdf")

SANS = ("Liberation Sans", "Arial", "DejaVu Sans")
"""Fonts that papers want, by preference; the last one comes with matplotlib."""
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
    """The settings of a figure except its content; see `overlapscope.draw_timeline`."""

    width: Width = "column"
    font: Font = "sans"
    palette: Palette = "colour"
    legend: bool = True
    arrows: bool = False
    scale_bar: bool = False
    exposed: bool = True
    kernel_names: bool = False
    codes: bool = False
    clock: Clock = "window"

    __repr__ = changed


def check_suffix(path: Path) -> None:
    """Raise `OutputError` when a figure cannot be written to a file of this name."""
    if path.suffix.lower() not in _SUFFIXES:
        raise OutputError(f"{path}: cannot draw to {path.suffix or 'a file without suffix'}; use .png, .svg or .pdf")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure, without a date: the same figure gives the same bytes.

    Raises:
        OutputError: the file cannot be written.
    """
    kind = path.suffix.lower()[1:]
    undated: dict[str, Any] | None = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with writing(path) as file:
        figure.savefig(file, format=kind, dpi=DOTS_PER_IN, metadata=undated)


def png_of(figure: Figure) -> bytes:
    """A figure as a PNG for the screen."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=SCREEN_DOTS_PER_IN)
    return file.getvalue()
