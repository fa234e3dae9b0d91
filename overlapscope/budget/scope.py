"""`Scope`: the whole trace or the occurrences of a range, with its diagnosis, calls and copies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overlapscope.analysis.analysis import Analysis, diagnose
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.measure.copies import host_kind
from overlapscope.measure.devices import DeviceKey, device_keys
from overlapscope.measure.host import blocked_from_ns
from overlapscope.measure.places import enclosing, steps
from overlapscope.measure.waits import synchronised_copy
from overlapscope.measure.windows import Window, inside, on_host, range_rows
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ALLOCATIONS, LAUNCHES, SYNC_CALLS, ApiKind, MemoryKind
from overlapscope.model.tables import Ranges
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import scalar_reads


@dataclass(frozen=True, eq=False)
class Scope:
    """A window of a trace with its diagnosis, and its steps.

    ``steps`` are the outermost occurrences of the range; of another window, the steps of torch's profiler in it.
    """

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
        """The GPUs with work in the window."""
        return [key for key in device_keys(self.trace) if any(self._works(key))]

    def _works(self, key: DeviceKey) -> list[bool]:
        return [bool((key.rows(table) & inside(table, self.window)).any()) for table in self.trace.device_work]

    @cached_property
    def host_window(self) -> Window:
        """The window on the host alone: of a range, from the begin of each occurrence to its end there."""
        return on_host(self.trace, self.window)

    @cached_property
    def calls(self) -> Bool:
        """The calls that begin in the window on the host, but for `frame_calls`."""
        calls = self.trace.api_calls
        within = self.host_window.touches(calls.process, calls.start_ns, calls.start_ns)
        result: Bool = within & (calls.parent == NO_ID) & ~frame_calls(self.trace)
        return result

    @cached_property
    def copies(self) -> Bool:
        """The copies that a call of the window issued, and those without a known call that ran in it."""
        copies = self.trace.copies
        if self.window.is_whole:
            return np.ones(len(copies), np.bool_)
        start_ns = np.append(self.trace.api_calls.start_ns, 0)[copies.call]
        issued = self.host_window.touches(copies.process, start_ns, start_ns)
        return np.where(copies.call != NO_ID, issued, inside(copies, self.window))

    @cached_property
    def blocked_from_ns(self) -> Int64:
        """The time from which each call blocks its thread; its end where it does not, or does not count."""
        calls = self.trace.api_calls
        return np.where(frame_calls(self.trace), calls.end_ns, blocked_from_ns(calls))

    def rows_of_step(self, rows: Int64, step: int) -> Int64:
        """The calls among ``rows`` that begin in a step, on any thread of its process."""
        calls, at = self.trace.api_calls, self.steps
        start_ns = calls.start_ns[rows]
        here = (start_ns >= at.start_ns[step]) & (start_ns < at.end_ns[step])
        result: Int64 = rows[here & (calls.process[rows] == at.process[step])]
        return result

    def per_step(self, rows: Int64) -> Int64:
        """The number of calls among ``rows`` that begin in each step, on any thread of its process."""
        calls, at = self.trace.api_calls, self.steps
        result = np.zeros(len(at), np.int64)
        for process in np.unique(at.process).tolist():
            of_process = at.process == process
            start_ns = np.sort(calls.start_ns[rows[calls.process[rows] == process]])
            first, last = (np.searchsorted(start_ns, edge[of_process]) for edge in (at.start_ns, at.end_ns))
            result[of_process] = last - first
        return result


def scope_of(analysis: Analysis, name: str | None, *, plan: bool = True) -> Scope:
    """The scope of a range, or of the analysed window; without a plan nothing is simulated.

    Raises:
        RangeNotFound: the trace has no such range.
    """
    trace, diagnosis = analysis.trace, diagnose(analysis, name, plan=plan)
    rows = range_rows(trace, diagnosis.window)
    if rows is None:
        every = steps(trace)
        return Scope(diagnosis, every.take(inside(every, diagnosis.window)))
    occurrences = trace.ranges.take(rows)
    return Scope(diagnosis, occurrences.take(enclosing(occurrences) == NO_ID))


def frame_calls(trace: Trace) -> Bool:
    """The device synchronisations before the first or after the last call that gives the GPU work.

    They begin and end a recording: nothing was launched before them, or nothing is launched after them.
    """
    calls = trace.api_calls
    gives_work = np.isin(calls.kind, (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.MEMSET))
    result = np.zeros(len(calls), np.bool_)
    for process in np.unique(calls.process).tolist():
        of_process = calls.process == process
        given = calls.start_ns[of_process & gives_work]
        if len(given):
            result |= of_process & ((calls.start_ns < given.min()) | (calls.start_ns > given.max()))
    result &= calls.kind == ApiKind.DEVICE_SYNC
    return result


def waits_by_name(trace: Trace) -> Bool:
    """The copy calls that wait by their name: ``cudaMemcpy`` and its like, from whatever memory they copy."""
    calls = trace.api_calls
    copying = calls.kind == ApiKind.COPY
    names = [number for number in np.unique(calls.name_id[copying]).tolist() if "Async" not in trace.names[number]]
    result: Bool = copying & np.isin(calls.name_id, names)
    return result


def waited_for(trace: Trace) -> Bool:
    """The copies to the host that it waits for: to pageable memory, by their call, or by the next call."""
    copies = trace.copies
    followed = _copy_waited_for(trace)
    waited = np.zeros(len(copies) + 1, np.bool_)
    waited[followed] = True
    by_name = np.append(waits_by_name(trace), False)[copies.call]
    result: Bool = waited[:-1] | by_name | (host_kind(copies) == MemoryKind.PAGEABLE)
    return result


def rule_of_calls(trace: Trace, rows: Int64, amounts: Int64) -> str | None:
    """The rule under which most of the calls fall, each with its amount: the time for which it blocks, or 1."""
    calls, copies = trace.api_calls, trace.copies
    after, values = _copy_waited_for(trace), scalar_reads(trace)
    reading = np.append(values, False)[after] | _issuing(trace, values)
    pageable = _issuing(trace, host_kind(copies) == MemoryKind.PAGEABLE) & ~reading
    kind = calls.kind
    waiting = np.isin(kind, (*SYNC_CALLS, ApiKind.COPY))
    of_rule: dict[str, Bool] = {
        "OVL001": pageable & (kind == ApiKind.COPY),
        "OVL004": waiting & ~reading & ~pageable,
        "OVL005": waiting & reading,
        "OVL009": np.isin(kind, ALLOCATIONS),
        "OVL012": np.isin(kind, LAUNCHES),
    }
    of_rule["OVL008"] = ~np.logical_or.reduce(list(of_rule.values()))  # other calls make the host late too
    spent = {code: int(amounts[calls_of_rule[rows]].sum()) for code, calls_of_rule in of_rule.items()}
    return max(spent, key=lambda code: spent[code]) if any(spent.values()) else None


def _copy_waited_for(trace: Trace) -> Int64:
    """The copy right before each synchronising call that it waits for; `NO_ID` where there is none.

    A synchronisation with an event may wait for an earlier copy: its event was recorded before this one was issued,
    or, where the record is not known, it ends before this one does.
    """
    calls, copies, syncs = trace.api_calls, trace.copies, trace.syncs
    copy = synchronised_copy(trace)
    record = np.full(len(calls) + 1, NO_ID, np.int64)
    record[syncs.call] = syncs.record_call
    record = record[:-1]
    issued_ns = np.append(calls.start_ns, 0)[np.append(copies.call, NO_ID)[copy]]
    recorded_before = np.append(calls.start_ns, 0)[record] < issued_ns
    ends_before = calls.end_ns < np.append(copies.end_ns, 0)[copy]
    earlier = np.where(record == NO_ID, ends_before, recorded_before)
    result: Int64 = np.where(earlier & (calls.kind == ApiKind.EVENT_SYNC), NO_ID, copy)
    return result


def _issuing(trace: Trace, copies: Bool) -> Bool:
    """The calls that issued the given copies."""
    result = np.zeros(len(trace.api_calls) + 1, np.bool_)
    result[trace.copies.call[copies]] = True
    return result[:-1]
