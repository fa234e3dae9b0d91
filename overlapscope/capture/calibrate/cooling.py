"""How much slower the host issues work after it staged a copy: its caches have lost what they had of the program."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overlapscope.capture.calibrate.timing import registered

if TYPE_CHECKING:
    import torch

HELD = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""Bytes of the pageable copies after which issuing is timed: from within a core's own caches to beyond them."""
_SIDE = 64
_LOOKS = (2, 4, 8, 16, 32)  # after how many operators the clock is read, and after the last
_REPEATS = 7

Work = Callable[[], object]


def after_copies() -> list[dict[str, Any]]:
    """Time issuing a mixture of operators right after a pageable copy of each size to the device.

    Returns:
        Rows of ``size_bytes``, ``issue_ns``, what issuing the first few of them took, cumulative, for several numbers
        of operators, and ``usual_ns``, the same after another round of the mixture. The first two are a tiny copy and
        a tiny kernel.
    """
    import torch

    with registered(torch.ones(1024)) as here:
        mixture = _mixture(here)
        rows = []
        for size in HELD:
            source = torch.ones(size, dtype=torch.uint8)
            target = torch.empty_like(source, device="cuda")

            def hold(source: torch.Tensor = source, target: torch.Tensor = target) -> None:
                target.copy_(source, non_blocking=True)

            rows.append({"size_bytes": size, **_both(mixture, hold)})
    return rows


def _both(mixture: list[Work], hold: Work) -> dict[str, list[int]]:
    """What issuing takes after ``hold``, and what it usually does, in turns."""
    usual, issue = [], []
    for _ in range(_REPEATS + 1):
        _issue_ns(mixture)
        usual.append(_issue_ns(mixture))
        hold()
        issue.append(_issue_ns(mixture))
    return {name: _medians(times[1:]) for name, times in (("issue_ns", issue), ("usual_ns", usual))}


def _medians(rows: list[list[int]]) -> list[int]:
    """Of each column."""
    return [int(statistics.median(column)) for column in zip(*rows, strict=True)]


def _issue_ns(mixture: list[Work]) -> list[int]:
    """What the first few operators take together, for several numbers of them."""
    begin, taken = time.perf_counter_ns(), []
    for number, work in enumerate(mixture, 1):
        work()
        if number in _LOOKS or number == len(mixture):
            taken.append(time.perf_counter_ns() - begin)
    return taken


def _mixture(here: torch.Tensor) -> list[Work]:
    """Operators whose kernels torch brings itself; each is another way through the program."""
    import torch

    there = torch.empty_like(here, device="cuda")
    table, row = torch.ones(_SIDE, _SIDE, device="cuda"), torch.ones(_SIDE, device="cuda")
    index = torch.arange(_SIDE, device="cuda")
    return [
        lambda: there.copy_(here, non_blocking=True),
        lambda: there.add_(1),
        lambda: table * row,
        lambda: table.sum(0),
        lambda: torch.relu(table),
        lambda: torch.softmax(table, 1),
        lambda: torch.cat([row, row]),
        lambda: table.t().contiguous(),
        lambda: torch.where(table > 0, table, row),
        lambda: table.index_select(0, index),
        lambda: torch.nn.functional.layer_norm(table, (_SIDE,)),
        lambda: torch.nn.functional.gelu(table) + table,
        lambda: table.to(torch.float16),
        lambda: table.square().mean(),
        lambda: torch.stack([row, row]).amax(0),
        lambda: table.cumsum(0),
        lambda: row.clamp(0, 1),
        lambda: table.view(8, 8, _SIDE).permute(1, 0, 2).reshape(_SIDE, _SIDE),
        lambda: torch.linalg.vector_norm(table),
        lambda: torch.zeros(_SIDE, device="cuda").index_add(0, index, row),
        lambda: torch.rsqrt(row) * torch.sigmoid(row),
        lambda: table.expand(4, _SIDE, _SIDE).clone(),
        lambda: torch.exp(row),
        lambda: table.argmax(1),
        lambda: table.masked_fill(table > 0, 0),
        lambda: torch.tanh(table).sub_(1),
        lambda: table.var(0),
        lambda: row.repeat(4),
        lambda: torch.outer(row, row),
        lambda: table.flip(0),
        lambda: torch.nn.functional.pad(table, (1, 1)),
        lambda: torch.isfinite(row).all(),
        lambda: table.gather(1, index[:, None]),
        lambda: torch.lerp(table, table, 0.5),
        lambda: torch.empty_like(table).zero_(),
        lambda: row.log1p().abs().neg(),
        lambda: torch.addcmul(table, table, table),
        lambda: table[:, :8].sqrt().neg(),
        lambda: torch.maximum(row, row).pow(2),
        lambda: torch.nn.functional.mse_loss(row, row),
    ]
