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
    Style.KERNEL: "#2F3D52",
    Style.COLLECTIVE: "#9C8FC4",
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
    Style.IDLE: "#F1F2F4",
    Style.OVL000: "#C3C9D2",
    Style.OVL001: "#D55E00",
    Style.OVL002: "#0072B2",
    Style.OVL003: "#56B4E9",
    Style.OVL004: "#E0A91B",
    Style.OVL005: "#F0E442",
    Style.OVL006: "#62627C",
    Style.OVL007: "#481462",
    Style.OVL008: "#44AA99",
    Style.OVL009: "#8C5A2B",
    Style.OVL010: "#B067F0",
    Style.OVL011: "#B0F09A",
    Style.OVL012: "#7A1F3D",
    Style.OVL013: "#4A34F0",
    Style.OVL017: "#16168E",
    Style.OVL018: "#592B0D",
    Style.OVL019: "#692BC4",
    Style.OVL020: "#78A669",
}
"""The colour of each style on a light ground."""
