"""One reason for each lost stretch, and one for each copy."""

from __future__ import annotations

import numpy as np

from overlapscope.diagnosis.case import Case
from overlapscope.diagnosis.catalogue import CLAIMING, RULES
from overlapscope.measure.queues import LINK
from overlapscope.measure.spans import meeting
from overlapscope.model.columns import NO_ID, Int64

CODES = tuple(rule.code for rule in RULES)
"""Codes by the number that stands for a reason."""
_BESIDE_KERNELS = ("OVL002", "OVL004", "OVL006")
"""Reasons whose remedy is to copy beside kernels."""


def reason_of(case: Case) -> Int64:
    """For each lost stretch the index of its rule in the catalogue; `NO_ID` for the beginning of the window."""
    reason = np.full(len(case.losses), NO_ID, np.int64)
    for rule in CLAIMING:
        reason[(reason == NO_ID) & rule.claims(case)] = CODES.index(rule.code)
    reason[(reason == NO_ID) & ~case.beginning] = CODES.index("OVL000")
    return _with_nothing_to_hide_behind(case, reason)


def _with_nothing_to_hide_behind(case: Case, reason: Int64) -> Int64:
    """Copies that kernels could not cover, wherever they stood, have no better reason than that.

    Nor have those of an upload that is over before the first kernel and takes longer than all kernels there are.
    """
    remedy = np.isin(reason, [CODES.index(code) for code in _BESIDE_KERNELS])
    exposed = remedy & (2 * case.copying_ns > case.losses.duration_ns)
    kernels = case.activity.kernels
    upload = exposed & (case.losses.end_ns <= (kernels.start_ns[0] if len(kernels) else 0))
    total, before = (int(case.losses.duration_ns[rows].sum()) for rows in (exposed, upload))
    nothing = case.uncovered_kernel_ns < case.config.hidable_share * total
    first = before > (1 - case.config.hidable_share) * total and before > case.uncovered_kernel_ns
    return np.where(exposed & (nothing or first), CODES.index("OVL011"), reason)


def reason_of_copies(case: Case, reason: Int64) -> Int64:
    """For each copy of the trace the number of the reason that cost most; `NO_ID` for those that cost nothing.

    A copy costs the stretches that are laid to it. Where none are, those in which it ran: it was exposed by what made
    the device wait at that time.
    """
    copies, losses = case.trace.copies, case.losses
    known = reason != NO_ID
    laid = known & (case.copy != NO_ID) & np.isin(case.direction, LINK)
    result = _costliest(len(copies), case.copy[laid], reason[laid], losses.duration_ns[laid])
    rows = np.flatnonzero(case.activity.key.rows(copies) & np.isin(copies.direction, LINK) & (result == NO_ID))
    which, stretch = meeting(copies.start_ns[rows], copies.end_ns[rows], losses.start_ns, losses.end_ns)
    which, stretch = which[known[stretch]], stretch[known[stretch]]
    shared = np.minimum(copies.end_ns[rows[which]], losses.end_ns[stretch])
    shared -= np.maximum(copies.start_ns[rows[which]], losses.start_ns[stretch])
    exposed = _costliest(len(copies), rows[which], reason[stretch], shared)
    return np.where(result == NO_ID, exposed, result)


def _costliest(count: int, copy: Int64, reason: Int64, lost_ns: Int64) -> Int64:
    """For each copy the reason with the largest sum."""
    result = np.full(count, NO_ID, np.int64)
    pairs, member = np.unique(np.stack([copy, reason]), axis=1, return_inverse=True)
    totals = np.zeros(pairs.shape[1], np.int64)
    np.add.at(totals, member.reshape(-1), lost_ns)
    order = np.argsort(totals, kind="stable")  # the largest is written last
    result[pairs[0][order]] = pairs[1][order]
    return result
