"""What a host thread's own work was: loading data, using something for the first time, or anything else.

Kernels are loaded when they are launched first (CUDA C++ Programming Guide, "Lazy Loading"); libraries such as cuBLAS
and the caching allocator set themselves up in the operator that needs them first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.host import MODULE_LOADING
from overlapscope.measure.places import innermost
from overlapscope.measure.spans import EMPTY, Spans, merge, union
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import ALLOCATIONS, LAUNCHES, ApiKind
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

_LOADING = re.compile(
    r"^enumerate\(DataLoader\)"  # PyTorch's own range around the next batch
    r"|(^|/)torch/utils/data/.*: (__next__|__iter__|_next_data)$"
)
_LOADS = re.compile(r"(Module|Library)Load|^(cu|hip)Init$|PrimaryCtxRetain|CtxCreate")
"""Calls that load a module or make a context: each of them does so once."""
_MAY_SET_UP = (((ApiKind.OTHER,), True), (ALLOCATIONS, False))
"""Kinds of calls whose first may set something up, and whether it does where there are few later ones: a lone
allocation may be one that every step makes."""


@dataclass(frozen=True)
class HostWorkConfig:
    """When a launch or an operator was the first of its kind.

    ``first_factor``: the first one takes this many times the median of the later ones; loading a module takes 0.1 to
    100 ms, a launch 4 to 10 us.
    ``enough_later``: with fewer later ones, which are the usual ones is not known.
    """

    first_factor: float = 10.0
    enough_later: int = 3


@dataclass(frozen=True, eq=False)
class HostWorkKinds:
    """The work of every thread of a trace by its kind."""

    trace: Trace
    config: HostWorkConfig = HostWorkConfig()

    def loading(self, process: int, thread: int) -> Spans:
        """When a thread waited for the next batch of a data loader, or made it."""
        tables = (self.trace.cpu_ops, self.trace.ranges, self.trace.frames)
        return merge(
            *(spans_of(table, process, thread, rows) for table, rows in zip(tables, self._loading, strict=True))
        )

    def first_use(self, process: int, thread: int) -> Spans:
        """When a thread loaded modules, or ran an operator that was slow the first time only."""
        trace = self.trace
        rows = (_named(trace, trace.overheads, MODULE_LOADING.__contains__), self._first_ops)
        tables = (trace.overheads, trace.cpu_ops)
        return merge(*(spans_of(table, process, thread, mine) for table, mine in zip(tables, rows, strict=True)))

    @cached_property
    def _loading(self) -> tuple[Bool, ...]:
        trace = self.trace
        return tuple(
            _named(trace, table, lambda name: _LOADING.search(name.replace("\\", "/")) is not None)
            for table in (trace.cpu_ops, trace.ranges, trace.frames)
        )

    @cached_property
    def first_calls(self) -> Bool:
        """Calls that loaded modules or made a context, and first calls of a kind that set something up."""
        trace = self.trace
        return (
            self._first_launches
            | self._first_allocations
            | self._first_of_name
            | _named(trace, trace.api_calls, lambda name: _LOADS.search(name) is not None)
        )

    @cached_property
    def _first_launches(self) -> Bool:
        """Calls that launched a kernel for the first time and took much longer than launches usually do."""
        kernels, calls = self.trace.kernels, self.trace.api_calls
        launching = np.flatnonzero(kernels.call != NO_ID)
        order = launching[np.argsort(calls.start_ns[kernels.call[launching]], kind="stable")]
        _, kind = distinct_columns(np.stack([kernels.process, kernels.device, kernels.name_id])[:, order])
        _, first = np.unique(kind, return_index=True)
        usual = calls.duration_ns[np.isin(calls.kind, LAUNCHES)]
        found = np.zeros(len(calls), np.bool_)
        if len(usual) > self.config.enough_later:
            found[kernels.call[order[first]]] = True
            found &= calls.duration_ns > self.config.first_factor * float(np.median(usual))
        return found

    @cached_property
    def _first_allocations(self) -> Bool:
        """Allocations and frees in the first call of an operator whose later calls seldom make any.

        So a library makes its handle and its workspace, and the caching allocator gets its first memory.
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
        found = np.zeros(len(calls), np.bool_)
        found[rows[first & (seldom | (later == 0))[kind[inside]]]] = True
        return found

    @cached_property
    def _first_of_name(self) -> Bool:
        """The first call of each name in a process, where it set something up: it is far slower than the later ones.

        Only calls that are not there for work on a device count.
        """
        calls = self.trace.api_calls
        found = np.zeros(len(calls), np.bool_)
        for kinds, few in _MAY_SET_UP:
            rows = np.flatnonzero(np.isin(calls.kind, kinds))
            rows = rows[np.lexsort((calls.start_ns[rows], calls.name_id[rows], calls.process[rows]))]
            kind = np.stack([calls.process, calls.name_id.astype(np.int64)])[:, rows]
            found[rows] = _first_of_kind(kind, calls.duration_ns[rows], self.config, few=few)
        return found

    @cached_property
    def _first_ops(self) -> Bool:
        return _slow_first(self.trace.cpu_ops, self.config)


def spans_of(table: HostWork, process: int, thread: int, some: Bool | None = None) -> Spans:
    """When a thread ran events of a table, or some of them."""
    here: Bool = (table.process == process) & (table.thread == thread)
    here = here if some is None else here & some
    return union(table.start_ns[here], table.end_ns[here]) if here.any() else EMPTY


def _slow_first(table: HostWork, config: HostWorkConfig) -> Bool:
    """Which rows are the first of their name on a thread and much slower than those after them."""
    found = np.zeros(len(table), np.bool_)
    order = np.lexsort((table.start_ns, table.name_id, table.thread, table.process))
    kind = np.stack([table.process, table.thread, table.name_id.astype(np.int64)])[:, order]
    found[order] = _first_of_kind(kind, table.duration_ns[order], config, few=False)
    return found


def _first_of_kind(kind: Int64, duration_ns: Int64, config: HostWorkConfig, *, few: bool) -> Bool:
    """Which entries, sorted by kind and time, are the first of their kind and much slower than those after them.

    With ``few`` the first counts too where there are too few later ones to compare it with.
    """
    found = np.zeros(len(duration_ns), np.bool_)
    if not len(duration_ns):
        return found
    begins = np.flatnonzero(np.append(True, (kind[:, 1:] != kind[:, :-1]).any(axis=0)))
    count = np.diff(np.append(begins, len(duration_ns)))
    enough = count > config.enough_later
    found[begins] = few & ~enough
    for begin, number in zip(begins[enough].tolist(), count[enough].tolist(), strict=True):
        usual = float(np.median(duration_ns[begin + 1 : begin + number]))
        found[begin] = duration_ns[begin] > config.first_factor * usual
    return found


def _named(trace: Trace, table: HostWork, matches: Callable[[str], bool]) -> Bool:
    """Which rows have a name that matches."""
    used: Int32 = np.unique(table.name_id)
    return np.isin(table.name_id, [number for number in used.tolist() if matches(trace.names[number])])
