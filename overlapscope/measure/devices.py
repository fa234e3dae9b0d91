"""Measure the activity of each device: when kernels, copies and memsets ran, and where they overlapped."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.grouping import each_value
from overlapscope.measure.spans import EMPTY, Spans, at_depth, intersect, merge, spans_of, subtract
from overlapscope.measure.windows import Window
from overlapscope.model.columns import NO_ID, Bool, Int32
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace

_COLLECTIVE = re.compile(r"nccl|rccl|msccl", re.IGNORECASE)


@dataclass(frozen=True)
class DeviceKey:
    """A device of one process. Device 0 of two processes may be two devices."""

    process: int
    device: int

    @property
    def title(self) -> str:
        """The device as text, such as ``GPU 0``."""
        return "GPU ?" if self.device == NO_ID else f"GPU {self.device}"

    def rows(self, table: DeviceWork) -> Bool:
        """Which rows of a table belong to this device."""
        rows: Bool = (table.process == self.process) & (table.device == self.device)
        return rows


@dataclass(frozen=True, eq=False)
class Activity:
    """When a device ran kernels, copies and memsets: unions over all its streams, clipped to the window.

    ``extent`` is the analysed time, which is either busy or idle. For a range it is the range; for a whole trace it
    goes from the device's first work to its last.
    """

    key: DeviceKey
    extent: Spans
    kernels: Spans
    compute: Spans
    collectives: Spans
    copies: Spans
    memsets: Spans
    kernel_concurrency: Spans
    copy_concurrency: Spans

    @property
    def busy(self) -> Spans:
        """Time with a kernel, a copy or a memset."""
        return merge(self.kernels, self.copies, self.memsets)

    @property
    def overlap(self) -> Spans:
        """Time in which a copy and a kernel run concurrently."""
        return intersect(self.kernels, self.copies)

    @property
    def span_ns(self) -> int:
        """Length of the extent."""
        return self.extent.total_ns

    @property
    def idle(self) -> Spans:
        """Time of the extent with no kernel, copy or memset."""
        return subtract(self.extent, self.busy)

    @property
    def exposed_collectives(self) -> Spans:
        """Time with a collective kernel and no other kernel."""
        return subtract(self.collectives, self.compute)

    @property
    def hidden_fraction(self) -> float | None:
        """Share of the copy time that overlaps a kernel; None without copies or without kernels."""
        if not self.copies.total_ns or not self.kernels.total_ns:
            return None
        return self.overlap.total_ns / self.copies.total_ns


def device_keys(trace: Trace, window: Window | None = None) -> list[DeviceKey]:
    """Every device with work in the trace, sorted; with a window, those that it is about."""
    pairs = {
        (process, device)
        for table in trace.device_work
        for process, rows in each_value(table.process)
        for device in np.unique(table.device[rows]).tolist()
    }
    only = None if window is None else window.device
    return [DeviceKey(*pair) for pair in sorted(pairs) if only is None or pair[1] == only]


def activity(trace: Trace, key: DeviceKey, window: Window) -> Activity:
    """The activity of the device ``key`` within ``window``."""
    within = window.of(key.process)
    kernels, copies, memsets = (table.take(key.rows(table)) for table in trace.device_work)
    collective = is_collective(trace, kernels.name_id)
    busy = merge(*(spans_of(table) for table in (kernels, copies, memsets)))

    def clipped(spans: Spans) -> Spans:
        return intersect(spans, within)

    return Activity(
        key=key,
        extent=within if window.name is not None else clipped(Spans(busy.start_ns[:1], busy.end_ns[-1:])),
        kernels=clipped(spans_of(kernels)),
        compute=clipped(spans_of(kernels, ~collective)),
        collectives=clipped(spans_of(kernels, collective)),
        copies=clipped(spans_of(copies)),
        memsets=clipped(spans_of(memsets)),
        kernel_concurrency=clipped(at_depth(kernels.start_ns, kernels.end_ns, 2)),
        copy_concurrency=clipped(at_depth(copies.start_ns, copies.end_ns, 2)),
    )


def without_kernels(active: Activity) -> Spans:
    """Time of the extent in which no kernel ran; none in a window without kernels, where nothing could have waited."""
    return subtract(active.extent, active.kernels) if len(active.kernels) else EMPTY


def is_collective(trace: Trace, name_id: Int32) -> Bool:
    """Which kernels are collectives (NCCL, RCCL, MSCCL), by their names."""
    return np.isin(
        name_id, [number for number in np.unique(name_id).tolist() if _COLLECTIVE.search(trace.names[number])]
    )
