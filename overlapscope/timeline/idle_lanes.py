"""Lanes that say why each GPU was idle: its idle time by the finding that it is attributed to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.measure.spans import union
from overlapscope.model.columns import Int64
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Bars, Lane, LaneKind, Style
from overlapscope.timeline.places import device_titles
from overlapscope.timeline.shown import Shown


def idle_lanes(trace: Trace, window: tuple[int, int], shown: Shown, found: Sequence[DeviceDiagnosis]) -> Iterator[Lane]:
    """A lane for each device, with its idle time by rule; with labels, each bar is named by its cause.

    Time in which the device worked, or followed its queue without delay, is empty.
    """
    titles = device_titles(trace)
    for device in found:
        bars = tuple(_bars(device, window, labels=shown.labels))
        if bars:
            place = (device.key.process, device.key.device)
            yield Lane(LaneKind.WHY_IDLE, "why idle", titles[device.key], bars, place=place)


def idle_styles(device: DeviceDiagnosis) -> list[Style]:
    """The style of each idle interval of a device, by the rule that it is attributed to."""
    styles = _style_of_reason(device)
    return [styles[reason] for reason in device.reason.tolist()]


def _style_of_reason(device: DeviceDiagnosis) -> list[Style]:
    """By the index of the rule; the last one is for time without any, whose index is -1."""
    return [*(Style[code] if code in Style.__members__ else Style.IDLE for code in device.codes), Style.IDLE]


def _bars(device: DeviceDiagnosis, window: tuple[int, int], *, labels: bool) -> Iterator[Bars]:
    """Idle time within a window by style; neighbours of one style are one bar, unless each names its cause."""
    start, end = (np.clip(edge, *window) for edge in (device.idle.start_ns, device.idle.end_ns))
    order, label_of = list(Style), {cause.value: cause.label for cause in Cause}
    styles = np.array([order.index(style) for style in _style_of_reason(device)])[device.reason]
    for number, style in enumerate(order):
        mine: Int64 = np.flatnonzero((styles == number) & (end > start))
        if not len(mine):
            continue
        if labels:
            causes = tuple(label_of[cause] for cause in device.idle.cause[mine].tolist())
            yield Bars(style, start[mine], end[mine], causes)
        else:
            spans = union(start[mine], end[mine])
            yield Bars(style, spans.start_ns, spans.end_ns)
