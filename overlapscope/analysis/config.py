"""What a user may set about an analysis; all other thresholds are constants beside their use."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.formatting import changed


@dataclass(frozen=True)
class Config:
    """Thresholds of findings, and how much an audit lists.

    Attributes:
        report_share: GPU idle time below this share of the analysed time (the range, or from a device's first work to
            its last) makes no finding, and a fix that saves less is no step of a plan; profilers lengthen a run by 1 to
            10 %. Nor can overlap help where perfect overlap would save less, and a GPU that waits less is busy.
        high_share: from this share of the analysed time on a finding has severity high; a fifth of a run is worth an
            afternoon.
        medium_share: from this share on a finding has severity medium; a tenth of a run is beyond what profilers
            distort.
        costly_copies: number of most expensive copies that an audit lists; a screen holds about ten.
        longest_ranges: number of range names that an audit lists; programs that annotate every operator have thousands.
    """

    report_share: float = 0.05
    high_share: float = 0.2
    medium_share: float = 0.1
    costly_copies: int = 10
    longest_ranges: int = 50

    __repr__ = changed


DEFAULT = Config()
