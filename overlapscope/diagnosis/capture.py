"""What a trace shows against capturing the launches of its steps in a CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.diagnosis.host_reads import Purpose, purposes
from overlapscope.measure.copies import host_kind
from overlapscope.measure.grouping import each_value
from overlapscope.measure.places import innermost, is_step
from overlapscope.measure.ranges import LEAST, repetition
from overlapscope.measure.waits import synchronised_copy
from overlapscope.measure.windows import Window, inside, rows_called
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import SYNC_CALLS, Direction, MemoryKind
from overlapscope.model.tables import Ranges
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import scalar_reads
from overlapscope.whatif.changes.cuda_graph import CudaGraph, captured
from overlapscope.whatif.changes.no_device_sync import NoDeviceSync
from overlapscope.whatif.changes.no_scalar_sync import NoScalarSync
from overlapscope.whatif.changes.pin import Pin


@dataclass(frozen=True)
class Capture:
    """Whether the launches of a step can be captured, as far as the trace tells.

    Attributes:
        refused: why they cannot, whatever else is changed; None where nothing shows that.
        needs: the changes that first take out what no capture may have between its launches, and what that is.
    """

    refused: str | None = None
    needs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, graph: Graph, window: Window) -> Capture:
        """Look between the launches of each step of a window; a step is the time in which its host range is open."""
        trace = graph.trace
        launching = np.zeros(len(trace.api_calls), np.bool_)
        launching[graph.calls.row[captured(graph, np.ones(len(trace.api_calls), np.bool_)) != NO_ID]] = True
        launching &= inside(trace.api_calls, window)
        steps = _steps(trace, window)
        between = _Between(trace, steps, launching)
        reads = np.flatnonzero(scalar_reads(trace) & (trace.copies.call != NO_ID))
        purpose = purposes(trace, reads)
        if between.mostly(trace.copies.call[reads[purpose == Purpose.SIZE]]):
            return cls("operators between its kernels read the sizes of their results")
        if not len(steps):
            return cls()
        if between.mostly(trace.copies.call[reads[purpose == Purpose.DECISION]]):
            return cls("the host reads between its kernels what to do next")
        if between.kernels_differ():
            return cls("its kernels differ from step to step")
        found = _needs(trace)
        return cls(needs=tuple((name, what) for name, (what, calls) in found.items() if between.mostly(calls)))

    def missing(self, names: frozenset[str]) -> str | None:
        """What changes of these names leave between the launches; None where nothing is known to be left."""
        left = [f"{what} between its kernels: {name} first" for name, what in self.needs if name not in names]
        return self.refused or next(iter(left), None)

    def allows(self, names: frozenset[str]) -> bool:
        """Whether changes of these names go together."""
        return CudaGraph.name not in names or self.missing(names) is None


def _needs(trace: Trace) -> dict[str, tuple[str, Int64]]:
    """By the change that takes them out: what no capture may have between its launches, and its calls."""
    copies = trace.copies
    synchronised = synchronised_copy(trace)
    pageable, waited = host_kind(copies) == MemoryKind.PAGEABLE, np.zeros(len(copies) + 1, np.bool_)
    waited[synchronised] = True
    down, values = copies.direction == Direction.DTOH, scalar_reads(trace)
    linked = down | (copies.direction == Direction.HTOD)
    alone = np.isin(trace.api_calls.kind, SYNC_CALLS) & (synchronised[: len(trace.api_calls)] == NO_ID)
    return {
        NoScalarSync.name: ("host reads", copies.call[down & (pageable | waited[:-1])]),
        Pin.name: ("pageable copies", copies.call[linked & pageable & ~values]),
        NoDeviceSync.name: ("synchronisations", np.flatnonzero(alone)),
    }


def _steps(trace: Trace, window: Window) -> Ranges:
    """The steps of a window: the occurrences of its range, those of torch's profiler, or what the program repeats."""
    if window.name is not None:
        return trace.ranges.take(rows_called(trace, window.name))
    steps = trace.ranges.take(is_step(trace))
    if not len(steps):
        repeated = repetition(trace)
        name = None if repeated is None else repeated.range
        steps = trace.ranges.take(rows_called(trace, name) if name is not None else np.empty(0, np.int64))
    return steps.take(inside(steps, window))


@dataclass(frozen=True, eq=False)
class _Between:
    """The steps of a trace, or its whole time as one, and their launches that a CUDA graph would have."""

    trace: Trace
    steps: Ranges
    launching: Bool

    def mostly(self, calls: Int64) -> bool:
        """Whether some calls lie between launches in half of the steps that launch; without steps, several of them."""
        table = self.trace.api_calls
        calls = calls[calls != NO_ID]
        lies = np.zeros(len(calls), np.bool_)
        step, launches = self._step(calls), np.flatnonzero(self.launching)
        of_launch = self._step(launches)
        for process, rows in each_value(table.process[launches]):
            begins, number = table.start_ns[launches[rows]], of_launch[rows]
            order = np.argsort(begins, kind="stable")
            begins, number = begins[order], number[order]
            here = np.flatnonzero(table.process[calls] == process)
            at = np.searchsorted(begins, table.start_ns[calls[here]])
            before, after = np.append(NO_ID, number)[at], np.append(number, NO_ID)[at]
            whole = not len(self.steps)
            edge = (at > 0) & (at < len(begins)) if whole else (before == step[here]) & (after == step[here])
            lies[here] = edge & (whole | (step[here] != NO_ID))
        if not len(self.steps):
            return int(lies.sum()) >= LEAST
        launching = np.unique(of_launch[of_launch != NO_ID])
        return bool(lies.any()) and 2 * len(np.unique(step[lies])) >= len(launching)

    def kernels_differ(self) -> bool:
        """Whether no sequence of kernels, by name and shape, is that of half of the steps."""
        kernels = self.trace.kernels
        rows = np.flatnonzero(kernels.call != NO_ID)
        rows = rows[self.launching[kernels.call[rows]]]
        rows = rows[np.argsort(self.trace.api_calls.start_ns[kernels.call[rows]], kind="stable")]
        step = self._step(kernels.call[rows].astype(np.int64))
        columns = kernels.name_id, kernels.blocks, kernels.threads_per_block
        shapes = np.stack([column[rows].astype(np.int64) for column in columns])
        alike: dict[bytes, int] = {}
        for number, places in each_value(step):
            if number != NO_ID:
                sequence = shapes[:, places].tobytes()
                alike[sequence] = alike.get(sequence, 0) + 1
        count = sum(alike.values())
        return count >= LEAST and 2 * max(alike.values()) < count

    def _step(self, calls: Int64) -> Int64:
        """The step around each of some calls, on any thread of its process; `NO_ID` where there is none."""
        table, anywhere = self.trace.api_calls, np.zeros(len(calls), np.int64)
        steps = replace(self.steps, thread=np.zeros(len(self.steps), np.int64))
        return innermost(steps, table.process[calls], anywhere, table.start_ns[calls]).astype(np.int64)
