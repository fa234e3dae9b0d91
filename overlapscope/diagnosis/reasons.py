"""Attribute every idle interval, and every copy, to one rule."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.catalogue import CLAIMING, RULES
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.measure.distinct import distinct_columns
from overlapscope.measure.spans import meeting
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LINK

CODES = tuple(rule.code for rule in RULES)
"""Codes of the rules; reasons are indices into them."""
_FIXED_BY_OVERLAP = ("OVL002", "OVL004", "OVL006")
"""Rules whose fix lets copies overlap kernels."""


def reason_of(context: DeviceContext) -> Int64:
    """For each idle interval the index of its rule in the catalogue; `NO_ID` for the start-up of the window."""
    reason = np.full(len(context.idle), NO_ID, np.int64)
    for rule in CLAIMING:
        reason[(reason == NO_ID) & rule.claims(context)] = CODES.index(rule.code)
    reason[(reason == NO_ID) & ~context.startup] = CODES.index("OVL000")
    return _with_nothing_to_hide_behind(context, reason)


def _with_nothing_to_hide_behind(context: DeviceContext, reason: Int64) -> Int64:
    """Attribute exposed copies to OVL011 where there is not enough kernel time that they could overlap.

    The same holds for an upload that ends before the first kernel and takes longer than all kernels together.
    """
    fixable = np.isin(reason, [CODES.index(code) for code in _FIXED_BY_OVERLAP])
    exposed = fixable & (2 * context.link_copy_ns > context.idle.duration_ns)
    kernels = context.activity.kernels
    upload = exposed & (context.idle.end_ns <= (kernels.start_ns[0] if len(kernels) else 0))
    total, before = (int(context.idle.duration_ns[rows].sum()) for rows in (exposed, upload))
    nothing = context.kernel_only_ns < context.config.hideable_share * total
    first = before > (1 - context.config.hideable_share) * total and before > context.kernel_only_ns
    return np.where(exposed & (nothing or first), CODES.index("OVL011"), reason)


def reason_of_copies(context: DeviceContext, reason: Int64) -> Int64:
    """For each copy the rule with most of its cost; `NO_ID` for copies that cost nothing.

    The cost of a copy is the idle intervals that are attributed to it. Where there are none, it is those in which it
    ran: the reason for which the device was idle then also exposed the copy.
    """
    copies, idle = context.trace.copies, context.idle
    known = reason != NO_ID
    own = known & (context.copy != NO_ID) & np.isin(context.direction, LINK)
    result = _costliest(len(copies), context.copy[own], reason[own], idle.duration_ns[own])
    rows = np.flatnonzero(context.activity.key.rows(copies) & np.isin(copies.direction, LINK) & (result == NO_ID))
    which, interval = meeting(copies.start_ns[rows], copies.end_ns[rows], idle.start_ns, idle.end_ns)
    which, interval = which[known[interval]], interval[known[interval]]
    shared = np.minimum(copies.end_ns[rows[which]], idle.end_ns[interval])
    shared -= np.maximum(copies.start_ns[rows[which]], idle.start_ns[interval])
    exposed = _costliest(len(copies), rows[which], reason[interval], shared)
    return np.where(result == NO_ID, exposed, result)


def _costliest(count: int, copy: Int64, reason: Int64, idle_ns: Int64) -> Int64:
    """For each copy the reason with the largest sum."""
    result = np.full(count, NO_ID, np.int64)
    pairs, member = distinct_columns(np.stack([copy, reason]))
    totals = np.zeros(pairs.shape[1], np.int64)
    np.add.at(totals, member, idle_ns)
    order = np.argsort(totals, kind="stable")  # the largest is written last
    result[pairs[0][order]] = pairs[1][order]
    return result
