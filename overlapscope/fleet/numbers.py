"""Lists and names of ranks for people."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import PurePath

_MOST_RUNS = 6
_SEPARATORS = "-_./ "
_FILE_TYPE = re.compile(r"(\.pt)?(\.trace)?\.(json|sqlite)(\.gz|\.tmp)?$")


def number_list(numbers: Iterable[int], most: int = _MOST_RUNS) -> str:
    """Numbers in order, neighbours as one, cut where there are more than ``most`` of these.

    >>> number_list([3, 1, 2, 7]), number_list(range(0, 40, 3))
    ('1-3, 7', '0, 3, 6, 9, 12, 15 and 8 more')
    """
    ordered = sorted(set(numbers))
    if not ordered:
        return ""
    breaks = [place for place, (one, other) in enumerate(pairwise(ordered), 1) if other != one + 1]
    runs = [ordered[begin:end] for begin, end in pairwise([0, *breaks, len(ordered)])]
    shown = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:most])
    left = sum(map(len, runs[most:]))
    return f"{shown} and {left} more" if left else shown


def rank_list(ranks: Collection[int]) -> str:
    """Ranks as a list with its noun.

    >>> rank_list([2]), rank_list([5, 6, 7, 55])
    ('rank 2', 'ranks 5-7, 55')
    """
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {number_list(ranks)}"


def short_names(names: Sequence[str], width: int) -> list[str]:
    """Names whole where all fit into so many characters, else without their file types, else with what differs.

    >>> short_names(["trace_6.json.gz", "trace_7.json.gz"], 15), short_names(["trace_6.json.gz", "trace_7.json.gz"], 9)
    (['trace_6.json.gz', 'trace_7.json.gz'], ['trace_6', 'trace_7'])
    """
    stems = [_FILE_TYPE.sub("", name) for name in names]
    told_apart = stems if len(set(stems)) == len(set(names)) else list(names)
    shortest = distinct(told_apart)
    return next((found for found in (list(names), told_apart) if max(map(len, found)) <= width), shortest)


def distinct(names: Sequence[str]) -> list[str]:
    """Names without what they all begin and end with, where they are names of files.

    >>> distinct(["gemm-pageable-side.json.gz", "gemm-pinned-side.json.gz"]), distinct(["rank 1", "rank 12"])
    (['pageable', 'pinned'], ['rank 1', 'rank 12'])
    """
    if len(set(names)) < 2 or all(name.startswith("rank ") for name in names):  # noqa: PLR2004 - nothing to tell apart
        return list(names)
    first, last = _alike(names), _alike([name[::-1] for name in names])
    return [name[len(first) : len(name) - len(last)] for name in names]


def distinct_paths(sources: Sequence[str]) -> list[str]:
    """Paths without the folders that all of them lie in.

    >>> distinct_paths(["job/a/rank3.json", "job/b/rank3.json"]), distinct_paths(["a/one.json", "a/two.json"])
    (['a/rank3.json', 'b/rank3.json'], ['one.json', 'two.json'])
    """
    parts = [PurePath(source).parts for source in sources]
    apart = [place for place, names in enumerate(zip(*parts, strict=False)) if len(set(names)) > 1]
    first = apart[0] if apart else min(map(len, parts), default=1) - 1
    return ["/".join(each[first:]) for each in parts]


def _alike(names: Sequence[str]) -> str:
    """What all names begin with, up to a separator."""
    least, most = min(names), max(names)
    text = least[: next((place for place, sign in enumerate(least) if sign != most[place]), len(least))]
    return text[: max(text.rfind(sign) for sign in _SEPARATORS) + 1]
