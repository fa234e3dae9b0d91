"""How timelines look: colours that the colour-blind and a grey printer can tell apart, and sizes for paper.

Hues are of the Okabe-Ito set. Pageable memory is hatched as well as red or orange: it is what one looks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from overlapscope.plot.lanes import Style

Width = Literal["column", "page"]


@dataclass(frozen=True)
class Look:
    """Fill and hatch of a bar. A hatch is drawn in white, and only where a bar is wide enough to show it."""

    color: str
    hatch: str = ""
    height: float = 0.8  # of its lane


LOOKS: dict[Style, Look] = {
    Style.RANGE: Look("#DFE5ED"),
    Style.CALL: Look("#C3CAD4"),
    Style.HELD_COPY: Look("#7A1F3D"),
    Style.HELD_SYNC: Look("#E9D8A6"),
    Style.HELD_OTHER: Look("#A67C52"),
    Style.KERNEL: Look("#9DA9BA"),
    Style.COLLECTIVE: Look("#3B4A63"),
    Style.MEMSET: Look("#5E548E", height=0.5),
    Style.HTOD_PAGEABLE: Look("#D55E00", "//////"),
    Style.HTOD_PINNED: Look("#0072B2"),
    Style.DTOH_PAGEABLE: Look("#E69F00", "\\\\\\\\\\\\"),
    Style.DTOH_PINNED: Look("#56B4E9"),
    Style.COPY_ON_DEVICE: Look("#CC79A7"),
    Style.COPY_OTHER: Look("#F0E442"),
    Style.HIDDEN: Look("#009E73", height=1.0),
    Style.EXPOSED: Look("#111111", height=1.0),
    Style.KERNELS_ONLY: Look("#DDE1E7", height=1.0),
}

WIDTHS_IN: dict[Width, float] = {"column": 3.5, "page": 7.16}
"""Widths of a column and of a page in the usual two-column paper, in inches."""

RC: dict[Any, Any] = {
    "font.size": 7.0,
    "axes.linewidth": 0.5,
    "xtick.major.width": 0.5,
    "hatch.linewidth": 0.5,
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,
    "svg.hashsalt": "overlapscope",  # the same trace gives the same file
}
