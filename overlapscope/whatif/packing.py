"""What the host takes to pack many pieces in one pinned buffer: calibrated, else as staging here, else as usual."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overlapscope.calibration.schema import PackTime
from overlapscope.model.columns import Bool, Float64, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.trace import Trace
from overlapscope.whatif.config import PackingConfig
from overlapscope.whatif.copy_speeds import LONGEST_NS, Speed, staged_speed


@dataclass(frozen=True, eq=False)
class Pieces:
    """What a piece takes where all are of one size and where they are not.

    torch packs pieces of one size faster: with one loop over all, where others are copied one by one.
    """

    equal: Speed
    ragged: Speed

    def of_groups_ns(self, size_bytes: Int64, group: Int64) -> Float64:
        """What all pieces of each group take."""
        count = int(group.max(initial=-1)) + 1
        least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
        np.minimum.at(least, group, size_bytes)
        np.maximum.at(most, group, size_bytes)
        one_size = (least == most)[group]
        each = np.where(one_size, self.equal.exact_ns(size_bytes), self.ragged.exact_ns(size_bytes))
        return np.bincount(group, each, count).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Packing:
    """What pieces take where the host did little since it last packed them, and after other work; and beside them.

    That is what packing takes without its pieces, and a view of a piece.
    """

    warm: Pieces
    cold: Pieces
    start_ns: int
    view_ns: int

    @property
    def known_from(self) -> str:
        """Where it is known from."""
        return self.warm.equal.known_from

    def host_ns(self, size_bytes: Int64, group: Int64) -> Int64:
        """What packing each group of pieces takes at best, without views of them; a week at most."""
        return _whole_ns(float(self.start_ns) + self.warm.of_groups_ns(size_bytes, group))

    def more_ns(self, size_bytes: Int64, made: Bool, group: Int64) -> Int64:
        """What may come to it where pieces are cold, and views are needed; a week at most.

        One of each piece, to pack its bytes, and one of what arrives where a tensor was ``made`` for it.
        """
        later = self.cold.of_groups_ns(size_bytes, group) - self.warm.of_groups_ns(size_bytes, group)
        return _whole_ns(np.maximum(later, 0) + float(self.view_ns) * np.bincount(group, 1 + made))


_COLD = ("pack_ns",), ("ragged_ns", "pack_ns")
_WARM = ("warm_pack_ns", "pack_ns"), ("warm_ragged_ns", "ragged_ns", "pack_ns")
"""Figures of a calibration, and what stands for them where they are not there: of equal and of ragged pieces."""


def packing(trace: Trace, config: PackingConfig) -> Packing:
    """How fast pieces are packed on the host: from the calibration, else as fast as pageable copies of their size.

    Those are copied on the host too, before they are sent. Else as fast as on hosts where it was measured.
    """
    recording = trace.metadata.recording
    measured = sorted(recording.packing.pieces if recording else (), key=lambda entry: entry.size_bytes)
    if recording is not None and measured:
        warm, cold = (Pieces(*(_calibrated(measured, key) for key in keys)) for keys in (_WARM, _COLD))
        return Packing(warm, cold, recording.packing.start_ns or 0, recording.packing.view_ns or 0)
    staged = staged_speed(trace, Direction.HTOD)
    if staged is not None:  # each of these copies has a latency, which stands for a start
        each = replace(staged, known_from=f"packing on the host: as long as staging, {staged.known_from}")
        return Packing(Pieces(each, each), Pieces(each, each), 0, config.view_ns)
    pieces = Pieces(_usual(config, config.piece_ns), _usual(config, config.piece_ns + config.ragged_ns))
    return Packing(pieces, pieces, config.start_ns, config.view_ns)


def _usual(config: PackingConfig, piece_ns: int) -> Speed:
    sizes = np.array([0.0, 1e9])
    return Speed(sizes, piece_ns + sizes / config.gb_s, "packing on the host: as usual on hosts of H200s")


def _whole_ns(time_ns: Any) -> Int64:
    whole: Int64 = np.rint(np.minimum(time_ns, LONGEST_NS)).astype(np.int64)
    return whole


def _calibrated(measured: list[PackTime], key: tuple[str, ...]) -> Speed:
    """The first of these figures that there is, of each size."""
    times = [next(filter(None, (getattr(entry, each) for each in key))) for entry in measured]
    sizes = np.array([entry.size_bytes for entry in measured], float)
    return Speed(
        sizes, np.maximum.accumulate(np.array(times, float)), "packing on the host: the calibration in this trace"
    )
