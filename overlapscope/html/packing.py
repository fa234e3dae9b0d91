"""The bars of an interactive timeline, packed for a page.

Columns of whole numbers are stored by significance: all lowest bytes, then all second ones. Most of the higher ones are
zero, which compresses well. Columns that rise are stored as differences.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.document.html import colour_class
from overlapscope.formatting import counted, safe
from overlapscope.html.page_bars import STYLES, PageBars, PageNames, merged, page_bars
from overlapscope.html.stacks import KINDS, Stacks, stacks
from overlapscope.measure.grouping import at, outermost
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.tables import Timed
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Lane, LaneKind, Style, styles_in
from overlapscope.timeline.comparison import View
from overlapscope.timeline.view import Shown

_SHOWN = Shown(labels=True, range_depth=4, most_streams=24, most_threads=8)
_TITLE_WIDTH = 40
_MOST_BARS = 1_000_000  # of a view
_FULL = 65_535  # the empty share of a merged bar is stored in these parts


@dataclass(frozen=True, eq=False)
class Packed:
    """The description of some views for the page's script, names and bars of each view as text, and the used styles."""

    description: dict[str, Any]
    names: str
    data: tuple[str, ...]
    styles: tuple[Style, ...]


def packed(views: Sequence[View], most: int = _MOST_BARS) -> Packed:
    """Pack some views of one program, each with at most about ``most`` bars."""
    names, entries, data = PageNames(), [], []
    lanes = [view.lanes(_SHOWN) for view in views]
    for number, (view, every) in enumerate(zip(views, lanes, strict=True)):
        description, text = _view(view, every, names, most)
        entries.append(description | {"data": f"timeline-bars-{number}"})
        data.append(text)
    styles = [{"name": style.value, "color": f"--{colour_class(style.value)}"} for style in STYLES]
    description = {"views": entries, "styles": styles, "kinds": KINDS, "full": _FULL}
    used = styles_in(lane for every in lanes for lane in every)
    return Packed(description, _texts(names), tuple(data), used)


def _texts(names: PageNames) -> str:
    return packed_bytes(json.dumps({"names": list(names.texts), "short": names.short}).encode())


def _view(view: View, every: Sequence[Lane], names: PageNames, most: int) -> tuple[dict[str, Any], str]:
    """The description of a view for the script, and its bars as text."""
    shown = [lane for lane in every if lane.bars]
    all_bars = page_bars(view.trace, shown, names)
    bars = merged(all_bars, most, int(names.of(["merged bars"])[0]))
    open_at = stacks(view.trace, np.unique(bars.call[bars.call != NO_ID]))
    columns, text = packed_columns([*_columns(view, bars), *_stack_columns(view.trace, bars, open_at, names)])
    begin, end = (edge - view.zero_ns for edge in view.axis)
    description = {"label": view.label, "begin": begin, "end": end, "columns": columns, "lanes": _lanes(shown, bars)}
    left_out = [*_lanes_left_out(view, every), *_bars_left_out(len(all_bars), bars), *_texts_left_out(open_at, names)]
    return description | {"left_out": left_out}, text


def _lanes(shown: Sequence[Lane], bars: PageBars) -> list[dict[str, Any]]:
    counts = np.bincount(bars.lane, minlength=len(shown)).tolist()
    return [
        {"title": safe(lane.title, _TITLE_WIDTH), "group": safe(lane.group) or "host", "bars": count}
        for lane, count in zip(shown, counts, strict=True)
    ]


def _columns(view: View, bars: PageBars) -> Iterator[Column]:
    """The columns of all bars. Numbers that may be missing are stored plus one."""
    length = bars.end_ns - bars.start_ns
    empty = np.rint(_FULL * (length - bars.busy_ns) / np.maximum(length, 1)).astype(np.int64)
    yield Column("start", bars.start_ns - view.zero_ns, differences=True)
    yield Column("length", length)
    yield Column("style", bars.style)
    yield Column("name", bars.name)
    yield Column("size", bars.size_bytes + 1)
    yield Column("empty", empty)
    yield Column("more", bars.count - 1)
    yield Column("issuer", _issuer(view.trace, bars) + 1, differences=True)


def _issuer(trace: Trace, bars: PageBars) -> Int64:
    """The bar of the call that issued each bar; `NO_ID` for calls and where there is none."""
    bar_of_call = np.full(len(trace.api_calls) + 1, NO_ID, np.int64)
    calls = np.flatnonzero(bars.own_call != NO_ID)
    bar_of_call[bars.own_call[calls]] = calls
    return np.where(bars.own_call != NO_ID, NO_ID, bar_of_call[at(outermost(trace.api_calls.parent), bars.call)])


def _stack_columns(trace: Trace, bars: PageBars, open_at: Stacks, names: PageNames) -> Iterator[Column]:
    """The innermost entry of the stack in which each bar was issued, and the entries of all stacks."""
    yield Column("stack", np.append(open_at.of_call, NO_ID)[bars.call] + 1, differences=True)
    yield Column("entry_name", names.of_ids(trace, open_at.name_id))
    yield Column("entry_kind", open_at.kind)
    yield Column("entry_outer", open_at.outer + 1)


def _lanes_left_out(view: View, every: Sequence[Lane]) -> Iterator[str]:
    """Lanes, ranges and calls of a view that its lanes do not show."""
    trace = view.trace
    shown = sum(len(bars.start_ns) for lane in every if lane.kind is LaneKind.RANGES for bars in lane.bars)
    ranges = int(_within(trace.ranges, view.window).sum()) - shown
    calls = int((_within(trace.api_calls, view.window) & (trace.api_calls.parent != NO_ID)).sum())
    missing = [lane.title for lane in every if lane.kind is LaneKind.NOTE]
    missing += [f"{counted(ranges, 'range')} of other threads or nested deeper"] if ranges else []
    missing += [f"{counted(calls, 'call')} within other calls"] if calls else []
    if missing:
        yield f"Not shown: {', '.join(missing)}."


def _bars_left_out(count: int, bars: PageBars) -> Iterator[str]:
    """How many of ``count`` bars were merged."""
    several = bars.count[bars.count > 1]
    if len(several):
        yield f"Of {count:,} bars, the {int(several.sum()):,} shortest are merged into {len(several):,}."
        yield "A merged bar is as high as the share of it that is filled, and a search does not find what is in it."


def _texts_left_out(open_at: Stacks, names: PageNames) -> Iterator[str]:
    """Stacks and names for which there was no room."""
    if not open_at.complete:
        yield "There are too many different stacks: the innermost entries of some are left out."
    if names.left_out:
        yield f"There are more than {len(names.texts):,} different names: the others are shown as a question mark."


def _within(table: Timed, window: tuple[int, int]) -> Bool:
    inside: Bool = (table.end_ns > window[0]) & (table.start_ns < window[1])
    return inside


@dataclass(frozen=True, eq=False)
class Column:
    """Whole numbers; those that may be negative, or mostly rise, are stored as differences."""

    name: str
    values: Int64
    differences: bool = False


def packed_columns(columns: Sequence[Column]) -> tuple[list[dict[str, Any]], str]:
    """How each column is stored, and their bytes one after the other, as text."""
    described, parts = [], []
    for column in columns:
        numbers = _differences(column.values) if column.differences else column.values
        width = (int(numbers.max(initial=0)).bit_length() + 7) // 8
        planes = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        parts.append(planes.T.tobytes())
        described.append({"name": column.name, "rows": len(numbers), "bytes": width, "differences": column.differences})
    return described, packed_bytes(b"".join(parts))


def packed_bytes(raw: bytes) -> str:
    """Bytes as base64 of gzip, the same each time."""
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()


def _differences(values: Int64) -> Int64:
    """Differences of neighbours, the sign in the lowest bit.

    >>> _differences(np.array([5, 7, 4])).tolist()
    [10, 4, 5]
    """
    change = np.diff(values, prepend=0)
    result: Int64 = (change << 1) ^ (change >> 63)
    return result
