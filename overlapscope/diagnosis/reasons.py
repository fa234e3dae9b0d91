"""One reason for each lost stretch, and one for each copy."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.catalogue import CLAIMING, RULES
from overlapscope.diagnosis.device_context import DeviceContext
from overlapscope.measure.spans import meeting
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import LINK

CODES = tuple(rule.code for rule in RULES)
"""Codes by the number that stands for a reason."""
_BESIDE_KERNELS = ("OVL002", "OVL004", "OVL006")
"""Reasons whose remedy is to copy beside kernels."""


def reason_of(context: DeviceContext) -> Int64:
    """For each lost stretch the index of its rule in the catalogue; `NO_ID` for the beginning of the window."""
    reason = np.full(len(context.idle), NO_ID, np.int64)
    for rule in CLAIMING:
        reason[(reason == NO_ID) & rule.claims(context)] = CODES.index(rule.code)
    reason[(reason == NO_ID) & ~context.beginning] = CODES.index("OVL000")
    return _with_nothing_to_hide_behind(context, reason)


def _with_nothing_to_hide_behind(context: DeviceContext, reason: Int64) -> Int64:
    """Copies that kernels could not cover, wherever they stood, have no better reason than that.

    Nor have those of an upload that is over before the first kernel and takes longer than all kernels there are.
    """
    remedy = np.isin(reason, [CODES.index(code) for code in _BESIDE_KERNELS])
    exposed = remedy & (2 * context.copying_ns > context.idle.duration_ns)
    kernels = context.activity.kernels
    upload = exposed & (context.idle.end_ns <= (kernels.start_ns[0] if len(kernels) else 0))
    total, before = (int(context.idle.duration_ns[rows].sum()) for rows in (exposed, upload))
    nothing = context.uncovered_kernel_ns < context.config.hidable_share * total
    first = before > (1 - context.config.hidable_share) * total and before > context.uncovered_kernel_ns
    return np.where(exposed & (nothing or first), CODES.index("OVL011"), reason)


def reason_of_copies(context: DeviceContext, reason: Int64) -> Int64:
    """For each copy of the trace the number of the reason that cost most; `NO_ID` for those that cost nothing.

    A copy costs the stretches that are laid to it. Where none are, those in which it ran: it was exposed by what made
    the device wait at that time.
    """
    copies, idle = context.trace.copies, context.idle
    known = reason != NO_ID
    laid = known & (context.copy != NO_ID) & np.isin(context.direction, LINK)
    result = _costliest(len(copies), context.copy[laid], reason[laid], idle.duration_ns[laid])
    rows = np.flatnonzero(context.activity.key.rows(copies) & np.isin(copies.direction, LINK) & (result == NO_ID))
    which, stretch = meeting(copies.start_ns[rows], copies.end_ns[rows], idle.start_ns, idle.end_ns)
    which, stretch = which[known[stretch]], stretch[known[stretch]]
    shared = np.minimum(copies.end_ns[rows[which]], idle.end_ns[stretch])
    shared -= np.maximum(copies.start_ns[rows[which]], idle.start_ns[stretch])
    exposed = _costliest(len(copies), rows[which], reason[stretch], shared)
    return np.where(result == NO_ID, exposed, result)


def _costliest(count: int, copy: Int64, reason: Int64, idle_ns: Int64) -> Int64:
    """For each copy the reason with the largest sum."""
    result = np.full(count, NO_ID, np.int64)
    pairs, member = np.unique(np.stack([copy, reason]), axis=1, return_inverse=True)
    totals = np.zeros(pairs.shape[1], np.int64)
    np.add.at(totals, member.reshape(-1), idle_ns)
    order = np.argsort(totals, kind="stable")  # the largest is written last
    result[pairs[0][order]] = pairs[1][order]
    return result
