"""What a timeline is made of: lanes of bars and curves, the colours of bars, and how bars nest.

Hues are of the Okabe-Ito set, or near: the colour-blind can tell apart what shares a lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from overlapscope.diagnosis.catalogue import CLAIMING
from overlapscope.diagnosis.causes import Lateness
from overlapscope.measure.spans import Spans
from overlapscope.model.columns import Bool, Columnar, Int64
from overlapscope.model.tables import Timed


def _name_of_kind(code: str, kind: Lateness) -> str:
    return f"{code}_{kind.name}"


def _of_rules() -> Iterator[tuple[str, tuple[str, tuple[str, ...], str]]]:
    """The styles of rules and of their kinds: title, look, and what the GPU waits for."""
    for rule in sorted(CLAIMING, key=lambda rule: rule.code):
        title = f"{rule.code} {rule.name}"
        yield rule.code, (title, rule.look, rule.waited_for)
        for kind, look in rule.kind_looks.items():
            yield _name_of_kind(rule.code, kind), (f"{title}: {kind.label}", look, kind.waited_for)


_OF_RULES = dict(_of_rules())


class Style(StrEnum):
    """The meaning of a bar, with its colour on a light and on a dark ground, and its grey and hatch in print.

    Beside the members here there is one for each rule that idle time is attributed to, by its code, and for each kind
    of a rule that has a colour of its own: ``OVL008_DATA_LOADING``.
    """

    RANGE = "range", "#DFE5ED", "#36414F", "#E2E2E2"
    CALL = "call", "#93A0B2", "#66758A", "#BABABA"
    BLOCKED_BY_COPY = "blocked by a copy call", "#7A1F3D", "#C64A79", "#000000"
    BLOCKED_BY_SYNC = "blocked by a synchronisation", "#E9D8A6", "", "#A1A1A1", "......"
    BLOCKED_BY_OTHER = "blocked by another call", "#A67C52", "", "#6A6A6A", "||||||"
    KERNEL = "kernel", "#2F3D52", "#8392A6", "#474747"
    COLLECTIVE = "collective", "#9C8FC4", "#5F7BB3", "#868686", "xxxxxx"
    MEMSET = "memset", "#5E548E", "#8F83C9", "#5C5C5C", "------"
    HTOD_PAGEABLE = "HtoD pageable", "#D55E00", "", "#000000", "//////"
    HTOD_PINNED = "HtoD pinned", "#0072B2", "#2F8FD8", "#9B9B9B"
    DTOH_PAGEABLE = "DtoH pageable", "#C17A00", "", "#282828", r"\\\\\\"
    DTOH_PINNED = "DtoH pinned", "#56B4E9", "", "#D4D4D4", r"\\\\\\"
    COPY_ON_DEVICE = "DtoD, PtoP", "#CC79A7", "", "#727272", "......"
    COPY_OTHER = "copy, memory unknown", "#F0E442", "", "#B9B9B9", "++++++"
    HIDDEN = "copy hidden by kernels", "#009E73", "", "#9A9A9A", "||||||"
    EXPOSED = "copy exposed", "#111111", "#F4F4F4", "#1A1A1A", "xxxxxx"
    KERNELS_ONLY = "kernels only", "#DDE1E7", "#3A4452", "#CECECE"
    QUEUED = "work issued and not begun", "#7C8AA0", "", "#838383"
    IDLE = "GPU idle, no finding", "#F1F2F4", "#2A313C", "#F4F4F4", "......"
    MARK = "place of a finding", "#D004A0", "#F04AC8", "#282828"
    vars().update({name: (title, *look) for name, (title, look, _) in _OF_RULES.items()})

    def __new__(cls, label: str, *look: str) -> Style:  # noqa: ARG004 - for __init__
        """Make a member whose value is the label."""
        style = str.__new__(cls, label)
        style._value_ = label
        return style

    def __init__(self, label: str, colour: str = "", dark: str = "", grey: str = "", hatch: str = "") -> None:
        del label
        self.colour, self.dark, self.grey, self.hatch = colour, dark or colour, grey, hatch

    @property
    def is_of_rule(self) -> bool:
        """Whether it stands for the findings of a rule."""
        return self.name in _OF_RULES

    @property
    def words(self) -> str:
        """The meaning without the code of a rule, such as ``idle: pageable copies``."""
        return f"idle: {_OF_RULES[self.name][2]}" if self.is_of_rule else self.value

    @classmethod
    def of_rule(cls, code: str, kind: Lateness) -> Style:
        """The style of idle time by the rule that it is attributed to, and the kind that it is of."""
        members = cls.__members__
        return members.get(_name_of_kind(code, kind)) or members.get(code) or cls.IDLE


COPIES = frozenset((
    Style.HTOD_PAGEABLE, Style.HTOD_PINNED, Style.DTOH_PAGEABLE, Style.DTOH_PINNED,
    Style.COPY_ON_DEVICE, Style.COPY_OTHER,
))  # fmt: skip
"""Copies of all kinds."""


class LaneKind(StrEnum):
    """The subject of a lane."""

    RANGES = "ranges"
    THREAD = "thread"
    STREAM = "stream"
    OVERLAP = "overlap"
    WHY_IDLE = "why no kernel"
    MARK = "mark"
    QUEUE = "queue"
    NOTE = "note"


@dataclass(frozen=True, eq=False)
class Bars(Columnar):
    """Bars of one style in one lane, with a text each where they have one.

    ``rows`` are the rows of the table that they stand for: ranges, calls, kernels, copies or memsets. None for spans.
    """

    style: Style
    start_ns: Int64
    end_ns: Int64
    labels: tuple[str, ...] = ()
    rows: Int64 | None = None

    def take(self, rows: Int64 | Bool | slice) -> Bars:
        """The given bars, with their labels."""
        labels = np.array(self.labels, np.object_)[rows] if self.labels else ()
        return replace(super().take(rows), labels=tuple(labels))

    def names(self) -> tuple[str, ...]:
        """The name of each bar: its label, or else its style."""
        return self.labels or (self.style.value,) * len(self)


@dataclass(frozen=True, eq=False)
class Curve:
    """A number that changes in steps: each value holds from its time to the next one."""

    time_ns: Int64
    value: Int64


@dataclass(frozen=True, eq=False)
class Lane:
    """One horizontal lane: bars, or a curve.

    ``group`` is the name of its owner, such as a device; lanes of one group are drawn under it. ``place`` is process
    and thread of a thread's lane, process, device and stream of a stream's, process and device of a strip. ``role``
    says what a stream does, such as ``kernels``.
    """

    kind: LaneKind
    title: str
    group: str
    bars: tuple[Bars, ...] = ()
    curve: Curve | None = None
    place: tuple[int, ...] = ()
    role: str = ""

    def busy_ns(self, styles: frozenset[Style] | None = None) -> int:
        """The time that its bars cover, or its bars of these styles."""
        wanted = [bars for bars in self.bars if styles is None or bars.style in styles]
        return sum(int((bars.end_ns - bars.start_ns).sum()) for bars in wanted)


def bars_within(
    table: Timed, rows: Bool, style: Style, window: tuple[int, int], labels: list[str] | None = None
) -> list[Bars]:
    """The rows of a table that touch a window, cut to it, as bars of a style; no bars without such rows."""
    first, last = window
    index = np.flatnonzero(rows & (table.end_ns > first) & (table.start_ns < last))
    if not len(index):
        return []
    start, end = np.maximum(table.start_ns[index], first), np.minimum(table.end_ns[index], last)
    texts = tuple(labels[row] for row in index.tolist()) if labels is not None else ()
    return [Bars(style, start, end, texts, index)]


def bars_of_spans(spans: Spans, style: Style) -> list[Bars]:
    """Spans as bars of a style; no bars without spans."""
    return [Bars(style, spans.start_ns, spans.end_ns)] if len(spans) else []


def edges_ns(parts: Iterable[Bars]) -> tuple[Int64, Int64]:
    """Begin and end of all bars of several styles, one style after the other."""
    nothing, parts = np.empty(0, np.int64), list(parts)
    start = np.concatenate([nothing, *(bars.start_ns for bars in parts)])
    return start, np.concatenate([nothing, *(bars.end_ns for bars in parts)])


def styles_in(lanes: Iterable[Lane]) -> tuple[Style, ...]:
    """The styles of the bars and curves of lanes, in the order of their declaration."""
    lanes = list(lanes)
    used = {bars.style for lane in lanes for bars in lane.bars}
    used |= {Style.QUEUED for lane in lanes if lane.curve is not None}
    return tuple(style for style in Style if style in used)


def depths(start_ns: Int64, end_ns: Int64) -> Int64:
    """The number of bars that enclose each bar, 0 for the outermost; the bars are sorted by begin, and nest.

    >>> depths(np.array([0, 1, 2, 6]), np.array([10, 5, 4, 8])).tolist()
    [0, 1, 2, 1]
    """
    result = np.zeros(len(start_ns), np.int64)
    ends: list[int] = []
    for row, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        while ends and ends[-1] <= start:
            ends.pop()
        result[row] = len(ends)
        ends.append(end)
    return result


def nesting_levels(start_ns: Int64, end_ns: Int64) -> Int64:
    """The first level for each bar, from 0, on which it nests: earlier bars there enclose it, or have ended.

    >>> nesting_levels(np.array([0, 1, 2]), np.array([10, 5, 7])).tolist()
    [0, 0, 1]
    """
    levels: list[list[int]] = []
    result = np.zeros(len(start_ns), np.int64)
    order = np.lexsort((-end_ns, start_ns))
    for index, start, end in zip(order.tolist(), start_ns[order].tolist(), end_ns[order].tolist(), strict=True):
        level = next((number for number, ends in enumerate(levels) if _nests(ends, start, end)), len(levels))
        if level == len(levels):
            levels.append([])
        levels[level].append(end)
        result[index] = level
    return result


def _nests(ends: list[int], start: int, end: int) -> bool:
    """Whether a bar nests among the open bars of a level; their ``ends`` lose the bars that have ended."""
    while ends and ends[-1] <= start:
        ends.pop()
    return not ends or end <= ends[-1]
