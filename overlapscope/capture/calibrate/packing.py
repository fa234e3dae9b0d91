"""What it takes the host to pack many tensors into one pinned buffer, to send them as one copy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from overlapscope.calibration.schema import Packing, PackTime
from overlapscope.capture.calibrate.timing import host_ns, registered

PIECE_BYTES = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 22)
"""Sizes of the pieces whose packing is timed."""
_BUFFER_BYTES, _MOST_PIECES = 1 << 25, 512
_FEW, _FEW_BYTES = 32, 1 << 14  # as the columns of a batch
_CACHE_BYTES = 1 << 26  # more than a core has for itself
_WORD = 4  # bytes of a float32


def pack_times() -> Packing:
    """Time packing pieces of each size into a pinned buffer: after other work of the host, and right after another.

    Pieces of one size, and ragged ones, which torch copies one by one.
    """
    import torch

    source, cold = torch.ones(_BUFFER_BYTES // _WORD), torch.ones(_CACHE_BYTES // _WORD)
    with registered(torch.ones(_BUFFER_BYTES // _WORD)) as target:
        other_work = partial(cold.add_, 1)

        def pack_ns(size: int, count: int, before: Callable[[], object], *, ragged: bool = False) -> int:
            sizes = _sizes(size // _WORD, count, ragged=ragged)
            pieces = torch.split(source[: sum(sizes)], sizes)
            return host_ns(partial(torch.cat, pieces, out=target[: sum(sizes)]), before)

        def piece_ns(size: int, before: Callable[[], object], *, ragged: bool) -> int:
            count = min(_MOST_PIECES, _BUFFER_BYTES // size)
            return max(1, pack_ns(size, count, before, ragged=ragged) // count)

        pieces = tuple(
            PackTime(
                size,
                pack_ns=piece_ns(size, other_work, ragged=False),
                ragged_ns=piece_ns(size, other_work, ragged=True),
                warm_pack_ns=piece_ns(size, _nothing, ragged=False),
                warm_ragged_ns=piece_ns(size, _nothing, ragged=True),
            )
            for size in PIECE_BYTES
        )
        each = next(piece.pack_ns for piece in pieces if piece.size_bytes == _FEW_BYTES)
        start = max(pack_ns(_FEW_BYTES, _FEW, other_work) - _FEW * each, 0)
        sizes = _sizes(_FEW_BYTES // _WORD, _MOST_PIECES, ragged=False)
        views = host_ns(partial(torch.split, target[: sum(sizes)], sizes), other_work)
    return Packing(pieces, start_ns=start, view_ns=views // _MOST_PIECES)


def _nothing() -> None:
    """What comes before a packing that follows another."""


def _sizes(numbers: int, count: int, *, ragged: bool) -> list[int]:
    """How many numbers each piece has: all as many, or in turns one more and one less."""
    off = 1 if ragged else 0
    return [numbers + (off if index % 2 else -off) for index in range(count)]
