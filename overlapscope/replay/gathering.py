"""What the host takes to gather many pieces in one pinned buffer: from the calibration, else as staging does here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overlapscope.model.columns import Bool, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.recording import GatherTime
from overlapscope.model.trace import Trace
from overlapscope.replay.speeds import LONGEST_NS, Speed, staged_speed


@dataclass(frozen=True, eq=False)
class Gathering:
    """What a piece takes where all are of one size and where they are not, a gather beside that, and a view of a piece.

    torch gathers pieces of one size faster: with one loop over all, where others are copied one by one.
    """

    equal: Speed
    ragged: Speed
    start_ns: int
    view_ns: int

    def host_ns(self, size_bytes: Int64, group: Int64) -> Int64:
        """What each group of pieces takes, without views of them; a week at most."""
        count = int(group.max(initial=-1)) + 1
        least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
        np.minimum.at(least, group, size_bytes)
        np.maximum.at(most, group, size_bytes)
        one_size = (least == most)[group]
        pieces = np.where(one_size, self.equal.exact_ns(size_bytes), self.ragged.exact_ns(size_bytes))
        return _whole_ns(float(self.start_ns) + np.bincount(group, pieces, count))

    def views_ns(self, made: Bool, group: Int64) -> Int64:
        """What views take of those pieces of each group that were ``made`` tensors on the device; a week at most."""
        return _whole_ns(float(self.view_ns) * np.bincount(group, made))


def gathering(trace: Trace) -> Gathering | None:
    """How fast pieces are gathered on the host: from the calibration, else as fast as pageable copies of their size.

    Those are copied on the host too, before they are sent. None where nothing tells.
    """
    recording = trace.metadata.recording
    measured = sorted(recording.gathers if recording else (), key=lambda entry: entry.size_bytes)
    if recording is not None and measured:
        equal, ragged = (_calibrated(measured, ragged=each) for each in (False, True))
        return Gathering(equal, ragged, recording.gather_start_ns or 0, recording.view_ns or 0)
    staged = staged_speed(trace, Direction.HTOD)
    if staged is None:
        return None
    staged = replace(staged, basis=f"gathering on the host: as long as staging, {staged.basis}")
    return Gathering(staged, staged, 0, 0)


def _whole_ns(time_ns: Any) -> Int64:
    whole: Int64 = np.rint(np.minimum(time_ns, LONGEST_NS)).astype(np.int64)
    return whole


def _calibrated(measured: list[GatherTime], *, ragged: bool) -> Speed:
    times = [(ragged and entry.ragged_ns) or entry.gather_ns for entry in measured]
    sizes = np.array([entry.size_bytes for entry in measured], float)
    return Speed(
        sizes, np.maximum.accumulate(np.array(times, float)), "gathering on the host: the calibration in this trace"
    )
