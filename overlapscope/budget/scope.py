"""What limits are about: the whole trace, or the occurrences of a range, with its diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.diagnosis.attribution import Attribution
from overlapscope.diagnosis.config import DiagnosisConfig
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.diagnosis.run import diagnose_window
from overlapscope.measure.devices import DeviceKey, device_keys
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.places import enclosing, steps
from overlapscope.measure.windows import Window, inside, rows_called, window_of
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.model.tables import Ranges
from overlapscope.model.trace import Trace


@dataclass(frozen=True, eq=False)
class Scope:
    """A window of a trace with its diagnosis, and its steps.

    ``steps`` are the outermost occurrences of the range; of the whole trace, the steps of torch's profiler.
    """

    name: str | None
    diagnosis: Diagnosis
    steps: Ranges

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.diagnosis.trace

    @property
    def window(self) -> Window:
        """The window, up to the end of the device work of each step."""
        return self.diagnosis.window

    @cached_property
    def devices(self) -> list[DeviceKey]:
        """Every GPU with work in the window."""
        return [key for key in device_keys(self.trace) if any(self._works(key))]

    def _works(self, key: DeviceKey) -> list[bool]:
        return [
            bool((key.rows(table) & inside(self.trace, table, self.window)).any()) for table in self.trace.device_work
        ]

    @cached_property
    def host_window(self) -> Window:
        """The window on the host alone: of a range, from the begin of each step to its end there."""
        if self.name is None:
            return self.window
        return Window(self.name, self.steps.start_ns, self.steps.end_ns, self.steps.process)

    @cached_property
    def calls(self) -> Bool:
        """Which calls count: those that begin in the window on the host, but for `frame_calls`."""
        calls = self.trace.api_calls
        within = self.host_window.touches(calls.process, calls.start_ns, calls.start_ns)
        result: Bool = within & (calls.parent == NO_ID) & ~frame_calls(self.trace)
        return result

    @cached_property
    def copies(self) -> Bool:
        """Which copies count: those that a call of the window issued, or without a known call those that ran in it."""
        copies = self.trace.copies
        if self.name is None:
            return np.ones(len(copies), np.bool_)
        start_ns = np.append(self.trace.api_calls.start_ns, 0)[copies.call]
        issued = self.host_window.touches(copies.process, start_ns, start_ns)
        return np.where(copies.call != NO_ID, issued, inside(self.trace, copies, self.window))

    @cached_property
    def blocked_from_ns(self) -> Int64:
        """For each call the time from which it blocks its thread; its end where it does not, or does not count."""
        calls = self.trace.api_calls
        return np.where(frame_calls(self.trace), calls.end_ns, blocked_from_ns(self.trace))

    def rows_of_step(self, rows: Int64, step: int) -> Int64:
        """Which of some calls begin in a step, on any thread of its process."""
        calls, at = self.trace.api_calls, self.steps
        start_ns = calls.start_ns[rows]
        here = (start_ns >= at.start_ns[step]) & (start_ns < at.end_ns[step])
        result: Int64 = rows[here & (calls.process[rows] == at.process[step])]
        return result

    def per_step(self, rows: Int64) -> Int64:
        """For each step, how many of some calls begin in it, on any thread of its process."""
        calls, at = self.trace.api_calls, self.steps
        result = np.zeros(len(at), np.int64)
        for process in np.unique(at.process).tolist():
            mine = at.process == process
            start_ns = np.sort(calls.start_ns[rows[calls.process[rows] == process]])
            first, last = (np.searchsorted(start_ns, edge[mine]) for edge in (at.start_ns, at.end_ns))
            result[mine] = last - first
        return result


def scope_of(attribution: Attribution, name: str | None, config: DiagnosisConfig) -> Scope:
    """The scope of a range, or of the whole trace.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    trace = attribution.graph.trace
    diagnosis = diagnose_window(attribution, window_of(trace, name), config)
    if name is None:
        return Scope(None, diagnosis, steps(trace))
    occurrences = trace.ranges.take(rows_called(trace, name))
    return Scope(name, diagnosis, occurrences.take(enclosing(occurrences) == NO_ID))


def frame_calls(trace: Trace) -> Bool:
    """Device synchronisations before the first or after the last call that gives the GPU work.

    They begin and end a recording: nothing was launched before them, or nothing is launched after them.
    """
    calls = trace.api_calls
    gives_work = np.isin(calls.kind, (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.MEMSET))
    result = np.zeros(len(calls), np.bool_)
    for process in np.unique(calls.process).tolist():
        mine = calls.process == process
        given = calls.start_ns[mine & gives_work]
        if len(given):
            result |= mine & ((calls.start_ns < given.min()) | (calls.start_ns > given.max()))
    result &= calls.kind == ApiKind.DEVICE_SYNC
    return result
