"""The catalogue of all rules, and their precedence. Codes are never reused."""

from __future__ import annotations

from overlapscope.diagnosis.rule import Rule
from overlapscope.diagnosis.rules import (
    ovl000_insufficient_data,
    ovl001_pageable_copy,
    ovl002_one_stream,
    ovl003_default_stream,
    ovl004_host_synchronises,
    ovl005_scalar_read,
    ovl006_no_prefetch_distance,
    ovl007_engine_busy,
    ovl008_host_late,
    ovl009_allocation,
    ovl010_many_small_copies,
    ovl011_nothing_to_hide_behind,
    ovl012_blocking_launches,
    ovl013_slow_link,
    ovl015_device_full,
    ovl016_exposed_collective,
    ovl017_another_device,
    ovl018_pinned_allocation,
    ovl019_head_of_line,
    ovl020_issue_bound,
    ovl021_mapped_copy,
    ovl023_copies_beside_collectives,
    ovl024_overlap_cannot_help,
    ovl101_early_upload,
    ovl102_early_refill,
    ovl103_unsafe_read,
    ovl104_early_reuse,
    ovl105_self_wait,
)

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        ovl000_insufficient_data,
        ovl001_pageable_copy,
        ovl002_one_stream,
        ovl003_default_stream,
        ovl004_host_synchronises,
        ovl005_scalar_read,
        ovl006_no_prefetch_distance,
        ovl007_engine_busy,
        ovl008_host_late,
        ovl009_allocation,
        ovl010_many_small_copies,
        ovl011_nothing_to_hide_behind,
        ovl012_blocking_launches,
        ovl013_slow_link,
        ovl015_device_full,
        ovl016_exposed_collective,
        ovl017_another_device,
        ovl018_pinned_allocation,
        ovl019_head_of_line,
        ovl020_issue_bound,
        ovl021_mapped_copy,
        ovl023_copies_beside_collectives,
        ovl024_overlap_cannot_help,
        ovl101_early_upload,
        ovl102_early_refill,
        ovl103_unsafe_read,
        ovl104_early_reuse,
        ovl105_self_wait,
    )
)
"""All rules, in the order of their codes."""

MOVED = {"OVL014": "OVL103", "OVL022": "OVL105"}
"""Codes that rules had before, and the codes that they have now."""

_PRECEDENCE = (
    *("000", "012", "020", "010", "005", "001", "013", "018", "009", "019", "007"),
    *("004", "003", "002", "006", "011", "017", "008"),
)
"""Which rule gets an idle interval that several claim. Missing data comes first, then what explains a whole sequence of
calls, then specific causes before general ones; a late host is the last."""


def rule(code: str) -> Rule:
    """The rule with a code, in upper or lower case, or with a name; a code that it had before is understood too.

    Raises:
        KeyError: there is none.
    """
    named = {key: entry for entry in RULES for key in (entry.code, entry.name.upper())}
    return named[MOVED.get(code.upper(), code.upper())]


CLAIMING: tuple[Rule, ...] = tuple(rule(f"OVL{number}") for number in _PRECEDENCE)
"""Rules about idle intervals, in the order in which they may claim one."""
