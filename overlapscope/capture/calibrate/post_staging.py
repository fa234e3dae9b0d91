"""How much longer the host takes to issue work right after it staged a copy: its caches have lost the program."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from overlapscope.calibration.schema import PostStaging
from overlapscope.capture.calibrate.timing import registered

if TYPE_CHECKING:
    import torch

    Work = Callable[[], object]

STAGED_BYTES = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""Sizes of the pageable copies after which issuing is timed: from within a core's own caches to beyond them."""
_AMOUNTS = (2, 4, 8, 16, 32)  # after how many operators the clock is read, and after the last
_REPEATS = 7
_SIDE = 64


def post_staging_times() -> tuple[PostStaging, ...]:
    """Time issuing a mixture of operators right after a pageable copy of each size to the device.

    Times are cumulative, for several numbers of operators. The first two operators are a tiny copy and a tiny kernel.
    """
    import torch

    with registered(torch.ones(1024)) as here:
        operators = _operators(here)
        return tuple(_timed(size, operators, _pageable_copy(size)) for size in STAGED_BYTES)


def _pageable_copy(size: int) -> Work:
    import torch

    source = torch.ones(size, dtype=torch.uint8)
    return partial(torch.empty_like(source, device="cuda").copy_, source, non_blocking=True)


def _timed(size: int, operators: list[Work], copy: Work) -> PostStaging:
    """What issuing takes after ``copy``, and usually, which is after the same operators, in turns: the medians."""
    usual, issue = [], []
    for _ in range(_REPEATS + 1):
        _issue_ns(operators)
        usual.append(_issue_ns(operators))
        copy()
        issue.append(_issue_ns(operators))
    return PostStaging(size, issue_ns=_medians(issue[1:]), usual_ns=_medians(usual[1:]))


def _medians(rows: Iterable[list[int]]) -> tuple[int, ...]:
    """Of each column."""
    return tuple(int(statistics.median(column)) for column in zip(*rows, strict=True))


def _issue_ns(operators: list[Work]) -> list[int]:
    """What the first few operators take together, for several numbers of them."""
    begin, taken = time.perf_counter_ns(), []
    for number, issue in enumerate(operators, 1):
        issue()
        if number in _AMOUNTS or number == len(operators):
            taken.append(time.perf_counter_ns() - begin)
    return taken


def _operators(here: torch.Tensor) -> list[Work]:
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
