"""What the host's part of sending many tensors as one takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from overlapscope.capture.calibrate.timing import host_ns, registered

GATHERED = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 22)
"""Bytes of the pieces whose gathering is timed."""
_GATHERED_BYTES, _MOST_PIECES = 1 << 25, 512
_FEW, _FEW_BYTES = 32, 1 << 14  # as the columns of a batch
_CACHE_BYTES = 1 << 26  # more than a core has for itself
_WORD = 4  # bytes of a float32


def gather_times() -> dict[str, Any]:
    """Time copying pieces of each size to a pinned buffer, after the host did something else and right after another.

    Returns:
        ``gathers``, rows of ``size_bytes``, of a piece, with ``gather_ns``, the wall time a piece where all are of one
        size, and ``ragged_ns`` where they are not, which torch gathers one by one, both after the host did something
        else; ``warm_gather_ns`` and ``warm_ragged_ns``, the same after another such gather; ``gather_start_ns``, what
        a gather takes beside its pieces; and ``view_ns``, what making a view of the buffer takes for a piece.
    """
    import torch

    source, cold = torch.ones(_GATHERED_BYTES // _WORD), torch.ones(_CACHE_BYTES // _WORD)
    with registered(torch.ones(_GATHERED_BYTES // _WORD)) as target:
        something_else = partial(cold.add_, 1)

        def gather_ns(
            size: int, count: int, before: Callable[[], object] = something_else, *, ragged: bool = False
        ) -> int:
            sizes = _sizes(size // _WORD, count, ragged=ragged)
            pieces = torch.split(source[: sum(sizes)], sizes)
            return host_ns(partial(torch.cat, pieces, out=target[: sum(sizes)]), before)

        rows = []
        for size in GATHERED:
            count = min(_MOST_PIECES, _GATHERED_BYTES // size)
            times = {
                name: max(1, gather_ns(size, count, before, ragged=ragged) // count)
                for prefix, before in (("", something_else), ("warm_", _nothing))
                for name, ragged in ((f"{prefix}gather_ns", False), (f"{prefix}ragged_ns", True))
            }
            rows.append({"size_bytes": size, **times})
        each = next(row["gather_ns"] for row in rows if row["size_bytes"] == _FEW_BYTES)
        start = max(gather_ns(_FEW_BYTES, _FEW) - _FEW * each, 0)
        sizes = _sizes(_FEW_BYTES // _WORD, _MOST_PIECES, ragged=False)
        views = host_ns(partial(torch.split, target[: sum(sizes)], sizes), something_else)
    return {"gathers": rows, "gather_start_ns": start, "view_ns": views // _MOST_PIECES}


def _nothing() -> None:
    """What comes before a gather that follows another."""


def _sizes(numbers: int, count: int, *, ragged: bool) -> list[int]:
    """How many numbers each piece has: all as many, or in turns one more and one less."""
    off = 1 if ragged else 0
    return [numbers + (off if index % 2 else -off) for index in range(count)]
