"""What the calls of a trace wait for: which copies, by their names, and which rule is about them."""

from __future__ import annotations

import numpy as np

from overlapscope.measure.copies import host_kind
from overlapscope.measure.issue import synchronised_copy
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ALLOCATIONS, LAUNCHES, SYNC_CALLS, ApiKind, MemoryKind
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import scalar_reads


def waits_by_name(trace: Trace) -> Bool:
    """Which copy calls wait by their name: ``cudaMemcpy`` and its like, from whatever memory they copy."""
    calls = trace.api_calls
    copying = calls.kind == ApiKind.COPY
    names = [number for number in np.unique(calls.name_id[copying]).tolist() if "Async" not in trace.names[number]]
    result: Bool = copying & np.isin(calls.name_id, names)
    return result


def waited_for(trace: Trace) -> Bool:
    """Which copies to the host the host waits for: to pageable memory, by their call, or by the next call."""
    copies = trace.copies
    followed = _copy_waited_for(trace)
    waited = np.zeros(len(copies) + 1, np.bool_)
    waited[followed] = True
    by_name = np.append(waits_by_name(trace), False)[copies.call]
    result: Bool = waited[:-1] | by_name | (host_kind(copies) == MemoryKind.PAGEABLE)
    return result


def rule_of_calls(trace: Trace, rows: Int64, amounts: Int64) -> str | None:
    """The rule about most of some calls, each with its amount: of time for which it blocks, or of calls."""
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
    spent = {code: int(amounts[mine[rows]].sum()) for code, mine in of_rule.items()}
    return max(spent, key=lambda code: spent[code]) if any(spent.values()) else None


def _copy_waited_for(trace: Trace) -> Int64:
    """For each synchronising call, the copy right before it that it waits for; `NO_ID` where there is none.

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
    """Which calls issued some copies."""
    result = np.zeros(len(trace.api_calls) + 1, np.bool_)
    result[trace.copies.call[copies]] = True
    return result[:-1]
