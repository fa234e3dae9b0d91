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
from overlapscope.measure.spans import EMPTY, Spans, covered, merge, union
from overlapscope.model.columns import NO_ID, Bool, Int32, Int64
from overlapscope.model.enums import ALLOCATIONS, LAUNCHES
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

_LOADING = re.compile(
    r"^enumerate\(DataLoader\)"  # PyTorch's own range around the next batch
    r"|(^|/)torch/utils/data/.*: (__next__|__iter__|_next_data)$"
    r"|[Dd]ata_?[Ll]oader\w*\.py\(\d+\): (__next__|__iter__|_next_data)$"
)
_SETTING_UP = re.compile(
    r"(Module|Library)(Load|Get)|^(cu|hip)Init$|PrimaryCtxRetain|CtxCreate|GetDeviceProperties|StreamCreate|Occupancy"
)


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
        """Calls that loaded modules or set up a library, and first launches that did."""
        trace = self.trace
        return (
            self._first_launches
            | self._first_allocations
            | self._allocations_outside_loops
            | _named(trace, trace.api_calls, lambda name: _SETTING_UP.search(name) is not None)
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
    def _allocations_outside_loops(self) -> Bool:
        """Allocations and frees with no kernel that is launched both before and after them: no loop has them.

        So a program that runs several tests sets up each. Where a process has no kernel twice, what repeats is not
        known, and it has none of these.
        """
        kernels, calls = self.trace.kernels, self.trace.api_calls
        found = np.zeros(len(calls), np.bool_)
        launched_ns = np.where(kernels.call == NO_ID, kernels.start_ns, np.append(calls.start_ns, 0)[kernels.call])
        for process in np.unique(kernels.process).tolist():
            mine = kernels.process == process
            name, start_ns = kernels.name_id[mine], launched_ns[mine]
            _, kind, count = np.unique(name, return_inverse=True, return_counts=True)
            first, last = np.full(len(count), np.iinfo(np.int64).max), np.zeros(len(count), np.int64)
            np.minimum.at(first, kind, start_ns)
            np.maximum.at(last, kind, start_ns)
            again = count > 1
            if again.any():
                rows = np.flatnonzero(np.isin(calls.kind, ALLOCATIONS) & (calls.process == process))
                work = union(first[again], last[again])
                found[rows] = covered(calls.start_ns[rows], calls.end_ns[rows], work) == 0
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
    if not len(table):
        return found
    order = np.lexsort((table.start_ns, table.name_id, table.thread, table.process))
    kind = np.stack([table.process, table.thread, table.name_id])[:, order]
    begins = np.flatnonzero(np.append(True, (kind[:, 1:] != kind[:, :-1]).any(axis=0)))
    count = np.diff(np.append(begins, len(order)))
    enough = count > config.enough_later
    duration: Int64 = table.duration_ns
    for begin, number in zip(begins[enough].tolist(), count[enough].tolist(), strict=True):
        rows = order[begin : begin + number]
        found[rows[0]] = duration[rows[0]] > config.first_factor * float(np.median(duration[rows[1:]]))
    return found


def _named(trace: Trace, table: HostWork, matches: Callable[[str], bool]) -> Bool:
    """Which rows have a name that matches."""
    used: Int32 = np.unique(table.name_id)
    return np.isin(table.name_id, [number for number in used.tolist() if matches(trace.names[number])])
