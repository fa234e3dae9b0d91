"""Lists of ranks for people."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

_MOST_RUNS = 6


def number_list(numbers: Iterable[int]) -> str:
    """Numbers in order, neighbours as one, cut where there are many.

    >>> number_list([3, 1, 2, 7]), number_list(range(0, 40, 3))
    ('1-3, 7', '0, 3, 6, 9, 12, 15 and 8 more')
    """
    ordered = sorted(set(numbers))
    if not ordered:
        return ""
    breaks = [place for place, (one, other) in enumerate(pairwise(ordered), 1) if other != one + 1]
    runs = [ordered[begin:end] for begin, end in pairwise([0, *breaks, len(ordered)])]
    shown = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:_MOST_RUNS])
    left = sum(map(len, runs[_MOST_RUNS:]))
    return f"{shown} and {left} more" if left else shown
