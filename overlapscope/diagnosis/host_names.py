"""Name what host threads ran while a GPU was idle: functions with their file and line, else operators."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from overlapscope.diagnosis.causes import IdleTime
from overlapscope.diagnosis.finding import Ran
from overlapscope.diagnosis.places import LINE, is_user_code
from overlapscope.formatting import safe
from overlapscope.measure.grouping import at, rows_by_thread
from overlapscope.measure.host_work import HostWorkKind, HostWorkTimes
from overlapscope.measure.places import innermost
from overlapscope.measure.spans import each_of
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

_MOST = 3
_LEAST_SHARE = 0.01
"""What ran for less than this share of the idle time is not named; runs scatter by about one percent."""
_SAMPLED = re.compile(r"^(?P<function>.+) \((?P<file>.+):(?P<line>\d+)\)$")
_BUILT_IN = re.compile(r"^<built-in (?:function|method) (\w+)")
_MODULES = {"collect": "gc", "sleep": "time", "fsync": "os"}
"""The modules of built-in functions that torch.profiler names without them."""


@dataclass(frozen=True, eq=False)
class _Parts(Columnar):
    """Stretches of time of threads."""

    start_ns: Int64
    end_ns: Int64
    process: Int64
    thread: Int64

    @property
    def middle_ns(self) -> Int64:
        return (self.start_ns + self.end_ns) // 2

    def split(self, table: HostWork) -> _Parts:
        """The stretches, cut where a row of the table begins or ends on their thread."""
        parts, by_thread = [], rows_by_thread(table.process, table.thread)
        for thread, places in rows_by_thread(self.process, self.thread).items():
            here, rows = self.take(places), by_thread.get(thread, np.empty(0, np.int64))
            edges = np.unique(np.concatenate([table.start_ns[rows], table.end_ns[rows]]))
            first, last = np.searchsorted(edges, here.start_ns, "right"), np.searchsorted(edges, here.end_ns)
            which, cut = each_of(first, last)
            which = np.concatenate([np.arange(len(here)), which])
            start = np.concatenate([here.start_ns, edges[cut]])
            order = np.lexsort((start, which))
            which, start = which[order], start[order]
            end = np.where(np.append(np.diff(which) == 0, False), np.append(start[1:], 0), here.end_ns[which])
            parts.append(_Parts(start, end, here.process[which], here.thread[which]))
        return _Parts.concat(*parts) if parts else self


@dataclass(frozen=True, eq=False)
class _Layer:
    """Rows of a table that name what ran: what recorded them, and the name of some rows at some moments."""

    source: str
    table: HostWork
    rows: Int64
    names: Callable[[Int64, _Parts], list[str]]


def ran(trace: Trace, idle: IdleTime, kind: HostWorkKind) -> tuple[Ran, ...]:
    """What launching threads ran in some idle intervals that are attributed to one kind of host work, at most three.

    Where nothing tells of a thread what it did, it may wait for the one of its process that makes most calls.
    """
    process, thread = (at(getattr(trace.api_calls, name), idle.launch_call) for name in ("process", "thread"))
    left = _Parts(idle.start_ns, idle.end_ns, process, thread)
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for busiest in (False, True):
        left = left.take(left.process != NO_ID)
        if busiest:
            left = _Parts(left.start_ns, left.end_ns, left.process, _busiest(trace, left.process))
        for layer in _layers(trace, kind):
            table = layer.table.take(layer.rows)
            parts = left.split(table)
            row = innermost(table, parts.process, parts.thread, parts.middle_ns)
            known = row != NO_ID
            inside, left = parts.take(known), parts.take(~known)
            lengths = (inside.end_ns - inside.start_ns).tolist()
            for name, length in zip(layer.names(layer.rows[row[known]], inside), lengths, strict=True):
                found[layer.source, re.sub(r":\d+\)$", ")", name)][safe(name)] += length
    least = _LEAST_SHARE * int(idle.duration_ns.sum())
    every = [Ran(max(names, key=names.__getitem__), source, names.total()) for (source, _), names in found.items()]
    return tuple(sorted((each for each in every if each.idle_ns >= least), key=lambda each: -each.idle_ns)[:_MOST])


def _busiest(trace: Trace, process: Int64) -> Int64:
    """The thread that makes most calls of each process."""
    calls, result = rows_by_thread(trace.api_calls.process, trace.api_calls.thread), np.full(len(process), NO_ID)
    for number in np.unique(process).tolist():
        threads = {thread: len(rows) for (of, thread), rows in calls.items() if of == number}
        result[process == number] = max(threads, key=threads.__getitem__, default=NO_ID)
    return result


def _layers(trace: Trace, kind: HostWorkKind) -> Iterator[_Layer]:
    """The tables that name work of a kind, the one that tells most first."""
    times = HostWorkTimes(trace)
    of_kind = {id(table): rows for table, rows in times.rows[kind]}
    every = kind in {HostWorkKind.OTHER, HostWorkKind.UNRECORDED}

    def rows(table: HostWork) -> Int64:
        """The rows of the kind; of work that has none, those of no kind."""
        mask = np.zeros(len(table), np.bool_)
        for tables in times.rows.values() if every else ():
            for one, of_one in tables:
                mask |= of_one if one is table else False
        return np.flatnonzero(~mask if every else of_kind.get(id(table), mask))

    yield _Layer("event", trace.host_events, rows(trace.host_events), lambda row, _: _events(trace, row))
    if kind is HostWorkKind.LOCK:
        yield _Layer("sample", trace.samples, rows(trace.samples), lambda row, _: _holders(trace, times, row))
        return
    sampled = np.arange(len(trace.samples))  # whatever told the kind, they say where it was
    yield _Layer("sample", trace.samples, sampled, lambda row, _: _stacks(trace, row))
    frames = _user_code(trace)
    if every:
        yield _Layer("frame", trace.frames, np.flatnonzero(frames), lambda row, _: _frames(trace, row))
    else:
        user = trace.frames.take(np.flatnonzero(frames))
        yield _Layer("frame", trace.frames, rows(trace.frames), lambda row, parts: _within(trace, row, user, parts))
    if every:
        yield _Layer("operator", trace.cpu_ops, rows(trace.cpu_ops), lambda row, _: _named(trace.cpu_ops, row))


def _named(table: HostWork, rows: Int64) -> list[str]:
    return table.names.decode(table.name_id[rows])


def _events(trace: Trace, rows: Int64) -> list[str]:
    """The names of events, each with the place that called it where that is no part of it."""
    places = trace.names.decode(trace.host_events.place_id[rows])
    pairs = zip(_named(trace.host_events, rows), places, strict=True)
    return [f"{name} in {place}" if place and "(" not in name else name for name, place in pairs]


def _stacks(trace: Trace, rows: Int64) -> list[str]:
    """The innermost function of user code of some samples, else the innermost function."""
    known = {number: _innermost(trace.names[number]) for number in np.unique(trace.samples.stack_id[rows]).tolist()}
    pairs = zip(trace.samples.stack_id[rows].tolist(), _named(trace.samples, rows), strict=True)
    return [known[number] or name for number, name in pairs]


def _innermost(stack: str) -> str:
    """The innermost function of a stack that is of the program itself; empty where none is.

    Recordings name files of packages with folders, those of a program without.
    """
    for name in reversed(stack.split(";")):
        match = _SAMPLED.match(name)
        file = match["file"] if match is not None else "/"
        if "/" not in file and file.removesuffix(".py") not in sys.stdlib_module_names and not file.startswith("<"):
            return name
    return ""


def _holders(trace: Trace, times: HostWorkTimes, rows: Int64) -> list[str]:
    """The threads that ran Python while some samples waited, each with its function."""
    holders, samples = times.holders[rows], trace.samples
    titles = trace.metadata.thread_names
    keys = zip(samples.process[holders].tolist(), samples.thread[holders].tolist(), strict=True)
    threads = [titles.get(key) or f"thread {key[1]}" for key in keys]
    return [f"{thread}: {name}" for thread, name in zip(threads, _stacks(trace, holders), strict=True)]


def _user_code(trace: Trace) -> Bool:
    frames = trace.frames
    numbers = [number for number in np.unique(frames.name_id).tolist() if is_user_code(trace.names[number])]
    return np.isin(frames.name_id, numbers)


def _frames(trace: Trace, rows: Int64) -> list[str]:
    """The functions of some Python frames, as recordings write them."""
    return [_function(name) for name in _named(trace.frames, rows)]


def _within(trace: Trace, rows: Int64, user: HostWork, parts: _Parts) -> list[str]:
    """The functions of some Python frames with the function of user code around each."""
    around = innermost(user, parts.process, parts.thread, parts.middle_ns).astype(np.int64)
    outer = [_function(name) for name in user.names.decode(at(user.name_id, around).astype(np.int32))]
    names = _frames(trace, rows)
    return [f"{name} in {place}" if place and place != name else name for name, place in zip(names, outer, strict=True)]


def _function(name: str) -> str:
    """A Python frame as recordings write it.

    >>> _function("net/train.py(12): load"), _function("<built-in function collect>")
    ('load (train.py:12)', 'gc.collect')
    """
    if built_in := _BUILT_IN.match(name):
        module = _MODULES.get(built_in[1])
        return f"{module}.{built_in[1]}" if module else built_in[1]
    line = LINE.match(name)
    if line is None:
        return name
    file = re.split(r"[/\\]", line["file"])[-1]
    return f"{line['function']} ({file}:{line['line']})"
