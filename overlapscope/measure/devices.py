"""What each device did and when: kernels, copies, fills, and their overlap."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.spans import Spans, at_depth, gaps, intersect, merge, subtract, union
from overlapscope.model.columns import Bool, Int32
from overlapscope.model.tables import DeviceWork
from overlapscope.model.trace import Trace

_COLLECTIVE = re.compile(r"nccl|rccl|msccl", re.IGNORECASE)


@dataclass(frozen=True)
class DeviceKey:
    """A device of a process. Two processes may both call theirs 0."""

    process: int
    device: int

    def rows(self, table: DeviceWork) -> Bool:
        """Which rows of a table are this device's."""
        mine: Bool = (table.process == self.process) & (table.device == self.device)
        return mine


@dataclass(frozen=True, eq=False)
class Activity:
    """When a device was busy with what; unions over all its streams, clipped to the window."""

    key: DeviceKey
    kernels: Spans
    compute: Spans
    collectives: Spans
    copies: Spans
    memsets: Spans
    kernel_concurrency: Spans
    copy_concurrency: Spans

    @property
    def busy(self) -> Spans:
        """Time with any work at all."""
        return merge(self.kernels, self.copies, self.memsets)

    @property
    def overlap(self) -> Spans:
        """Time with a copy and a kernel at once."""
        return intersect(self.kernels, self.copies)

    @property
    def span_ns(self) -> int:
        """From the device's first work in the window to its last."""
        busy = self.busy
        return int(busy.end_ns[-1] - busy.start_ns[0]) if len(busy) else 0

    @property
    def idle(self) -> Spans:
        """Time within that span with no work on the device."""
        busy = self.busy
        return gaps(busy, int(busy.start_ns[0]), int(busy.end_ns[-1])) if len(busy) else busy

    @property
    def exposed_collectives(self) -> Spans:
        """Time with a collective and no compute kernel."""
        return subtract(self.collectives, self.compute)

    @property
    def hidden_fraction(self) -> float | None:
        """Share of the copy-busy time that a kernel covers; None without copies or without kernels."""
        if not self.copies.total_ns or not self.kernels.total_ns:
            return None
        return self.overlap.total_ns / self.copies.total_ns


def device_keys(trace: Trace) -> list[DeviceKey]:
    """Every device with work on it, in order."""
    pairs = {
        (int(process), int(device))
        for table in (trace.kernels, trace.copies, trace.memsets)
        for process, device in np.unique(np.stack([table.process, table.device.astype(np.int64)]), axis=1).T.tolist()
    }
    return [DeviceKey(*pair) for pair in sorted(pairs)]


def activity(trace: Trace, key: DeviceKey, within: Spans) -> Activity:
    """What ``key`` did within ``within``."""
    kernels = trace.kernels.take(key.rows(trace.kernels))
    copies = trace.copies.take(key.rows(trace.copies))
    memsets = trace.memsets.take(key.rows(trace.memsets))
    collective = is_collective(trace, kernels.name_id)
    return Activity(
        key=key,
        kernels=intersect(union(kernels.start_ns, kernels.end_ns), within),
        compute=intersect(union(kernels.start_ns[~collective], kernels.end_ns[~collective]), within),
        collectives=intersect(union(kernels.start_ns[collective], kernels.end_ns[collective]), within),
        copies=intersect(union(copies.start_ns, copies.end_ns), within),
        memsets=intersect(union(memsets.start_ns, memsets.end_ns), within),
        kernel_concurrency=intersect(at_depth(kernels.start_ns, kernels.end_ns, 2), within),
        copy_concurrency=intersect(at_depth(copies.start_ns, copies.end_ns, 2), within),
    )


def is_collective(trace: Trace, name_id: Int32) -> Bool:
    """Which kernels are collectives (NCCL, RCCL, MSCCL), by their name."""
    used, codes = np.unique(name_id, return_inverse=True)
    matches = np.array([bool(_COLLECTIVE.search(trace.names[number])) for number in used.tolist()], np.bool_)
    return matches[codes] if len(used) else np.zeros(0, np.bool_)
