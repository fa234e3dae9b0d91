"""Find the place in the program for a call: range, source line, operator."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.diagnosis.causes import IdleTime
from overlapscope.diagnosis.finding import Place, Share
from overlapscope.measure.grouping import distinct_columns, sums_by
from overlapscope.measure.places import enclosing, innermost, named_work
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int32, Int64, known
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

_MOST = 10
LINE = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)$")
_NUMBERED = re.compile(r", (op_id|seq|op_ids) = [\d\[\], ()]+")
"""The text that ``emit_nvtx`` adds to the name of each operator."""
_LIBRARY_CODE = re.compile(
    r"(^|/)(site-packages|dist-packages|lib(64)?/python[\d.]+)/|^(torch|overlapscope/capture)/|(^|/)(contextlib|threading)\.py$|^<"
)


@dataclass(frozen=True, eq=False)
class Moments(Columnar):
    """Moments on host threads: for each its thread, the call that it is in or concerns, and the stream concerned.

    A moment in the middle of an interval has the length of that, else 0: only what covers half of it is around it.
    """

    process: Int64
    thread: Int64
    time_ns: Int64
    length_ns: Int64
    call: Int64
    stream: Int64

    @classmethod
    def of_calls(cls, trace: Trace, calls: Int64 | Int32, streams: Int64 | Int32 | int = NO_ID) -> Moments:
        """The starts of some calls, with the streams concerned; `NO_ID` where there is none."""
        start_ns = np.append(trace.api_calls.start_ns, 0)[calls]
        stream = np.broadcast_to(streams, len(calls)).astype(np.int64)
        return cls(*_threads(trace, calls), start_ns, np.zeros(len(calls), np.int64), calls.astype(np.int64), stream)

    @classmethod
    def of_idle(cls, trace: Trace, idle: IdleTime, copy: Int64 | Int32) -> Moments:
        """The moments that stand for idle intervals, with the copy concerned in each.

        The call that blocked the launching thread; else the one that issued the copy; else what the thread did for most
        of the interval.
        """
        issued = np.append(trace.copies.call, NO_ID)[copy]
        call = np.where(idle.blocking_call != NO_ID, idle.blocking_call, issued)
        called = cls.of_calls(trace, call, np.append(trace.copies.stream, NO_ID)[copy])
        late = cls.of_calls(trace, idle.call)
        process, thread = _threads(trace, idle.launch_call)
        middle = (idle.start_ns + idle.end_ns) // 2
        length = np.where(idle.call == NO_ID, idle.end_ns - idle.start_ns, 0)
        late = replace(late, process=process, thread=thread, time_ns=middle, length_ns=length)
        pairs = zip(called.arrays().values(), late.arrays().values(), strict=True)
        return cls(*(np.where(call != NO_ID, *pair) for pair in pairs))

    def in_process(self, process: int) -> Moments:
        """The moments, in this process where the process is not known."""
        return replace(self, process=np.where(self.process == NO_ID, process, self.process))

    def distinct(self) -> tuple[Moments, Int64]:
        """The distinct moments, and for each moment the index of its distinct one."""
        columns, member = distinct_columns(np.stack(list(self.arrays().values())))
        return Moments(*columns), member


def _threads(trace: Trace, calls: Int64 | Int32) -> tuple[Int64, Int64]:
    """The process and the thread of some calls."""
    table = trace.api_calls
    return np.append(table.process, NO_ID)[calls], np.append(table.thread, NO_ID)[calls]


def shares(trace: Trace, at: Moments, idle_ns: Int64, device: int) -> tuple[Share, ...]:
    """Sum GPU idle time by place in the program, the most expensive place first.

    Args:
        trace: the trace.
        at: for each idle interval the moment that represents it.
        idle_ns: the length of each interval.
        device: the idle device.
    """
    distinct, member = at.distinct()
    totals = np.bincount(member, idle_ns, len(distinct.call)).astype(np.int64)
    different, which = _different_places(trace, distinct, device)
    sums, (_, first) = sums_by(which, totals, len(different)), np.unique(which, return_index=True)
    idle_of_place: dict[Place, int] = {}
    for number in np.argsort(first).tolist():
        idle_of_place[different[number]] = idle_of_place.get(different[number], 0) + int(sums[number])
    ranked = sorted(idle_of_place.items(), key=lambda entry: -entry[1])
    return tuple(Share(place, total) for place, total in ranked[:_MOST])


def places(trace: Trace, at: Moments, device: int) -> list[Place]:
    """The place of each moment on a device; of `NO_ID` nothing is known."""
    different, which = _different_places(trace, at, device)
    return [different[number] for number in which.tolist()]


def _different_places(trace: Trace, at: Moments, device: int) -> tuple[list[Place], Int64]:
    """The different places of some moments, and at which of these each is."""
    annotated, is_module = named_work(trace)
    rows, inside = np.unique(_around(annotated, at), return_inverse=True)
    paths = _paths(trace, annotated, is_module, rows)
    numbers = {path: number for number, path in enumerate(dict.fromkeys(paths))}
    path = np.array([numbers[each] for each in paths], np.int64)[inside]
    op = np.append(trace.cpu_ops.name_id, NO_ID)[_around(trace.cpu_ops, at)]
    api = np.append(trace.api_calls.name_id, NO_ID)[at.call]
    keys = np.stack([path, _sources(trace, at), op, api, at.process, at.thread, at.stream])
    columns, which = distinct_columns(keys)
    called, names = list(numbers), trace.names
    different = [
        Place(
            range=called[path],
            source=names[source] if source != NO_ID else None,
            op=names[op] if op != NO_ID else None,
            api=names[api] or None,
            process=known(process),
            thread=known(thread),
            device=known(device),
            stream=known(stream),
        )
        for path, source, op, api, process, thread, stream in columns.T.tolist()
    ]
    return different, which


def source_line(source: str) -> tuple[str, int] | None:
    """File and line of a place's source; None where it is not written like one.

    >>> source_line("train.py(12): load")
    ('train.py', 12)
    """
    match = LINE.match(source)
    return None if match is None else (match["file"], int(match["line"]))


def _paths(trace: Trace, annotated: HostWork, is_module: Bool, rows: Int64) -> list[str | None]:
    """For each range, the names of the ranges around it and its own, outermost first; of modules the innermost."""
    outer = enclosing(annotated)
    known: dict[tuple[int, bool], str] = {}

    def path(row: int, *, in_module: bool) -> str:
        if row == NO_ID:
            return ""
        key = row, in_module
        if key not in known:
            before = path(int(outer[row]), in_module=in_module or bool(is_module[row]))
            hidden = in_module and is_module[row]  # the name of the module inside has its name as a part
            name = "" if hidden else _NUMBERED.sub("", trace.names[int(annotated.name_id[row])])
            same = before == name or before.endswith(f" / {name}")  # one annotation, seen by two instruments
            known[key] = before if same or hidden else f"{before} / {name}" if before else name
        return known[key]

    return [None if row == NO_ID else path(row, in_module=False) for row in rows.tolist()]


def _around(table: HostWork, at: Moments) -> Int64:
    """The innermost row of a table around each moment, that covers at least half of its interval; else `NO_ID`."""
    innermost_row = innermost(table, at.process, at.thread, at.time_ns).astype(np.int64)
    if not at.length_ns.any():
        return innermost_row
    outer = enclosing(table)
    begin, end = (np.append(times, 0) for times in (table.start_ns, table.end_ns))
    since = at.time_ns - at.length_ns // 2
    open_rows = np.flatnonzero(innermost_row != NO_ID)
    while len(open_rows):
        row, until = innermost_row[open_rows], since[open_rows] + at.length_ns[open_rows]
        inside = np.minimum(end[row], until) - np.maximum(begin[row], since[open_rows])
        open_rows = open_rows[2 * inside < at.length_ns[open_rows]]
        innermost_row[open_rows] = outer[innermost_row[open_rows]]
        open_rows = open_rows[innermost_row[open_rows] != NO_ID]
    return innermost_row


def _sources(trace: Trace, at: Moments) -> Int64:
    """The name of the innermost line of user code at each moment; `NO_ID` where there is none."""
    frames = trace.frames
    numbers = np.unique(frames.name_id)
    user_code = [number for number in numbers.tolist() if is_user_code(trace.names[number])]
    rows = np.flatnonzero(np.isin(frames.name_id, user_code))
    return np.append(frames.name_id[rows], NO_ID)[_around(frames.take(rows), at)].astype(np.int64)


def is_user_code(name: str) -> bool:
    """Whether a Python frame is of the program, and not of Python or a package."""
    match = LINE.match(name)
    return match is not None and not _LIBRARY_CODE.search(match["file"].replace("\\", "/"))
