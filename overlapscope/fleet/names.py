"""What the name of a trace's file says about its rank and its host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

_RANK = re.compile(r"(?<![a-z])(?:global[_-]?)?(?:rank|worker)[_.=-]?(\d+)(?!\d)", re.IGNORECASE)
_COORDINATE = re.compile(r"(?<![a-z0-9])(pp|dp|cp|tp|ep)[_-]?(\d+)(?![a-z0-9])", re.IGNORECASE)
_TORCH = re.compile(r"^(?P<host>[A-Za-z0-9][\w.-]*?)_\d+\.\d+\.pt\.trace\.json(?:\.gz)?$")
_OUTERMOST_FIRST = ("pp", "dp", "cp", "tp", "ep")


@dataclass(frozen=True)
class Named:
    """What a file's name says; None and empty where it says nothing.

    ``place`` has the number of each dimension of parallelism, the outermost first: ``(("pp", 0), ("tp", 3))``.
    """

    rank: int | None = None
    host: str = ""
    place: tuple[tuple[str, int], ...] = ()


def named(source: str) -> Named:
    """Read a file's name: of torch, torchtitan, Megatron, SGLang and vLLM, or with ``rank`` or ``worker`` in it.

    >>> named("trace/node-3_4711.1694128201545.pt.trace.json.gz").host
    'node-3'
    >>> named("iteration_10/rank12_trace.json").rank, named("rank-3.json.gz").rank
    (12, 3)
    >>> named("1756-TP-1-DP-0.trace.json.gz").place
    (('dp', 0), ('tp', 1))
    """
    name = PurePosixPath(source).name
    torch = _TORCH.match(name)
    rank = _RANK.search(name)
    found = {dimension.lower(): int(number) for dimension, number in _COORDINATE.findall(name)}
    return Named(
        rank=int(rank[1]) if rank else None,
        host=torch["host"] if torch and rank is None else "",
        place=tuple((dimension, found[dimension]) for dimension in _OUTERMOST_FIRST if dimension in found),
    )
