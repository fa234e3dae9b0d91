"""The time of each GPU as one stacked bar, with its parts named below."""

from __future__ import annotations

from collections.abc import Iterator

from overlapscope.diagnosis.gpu_time import COLLECTIVES, COPIES, KERNELS, MEMSETS, TimePart
from overlapscope.formatting import share, time
from overlapscope.html.colours import colour_of, swatch
from overlapscope.markup import Html, tag, together
from overlapscope.report.data import Audit, DeviceAudit
from overlapscope.timeline.bars import Style

_WIDTH, _HEIGHT = 1000, 22
_STYLES = {
    KERNELS: Style.KERNEL,
    COLLECTIVES: Style.COLLECTIVE,
    MEMSETS: Style.MEMSET,
    COPIES: Style.EXPOSED,
}


def time_bars(audit: Audit) -> Html:
    """A bar for each GPU; its length is the window."""
    used = [device for device in audit.devices if device.time.total_ns]
    if not used:
        return Html("")
    return together(tag("h2", "GPU time", id="time"), *(_bar(device) for device in used))


def _bar(device: DeviceAudit) -> Html:
    spent = device.time
    parts = spent.largest()
    label = f"{device.key.title}: {time(spent.total_ns)}"
    names = [
        tag(
            "li",
            swatch(_colour(part)),
            f"{part.label} ",
            tag("b", time(part.time_ns)),
            f" {share(part.time_ns, spent.total_ns)}",
        )
        for part in parts
    ]
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    bar = tag(
        "svg", *_rects(parts, spent.total_ns), viewBox=box, preserveAspectRatio="none", role="img", aria_label=label
    )
    return tag("figure", tag("figcaption", label), bar, tag("ul", *names, class_="legend"), class_="time")


def _rects(parts: tuple[TimePart, ...], total_ns: int) -> Iterator[Html]:
    begin = 0.0
    for part in parts:
        width = _WIDTH * part.time_ns / total_ns
        yield tag("rect", x=f"{begin:.2f}", width=f"{width:.2f}", height=_HEIGHT, class_=_colour(part))
        begin += width


def _colour(part: TimePart) -> str:
    code = part.key.removeprefix("idle_")[:6]
    named = Style.__members__.get(code, Style.IDLE) if part.key.startswith("idle_") else Style.IDLE
    return colour_of(_STYLES.get(part.key, named))
