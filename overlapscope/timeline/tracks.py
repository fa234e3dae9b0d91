"""Tracks of slices, counters and arrows between slices: a whole trace as a trace viewer shows it.

A lane is for a picture: bars of a window, by style. A track is for a viewer: all slices there are, each with its name
and its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlapscope.model.columns import Int64
from overlapscope.timeline.bars import Curve


@dataclass(frozen=True, eq=False)
class Track:
    """Slices of one thread, stream or kind. ``group`` is what the viewer folds together.

    ``arguments`` has for each name as many values as there are slices; None is left out.
    """

    group: str
    title: str
    start_ns: Int64
    end_ns: Int64
    names: Sequence[str]
    arguments: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Counter:
    """A curve with a title."""

    group: str
    title: str
    curve: Curve


@dataclass(frozen=True, eq=False)
class Links:
    """Arrows from slices of one track to slices of another, by their index in each."""

    source: Track
    source_row: Int64
    target: Track
    target_row: Int64
