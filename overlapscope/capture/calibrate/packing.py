"""Time packing many small tensors into one pinned buffer: the host's part of a batched copy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from overlapscope.capture.calibrate.timing import host_ns, registered

PACKED = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 22)
"""Sizes of the packed tensors, in bytes."""
_PACKED_BYTES, _MOST_PIECES = 1 << 25, 512
_FEW, _FEW_BYTES = 32, 1 << 14  # as the columns of a batch
_CACHE_BYTES = 1 << 26  # more than a core has for itself
_WORD = 4  # bytes of a float32


def pack_times() -> dict[str, Any]:
    """Time ``torch.cat`` of tensors of each size into a pinned buffer, with cold and with warm caches.

    Returns:
        ``packing``: rows of ``size_bytes`` of a tensor, with the wall time per tensor. ``pack_ns`` is for tensors of
        one size, ``ragged_pack_ns`` for tensors of different sizes, which torch copies one by one, both with cold
        caches; ``warm_pack_ns`` and ``warm_ragged_pack_ns`` are the same right after another packing.
        ``pack_overhead_ns``: the fixed cost of one packing.
        ``view_ns``: the cost of one view into the packed buffer.
    """
    import torch

    source, cold = torch.ones(_PACKED_BYTES // _WORD), torch.ones(_CACHE_BYTES // _WORD)
    with registered(torch.ones(_PACKED_BYTES // _WORD)) as target:
        evict_caches = partial(cold.add_, 1)

        def pack_ns(size: int, count: int, before: Callable[[], object] = evict_caches, *, ragged: bool = False) -> int:
            sizes = _sizes(size // _WORD, count, ragged=ragged)
            pieces = torch.split(source[: sum(sizes)], sizes)
            return host_ns(partial(torch.cat, pieces, out=target[: sum(sizes)]), before)

        rows = []
        for size in PACKED:
            count = min(_MOST_PIECES, _PACKED_BYTES // size)
            times = {
                name: max(1, pack_ns(size, count, before, ragged=ragged) // count)
                for prefix, before in (("", evict_caches), ("warm_", _nothing))
                for name, ragged in ((f"{prefix}pack_ns", False), (f"{prefix}ragged_pack_ns", True))
            }
            rows.append({"size_bytes": size, **times})
        each = next(row["pack_ns"] for row in rows if row["size_bytes"] == _FEW_BYTES)
        start = max(pack_ns(_FEW_BYTES, _FEW) - _FEW * each, 0)
        sizes = _sizes(_FEW_BYTES // _WORD, _MOST_PIECES, ragged=False)
        views = host_ns(partial(torch.split, target[: sum(sizes)], sizes), evict_caches)
    return {"packing": rows, "pack_overhead_ns": start, "view_ns": views // _MOST_PIECES}


def _nothing() -> None:
    """Do nothing before a packing, so that caches stay warm."""


def _sizes(elements: int, count: int, *, ragged: bool) -> list[int]:
    """Elements of each tensor: the same for all, or alternately one more and one less."""
    off = 1 if ragged else 0
    return [elements + (off if index % 2 else -off) for index in range(count)]
