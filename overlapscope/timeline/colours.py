"""Colours of bars, the same in figures and in reports.

Hues are of the Okabe-Ito set, or near: the colour-blind can tell apart what shares a lane.
"""

from __future__ import annotations

from overlapscope.timeline.bars import Style

COLOURS = {
    Style.RANGE: "#DFE5ED",
    Style.CALL: "#93A0B2",
    Style.BLOCKED_BY_COPY: "#7A1F3D",
    Style.BLOCKED_BY_SYNC: "#E9D8A6",
    Style.BLOCKED_BY_OTHER: "#A67C52",
    Style.KERNEL: "#B9C2CF",
    Style.COLLECTIVE: "#3B4A63",
    Style.MEMSET: "#5E548E",
    Style.HTOD_PAGEABLE: "#D55E00",
    Style.HTOD_PINNED: "#0072B2",
    Style.DTOH_PAGEABLE: "#C17A00",
    Style.DTOH_PINNED: "#56B4E9",
    Style.COPY_ON_DEVICE: "#CC79A7",
    Style.COPY_OTHER: "#F0E442",
    Style.HIDDEN: "#009E73",
    Style.EXPOSED: "#111111",
    Style.KERNELS_ONLY: "#DDE1E7",
    Style.QUEUED: "#7C8AA0",
}
"""The colour of each style on a light ground."""
