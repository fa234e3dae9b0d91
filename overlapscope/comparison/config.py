"""Thresholds of a comparison, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.formatting import changed
from overlapscope.report.content import AuditConfig


@dataclass(frozen=True)
class CompareConfig:
    """Thresholds, each with its reason.

    ``single_share``: with one trace a side, a change of less than this share is none; two times of one program differ
    by that at the median. ``tenth_share``: they differ by that in every tenth, so that a smaller change may be chance,
    and that is said; docs/predictions.md has both figures.
    ``least_share``: with several a side neither is one below this share, however close together they are.
    ``mentioned_share``: a part of the change, or a finding's idle time, is mentioned from this share on, of the change
    or of the time.
    ``same_share``: where less than this share of a side's kernel time is in kernels that both have, that is said first;
    what most fixes add or replace, such as kernels that pack or convert, is smaller. ``comparable_share``: below this
    share the two do other work, and the change of the time is none of the program; twice as many steps or layers on one
    side leave half of its time without a counterpart.
    ``most_simulated``: simulated nodes up to which every order of the parts is tried; one takes about 5 us. Above it
    two orders are, one the reverse of the other.
    ``listed``: kernels, copies and ranges that are listed, those with the longest time; a screen holds fewer.
    """

    single_share: float = 0.04
    tenth_share: float = 0.16
    least_share: float = 0.01
    mentioned_share: float = 0.02
    same_share: float = 0.95
    comparable_share: float = 0.55
    most_simulated: int = 2_000_000
    listed: int = 50
    audit: AuditConfig = AuditConfig()

    __repr__ = changed


DEFAULT = CompareConfig()
