"""The bars of an interactive timeline, packed for a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlapscope.diagnosis.finding import DeviceDiagnosis
from overlapscope.formatting import safe
from overlapscope.html.colours import colour_of
from overlapscope.html.columns import Column, packed_bytes, packed_columns
from overlapscope.html.left_out import bars_left_out, lanes_left_out, texts_left_out
from overlapscope.html.merging import merged
from overlapscope.html.names import PageNames
from overlapscope.html.page_bars import STYLES, PageBars, page_bars
from overlapscope.html.stacks import KINDS, Stacks, stacks
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace
from overlapscope.timeline.bars import Lane, Style, styles_in
from overlapscope.timeline.comparison import View
from overlapscope.timeline.shown import Shown

_SHOWN = Shown(labels=True, range_depth=4, most_streams=24, most_threads=8)
_TITLE_WIDTH = 40
_MOST_BARS = 1_000_000  # of a view
_FULL = 65_535  # the empty share of a merged bar is stored in these parts


@dataclass(frozen=True, eq=False)
class Packed:
    """What the page's script has to know, names and the bars of each view as text, and the styles that occur."""

    about: dict[str, Any]
    names: str
    data: tuple[str, ...]
    styles: tuple[Style, ...]


def packed(views: Sequence[View], idle: Sequence[DeviceDiagnosis] | None = None, most: int = _MOST_BARS) -> Packed:
    """Pack some views of the same program, each with at most about ``most`` bars.

    ``idle`` says why devices were idle in the first view, as a diagnosis does; else it is found here.
    """
    names, entries, data = PageNames(), [], []
    found = [view.lanes(_SHOWN, None if number else idle) for number, view in enumerate(views)]
    for number, (view, every) in enumerate(zip(views, found, strict=True)):
        about, text = _view(view, every, names, most)
        entries.append(about | {"data": f"timeline-bars-{number}"})
        data.append(text)
    styles = [{"name": style.value, "color": f"--{colour_of(style)}"} for style in STYLES]
    about = {"views": entries, "styles": styles, "kinds": KINDS, "full": _FULL}
    used = styles_in(lane for every in found for lane in every)
    return Packed(about, _texts(names), tuple(data), used)


def _texts(names: PageNames) -> str:
    return packed_bytes(json.dumps({"names": list(names.texts), "short": names.short}).encode())


def _view(view: View, every: Sequence[Lane], names: PageNames, most: int) -> tuple[dict[str, Any], str]:
    """What the script has to know of a view, and its bars as text."""
    shown = [lane for lane in every if lane.bars]
    all_bars = page_bars(view.trace, shown, names)
    bars = merged(all_bars, most, int(names.of(["merged bars"])[0]))
    open_at = stacks(view.trace, np.unique(bars.call[bars.call != NO_ID]))
    columns, text = packed_columns([*_columns(view, bars), *_stack_columns(view.trace, bars, open_at, names)])
    begin, end = (edge - view.zero_ns for edge in view.window)
    about = {"label": view.label, "begin": begin, "end": end, "columns": columns, "lanes": _lanes(shown, bars)}
    left_out = [*lanes_left_out(view, every), *bars_left_out(len(all_bars), bars), *texts_left_out(open_at, names)]
    return about | {"left_out": left_out}, text


def _lanes(shown: Sequence[Lane], bars: PageBars) -> list[dict[str, Any]]:
    counts = np.bincount(bars.lane, minlength=len(shown)).tolist()
    return [
        {"title": safe(lane.title, _TITLE_WIDTH), "group": safe(lane.group) or "host", "bars": count}
        for lane, count in zip(shown, counts, strict=True)
    ]


def _columns(view: View, bars: PageBars) -> Iterator[Column]:
    """What is known of each bar. Numbers that may be missing are stored plus one."""
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
    outermost = np.append(np.arange(len(trace.api_calls)), NO_ID)
    parent = np.append(trace.api_calls.parent, NO_ID).astype(np.int64)
    while (inner := parent[outermost] != NO_ID).any():
        outermost[inner] = parent[outermost[inner]]
    bar_of_call = np.full(len(outermost), NO_ID, np.int64)
    calls = np.flatnonzero(bars.own_call != NO_ID)
    bar_of_call[bars.own_call[calls]] = calls
    return np.where(bars.own_call != NO_ID, NO_ID, bar_of_call[outermost[bars.call]])


def _stack_columns(trace: Trace, bars: PageBars, open_at: Stacks, names: PageNames) -> Iterator[Column]:
    """The innermost entry of the stack in which each bar was issued, and the entries of all stacks."""
    yield Column("stack", np.append(open_at.of_call, NO_ID)[bars.call] + 1, differences=True)
    yield Column("entry_name", names.of_ids(trace, open_at.name_id))
    yield Column("entry_kind", open_at.kind)
    yield Column("entry_outer", open_at.outer + 1)
