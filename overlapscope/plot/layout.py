"""Where lanes are in a figure: rows from top to bottom, groups under their headings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlapscope.timeline.bars import Lane, LaneKind

LANE_IN = 0.17
"""Height of a lane of height 1."""
BAR_HEIGHT = 0.84
"""Height of a bar, of its lane's."""
GAP = 0.45
"""Free space between groups, in lanes."""
_HEADING = 0.9
_HEIGHTS = {
    LaneKind.RANGES: 0.9,
    LaneKind.THREAD: 1.0,
    LaneKind.STREAM: 1.0,
    LaneKind.OVERLAP: 1.0,
    LaneKind.WHY_IDLE: 1.0,
    LaneKind.QUEUE: 1.1,
    LaneKind.NOTE: 0.8,
}


@dataclass(frozen=True, eq=False)
class Row:
    """A lane, or the heading of a group, with its centre and height on the y axis, where a lane has height 1."""

    title: str
    lane: Lane | None
    centre: float
    height: float


def rows_of(found: Sequence[Lane]) -> list[Row]:
    """Lanes and headings from top to bottom; lanes whose group has no name have no heading."""
    rows: list[Row] = []
    top, group = 0.0, None
    for lane in found:
        if lane.group != group:
            top -= GAP if rows else 0.0
            if lane.group:
                rows.append(Row(lane.group, None, top - _HEADING / 2, _HEADING))
                top -= _HEADING
            group = lane.group
        height = _HEIGHTS[lane.kind]
        rows.append(Row(lane.title, lane, top - height / 2, height))
        top -= height
    return rows


def total_height(rows: Sequence[Row]) -> float:
    """Of all rows, with some space below the last one."""
    return (rows[-1].height / 2 - rows[-1].centre if rows else 0.0) + GAP
