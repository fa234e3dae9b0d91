"""What a program does once: it loads modules, makes a context, and its libraries set themselves up.

Kernels are loaded when they are launched first (CUDA C++ Programming Guide, "Lazy Loading"); libraries such as cuBLAS
and the caching allocator set themselves up in the operator that needs them first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.measure.grouping import distinct_columns
from overlapscope.measure.host import MODULE_LOADING
from overlapscope.measure.host_work import spans_on
from overlapscope.measure.places import innermost
from overlapscope.measure.spans import Spans, merge
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import ALLOCATIONS, LAUNCHES, ApiKind
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

_LOADS = re.compile(r"(Module|Library)Load|^(cu|hip)Init$|PrimaryCtxRetain|CtxCreate")
"""Calls that load a module or make a context: each of them does so once."""
_MAY_SET_UP = (((ApiKind.OTHER,), True), (ALLOCATIONS, False))
"""Kinds of calls whose first may set something up, and whether it does where there are few later ones: a lone
allocation may be one that every step makes."""


_FIRST_FACTOR = 10.0
"""The first launch or operator of a kind takes this many times the median of the later ones.

Loading a module takes 0.1 to 100 ms, a launch 4 to 10 us.
"""
_ENOUGH_LATER = 3
"""With fewer later calls it is not known how long these take."""


@dataclass(frozen=True, eq=False)
class FirstUse:
    """What the threads of a trace did once: load modules, set up libraries."""

    trace: Trace

    def of(self, process: int, thread: int) -> Spans:
        """The time in which a thread loaded modules, or ran an operator that was slow the first time only."""
        return merge(*(spans_on(table, process, thread, rows) for table, rows in self._setup))

    @cached_property
    def _setup(self) -> tuple[tuple[HostWork, Bool], ...]:
        overheads, ops = self.trace.overheads, self.trace.cpu_ops
        slow = _slow_first(ops, np.arange(len(ops)), ("process", "thread", "name_id"))
        return (overheads, _named(self.trace, overheads, MODULE_LOADING.__contains__)), (ops, slow)

    @cached_property
    def calls(self) -> Bool:
        """Mask of calls that loaded modules or made a context, and of first calls that set something up."""
        trace = self.trace
        return (
            self._first_launches
            | self._first_allocations
            | self._first_of_name
            | _named(trace, trace.api_calls, lambda name: _LOADS.search(name) is not None)
        )

    @cached_property
    def _first_launches(self) -> Bool:
        """Mask of calls that launched a kernel for the first time and took much longer than other launches."""
        kernels, calls = self.trace.kernels, self.trace.api_calls
        launching = np.flatnonzero(kernels.call != NO_ID)
        order = launching[np.argsort(calls.start_ns[kernels.call[launching]], kind="stable")]
        _, kind = distinct_columns(np.stack([kernels.process, kernels.device, kernels.name_id])[:, order])
        _, first = np.unique(kind, return_index=True)
        launches_ns = calls.duration_ns[np.isin(calls.kind, LAUNCHES)]
        result = np.zeros(len(calls), np.bool_)
        if len(launches_ns) > _ENOUGH_LATER:
            result[kernels.call[order[first]]] = True
            result &= calls.duration_ns > _FIRST_FACTOR * float(np.median(launches_ns))
        return result

    @cached_property
    def _first_allocations(self) -> Bool:
        """Mask of allocations and frees in the first call of an operator whose later calls seldom make any.

        A library makes its handle and its workspace there, and the caching allocator gets its first memory.
        """
        calls, ops = self.trace.api_calls, self.trace.cpu_ops
        rows = np.flatnonzero(np.isin(calls.kind, ALLOCATIONS) & (calls.parent == NO_ID))
        inside = innermost(ops, calls.process[rows], calls.thread[rows], calls.start_ns[rows])
        rows, inside = rows[inside != NO_ID], inside[inside != NO_ID]
        _, kind = distinct_columns(np.stack([ops.process, ops.name_id.astype(np.int64)]))
        begins = np.full(int(kind.max(initial=-1)) + 1, np.iinfo(np.int64).max)
        np.minimum.at(begins, kind, ops.start_ns)
        first = ops.start_ns[inside] == begins[kind[inside]]
        later = np.bincount(kind[np.unique(inside[~first])], minlength=len(begins))
        seldom = 2 * later < np.bincount(kind, minlength=len(begins)) - 1
        result = np.zeros(len(calls), np.bool_)
        result[rows[first & (seldom | (later == 0))[kind[inside]]]] = True
        return result

    @cached_property
    def _first_of_name(self) -> Bool:
        """Mask of first calls of their name in a process that set something up: they are far slower than later ones.

        Only calls that are not there for work on a device count.
        """
        calls = self.trace.api_calls
        result = np.zeros(len(calls), np.bool_)
        for kinds, few in _MAY_SET_UP:
            rows = np.flatnonzero(np.isin(calls.kind, kinds))
            result |= _slow_first(calls, rows, ("process", "name_id"), few=few)
        return result


def _slow_first(table: HostWork, rows: Int64, keys: tuple[str, ...], *, few: bool = False) -> Bool:
    """The first row of each kind that is much slower than those after it; rows of one kind agree in the keys.

    With ``few`` the first counts too where there are too few later ones to compare it with.
    """
    result = np.zeros(len(table), np.bool_)
    if not len(rows):
        return result
    rows = rows[np.lexsort([table.start_ns[rows], *(getattr(table, key)[rows] for key in reversed(keys))])]
    kind = np.stack([getattr(table, key)[rows].astype(np.int64) for key in keys])
    begins = np.flatnonzero(np.append(True, (kind[:, 1:] != kind[:, :-1]).any(axis=0)))
    count, duration_ns = np.diff(np.append(begins, len(rows))), table.duration_ns[rows]
    enough = count > _ENOUGH_LATER
    result[rows[begins]] = few & ~enough
    for begin, number in zip(begins[enough].tolist(), count[enough].tolist(), strict=True):
        later = float(np.median(duration_ns[begin + 1 : begin + number]))
        result[rows[begin]] = duration_ns[begin] > _FIRST_FACTOR * later
    return result


def _named(trace: Trace, table: HostWork, matches: Callable[[str], bool]) -> Bool:
    """Mask of rows with a name that matches."""
    used: Int32 = np.unique(table.name_id)
    return np.isin(table.name_id, [number for number in used.tolist() if matches(trace.names[number])])
