"""Colours of bars on a page, as variables of its style: the figures' own, others where the page is dark."""

from __future__ import annotations

from overlapscope.markup import Html, tag
from overlapscope.timeline.bars import Style
from overlapscope.timeline.colours import COLOURS

_DARK = {
    Style.RANGE: "#36414F",
    Style.CALL: "#66758A",
    Style.BLOCKED_BY_COPY: "#C64A79",
    Style.KERNEL: "#8392A6",
    Style.COLLECTIVE: "#5F7BB3",
    Style.MEMSET: "#8F83C9",
    Style.HTOD_PINNED: "#2F8FD8",
    Style.EXPOSED: "#F4F4F4",
    Style.KERNELS_ONLY: "#3A4452",
    Style.IDLE: "#2A313C",
    Style.OVL000: "#4A5362",
    Style.OVL002: "#2F8FD8",
    Style.OVL007: "#8A4FB0",
    Style.OVL009: "#B07A45",
    Style.OVL012: "#C64A79",
    Style.OVL013: "#7A68FF",
    Style.OVL017: "#3F5FD8",
    Style.OVL018: "#8F5A34",
    Style.OVL019: "#8F62E0",
}


def colour_of(style: Style) -> str:
    """The class of what has a style's colour; ``--`` before it is the variable."""
    return f"bar-{list(Style).index(style)}"


def swatch(colour: str) -> Html:
    """A box of a colour, for legends."""
    box = tag("rect", width="11", height="8", class_=colour)
    return tag("svg", box, viewBox="0 0 11 8", aria_hidden="true")


def colour_rules() -> str:
    """CSS that defines them all."""
    light = "".join(f"--{colour_of(style)}:{COLOURS[style]};" for style in Style)
    dark = "".join(f"--{colour_of(style)}:{color};" for style, color in _DARK.items())
    fills = "".join(f".{colour_of(style)}{{fill:var(--{colour_of(style)})}}" for style in Style)
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root:not([data-print]){{{dark}}}}}{fills}"
