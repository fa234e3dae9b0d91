"""Measure what the link, the host and the profiler of this machine cost: in a fraction of a second, before a recording.

The figures let an analysis say what a copy *would* take from pinned memory, and how much of a recorded time is the
profiler's. Figures are medians; what issuing something costs is the least of many, since whatever else the machine does
can only add to it.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from overlapscope.calibration.schema import Calibration, CopyTime, DuplexTime, IssueCost, Packing, PackTime, PostStaging

if TYPE_CHECKING:
    import torch

    Work = Callable[[], object]

COPY_BYTES = (1 << 16, 1 << 20, 1 << 24, 1 << 26)
"""Sizes of the copies that are timed: from where the call dominates to where the link does."""
PIECE_BYTES = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 22)
"""Sizes of the pieces whose packing is timed."""
STAGED_BYTES = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""Sizes of the pageable copies after which issuing is timed: from within a core's own caches to beyond them."""
_REPEATS = 3
_BATCH_BYTES = 1 << 26  # copies of one measurement together, so that its two synchronisations weigh little
_MOST_COPIES = 64
_COPIES_IN_A_ROW = 4  # so that little of the last of one direction is alone
_BUFFER_BYTES, _MOST_PIECES = 1 << 25, 512
_FEW, _FEW_BYTES = 32, 1 << 14  # as the columns of a batch
_CACHE_BYTES = 1 << 26  # more than a core has for itself
_WORD = 4  # bytes of a float32
_TO_DEVICE = 1  # cudaMemcpyHostToDevice
_RUNTIMES = {"11": "libcudart.so.11.0"}
_CALLS, _BATCHES = 20, 30  # between two synchronisations, and how often
_AMOUNTS = (2, 4, 8, 16, 32)  # after how many operators the clock is read, and after the last
_STAGINGS = 7
_PATIENCE_S = 2.0
"""For one figure of issuing work. It takes 5 to 300 ms, and minutes where other threads of the program hold the
interpreter lock: each call gives it up and waits its turn, 5 ms for each of them. The figure would be of no use then.
"""
_SIDE = 64


def measured(known: Calibration, *, unprofiled: bool) -> tuple[Calibration, bool]:
    """A calibration with what the link and the host take, without a profiler where there is none yet.

    Returns:
        The calibration, and whether all of it was measured: a GPU without room can be recorded all the same.
    """
    import torch

    with suppress(RuntimeError):
        device = torch.cuda.current_device()
        known = replace(known, copies=copy_times(device))
        known = replace(known, duplex=duplex_times(device))
        known = replace(known, packing=pack_times())
        if unprofiled:
            known = replace(known, issue_unprofiled=issue_cost())
        return known, True
    return known, False


@contextmanager
def registered(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Page-lock ``tensor`` in place: unlike ``pin_memory()``, this leaves nothing in torch's cache of pinned blocks."""
    import torch

    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    failed = int(runtime.cudaHostRegister(tensor.data_ptr(), tensor.numel() * tensor.element_size(), 0))
    if failed:
        raise RuntimeError(f"cudaHostRegister: error {failed}")
    try:
        yield tensor
    finally:
        torch.cuda.synchronize()
        runtime.cudaHostUnregister(tensor.data_ptr())


def _host_ns(work: Callable[[], object], before: Callable[[], object]) -> int:
    """Wall time of ``work``, which has something else ``before`` it, after one run that does not count: the median."""
    times = []
    for _ in range(_REPEATS + 1):
        before()
        begin = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - begin)
    return int(statistics.median(times[1:]))


def copy_times(device: int) -> tuple[CopyTime, ...]:
    """Time one copy of each size, direction and kind of host memory, on its own on the GPU with this CUDA ordinal."""
    import torch

    there = torch.empty(COPY_BYTES[-1], dtype=torch.uint8, device=f"cuda:{device}")
    pageable = torch.ones(COPY_BYTES[-1], dtype=torch.uint8)
    times = []
    with registered(torch.ones(COPY_BYTES[-1], dtype=torch.uint8)) as pinned:
        hosts = {"pageable": pageable, "pinned": pinned}
        for direction, kind, size in product(("HtoD", "DtoH"), hosts, COPY_BYTES):
            ends = (there[:size], hosts[kind][:size])
            target, source = ends if direction == "HtoD" else ends[::-1]
            copy_ns = _copy_ns(target, source, size)
            times.append(CopyTime(direction, kind, size, copy_ns, device))
    return tuple(times)


def duplex_times(device: int) -> tuple[DuplexTime, ...]:
    """Time large pinned copies of each direction on the GPU, alone and while others go in the other direction."""
    import torch

    half = COPY_BYTES[-1] // 2
    there = torch.ones(COPY_BYTES[-1], dtype=torch.uint8, device=f"cuda:{device}")
    with registered(torch.ones(COPY_BYTES[-1], dtype=torch.uint8)) as here:
        ends = {"HtoD": (there[:half], here[:half]), "DtoH": (here[half:], there[half:])}
        alone = [_together_ns([pair])[0] for pair in ends.values()]
        beside = _together_ns(list(ends.values()))
    return tuple(map(DuplexTime, ends, alone, beside))


def _together_ns(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> list[int]:
    """Device time of a copy of each pair, several in a row on a stream of its own, all streams at once: the least."""
    import torch

    times: list[list[float]] = [[] for _ in pairs]
    streams = [torch.cuda.Stream() for _ in pairs]  # type: ignore[no-untyped-call]
    for _ in range(2 * _REPEATS):
        torch.cuda.synchronize()
        marks = []
        for stream, (target, source) in zip(streams, pairs, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                begin.record()
                for _ in range(_COPIES_IN_A_ROW):
                    target.copy_(source, non_blocking=True)
                end.record()
            marks.append((begin, end))
        torch.cuda.synchronize()
        for each, (begin, end) in zip(times, marks, strict=True):
            each.append(begin.elapsed_time(end))
    return [round(1e6 * min(each) / _COPIES_IN_A_ROW) for each in times]


def _copy_ns(target: torch.Tensor, source: torch.Tensor, size: int) -> int:
    """Wall time of a copy, from an idle device to an idle device: the median."""
    import torch

    count = max(1, min(_MOST_COPIES, _BATCH_BYTES // size))

    def copies() -> None:
        for _ in range(count):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    return _host_ns(copies, torch.cuda.synchronize) // count


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
            return _host_ns(partial(torch.cat, pieces, out=target[: sum(sizes)]), before)

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
        views = _host_ns(partial(torch.split, target[: sum(sizes)], sizes), other_work)
    return Packing(pieces, start_ns=start, view_ns=views // _MOST_PIECES)


def _nothing() -> None:
    """Do nothing before a packing, so that it follows another."""


def _sizes(numbers: int, count: int, *, ragged: bool) -> list[int]:
    """The number of elements of each piece: all equal, or in turns one more and one less."""
    off = 1 if ragged else 0
    return [numbers + (off if index % 2 else -off) for index in range(count)]


def issue_cost() -> IssueCost:
    """Host time to issue a tiny kernel and a tiny pinned copy from Python, and that of the copy's call.

    Measured with and without a profiler on, the difference is what the profiler adds to each call. ``call_ns`` is
    None where CUDA's runtime library cannot be called.
    """
    import torch

    with registered(torch.ones(1024)) as here:
        there = torch.empty(1024, device="cuda")
        return IssueCost(
            kernel_ns=_issue_ns(lambda: there.add_(1)),
            copy_ns=_issue_ns(lambda: there.copy_(here, non_blocking=True)),
            call_ns=copy_call_ns(there, here),
        )


def copy_call_ns(target: torch.Tensor, source: torch.Tensor) -> int | None:
    """Host time of cudaMemcpyAsync to the device itself, without that of calling a function from Python."""
    import torch

    version = (torch.version.cuda or "").partition(".")[0]
    try:
        copy = ctypes.CDLL(_RUNTIMES.get(version, f"libcudart.so.{version}")).cudaMemcpyAsync
        nothing = ctypes.CDLL(None).memcmp
    except (OSError, AttributeError):
        return None
    pointer = ctypes.c_void_p
    copy.argtypes = nothing.argtypes = [pointer, pointer, ctypes.c_size_t, ctypes.c_int, pointer]
    size, there, here = target.numel() * target.element_size(), target.data_ptr(), source.data_ptr()
    stream = torch.cuda.current_stream(target.device).cuda_stream
    call = _issue_ns(lambda: copy(there, here, size, _TO_DEVICE, stream))
    none = _issue_ns(lambda: nothing(here, here, 0, _TO_DEVICE, stream))
    return max(call - none, 1)


def _issue_ns(issue: Callable[[], object]) -> int:
    """The least host time of one call among many; the queue is emptied between batches, outside of the time."""
    import torch

    times: list[int] = []
    deadline_s = time.perf_counter() + _PATIENCE_S
    for _ in range(_BATCHES):
        _be_in_time(deadline_s)
        begin = time.perf_counter_ns()
        for _ in range(_CALLS):
            issue()
        times.append((time.perf_counter_ns() - begin) // _CALLS)
        torch.cuda.synchronize()
    return min(times)


def _be_in_time(deadline_s: float) -> None:
    """Raise where measuring takes too long to be of use."""
    if time.perf_counter() > deadline_s:
        raise RuntimeError("other threads of the program have the interpreter lock: nothing can be timed")


def post_staging_times() -> tuple[PostStaging, ...]:
    """Time issuing a mixture of operators right after a pageable copy of each size to the device.

    Times are cumulative, for several numbers of operators. The first two operators are a tiny copy and a tiny kernel.
    """
    import torch

    with registered(torch.ones(1024)) as here:
        operators = _operators(here)
        return tuple(after_staging(size, operators, _pageable_copy(size)) for size in STAGED_BYTES)


def _pageable_copy(size: int) -> Work:
    import torch

    source = torch.ones(size, dtype=torch.uint8)
    return partial(torch.empty_like(source, device="cuda").copy_, source, non_blocking=True)


def after_staging(size: int, operators: list[Work], copy: Work) -> PostStaging:
    """Host time to issue operators after ``copy``, and after the same operators, in turns: the medians."""
    undisturbed, issue = [], []
    deadline_s = time.perf_counter() + _PATIENCE_S
    for _ in range(_STAGINGS + 1):
        _be_in_time(deadline_s)
        _issue_times_ns(operators)
        undisturbed.append(_issue_times_ns(operators))
        copy()
        issue.append(_issue_times_ns(operators))
    return PostStaging(size, issue_ns=_medians(issue[1:]), usual_ns=_medians(undisturbed[1:]))


def _medians(rows: Iterable[list[int]]) -> tuple[int, ...]:
    """The median of each column."""
    return tuple(int(statistics.median(column)) for column in zip(*rows, strict=True))


def _issue_times_ns(operators: list[Work]) -> list[int]:
    """Host time to issue the first operators together, for several numbers of them."""
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
