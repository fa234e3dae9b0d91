"""Find the place in the program for a call: range, source line, operator."""

from __future__ import annotations

import re

import numpy as np

from overlapscope.diagnosis.finding import Place, Share
from overlapscope.measure.places import enclosing, innermost
from overlapscope.model.columns import NO_ID, Int32, Int64, known
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

_MOST = 10
_LINE = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)$")
_LIBRARY_CODE = re.compile(
    r"(^|/)(site-packages|dist-packages|lib(64)?/python[\d.]+)/|^(torch|overlapscope/capture)/|(^|/)(contextlib|threading)\.py$|^<"
)


def shares(trace: Trace, calls: Int64, idle_ns: Int64, streams: Int64, device: int) -> tuple[Share, ...]:
    """Sum GPU idle time by place in the program, the most expensive place first.

    Args:
        trace: the trace.
        calls: for each idle interval the row of the call that represents it, `NO_ID` where there is none.
        idle_ns: the length of each interval.
        streams: the stream concerned, `NO_ID` where there is none.
        device: the idle device.
    """
    pairs, member = np.unique(np.stack([calls, streams]), axis=1, return_inverse=True)
    totals = np.bincount(member.reshape(-1), idle_ns, pairs.shape[1]).astype(np.int64)
    found: dict[Place, int] = {}
    for place, total in zip(places(trace, pairs[0], pairs[1], device), totals.tolist(), strict=True):
        found[place] = found.get(place, 0) + total
    ranked = sorted(found.items(), key=lambda entry: -entry[1])
    return tuple(Share(place, total) for place, total in ranked[:_MOST])


def places(trace: Trace, calls: Int64, streams: Int64, device: int) -> list[Place]:
    """The place of each call, with a stream and a device; of `NO_ID` nothing is known."""
    table = trace.api_calls
    process, thread = np.append(table.process, NO_ID)[calls], np.append(table.thread, NO_ID)[calls]
    moment = np.append(table.start_ns, 0)[calls]
    ranges = innermost(trace.ranges, process, thread, moment)
    ops = innermost(trace.cpu_ops, process, thread, moment)
    names = np.append(table.name_id, NO_ID)[calls]
    sources = _sources(trace, process, thread, moment)
    paths = _paths(trace, ranges)
    return [
        Place(
            range=paths[index] if calls[index] != NO_ID else None,
            source=sources[index] if calls[index] != NO_ID else None,
            op=_name(trace, trace.cpu_ops, int(ops[index])) if calls[index] != NO_ID else None,
            api=trace.names[int(names[index])] or None,
            process=known(process[index]),
            thread=known(thread[index]),
            device=known(device),
            stream=known(streams[index]),
        )
        for index in range(len(calls))
    ]


def _name(trace: Trace, table: HostWork, row: int) -> str | None:
    return trace.names[int(table.name_id[row])] if row != NO_ID else None


def _paths(trace: Trace, rows: Int32) -> list[str | None]:
    """For each range, the names of the ranges around it and its own, outermost first."""
    outer = enclosing(trace.ranges)
    known: dict[int, str] = {}

    def path(row: int) -> str:
        if row not in known:
            name, around = trace.names[int(trace.ranges.name_id[row])], int(outer[row])
            before = path(around) if around != NO_ID else ""
            same = before == name or before.endswith(f" / {name}")  # one annotation, seen by two instruments
            known[row] = before if same else f"{before} / {name}" if before else name
        return known[row]

    return [None if row == NO_ID else path(row) for row in rows.tolist()]


def _sources(trace: Trace, process: Int64, thread: Int64, moment: Int64) -> list[str | None]:
    """The innermost line of user code at each moment."""
    frames = trace.frames
    numbers = np.unique(frames.name_id)
    own = [number for number in numbers.tolist() if _is_user_code(trace.names[number])]
    rows = np.flatnonzero(np.isin(frames.name_id, own))
    found = innermost(frames.take(rows), process, thread, moment)
    return [None if row == NO_ID else trace.names[int(frames.name_id[rows[row]])] for row in found.tolist()]


def _is_user_code(name: str) -> bool:
    match = _LINE.match(name)
    return match is not None and not _LIBRARY_CODE.search(match["file"].replace("\\", "/"))
