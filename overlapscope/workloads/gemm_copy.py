"""Matrix products on one stream, host-to-device copies on another: do they overlap, and does it help?

The small test that people write when a prefetch does not overlap. Its variants show why the answer
misleads: a pageable copy can run under the kernels on the device and still cost the run, because the
call that made it held the host thread and the next kernels were launched late.

    python -m overlapscope.workloads.gemm_copy --memory pageable --order copy-first --trace out.json.gz
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.capture.annotate import annotate
from overlapscope.capture.recorder import record_pass, require_cuda, require_torch
from overlapscope.errors import OverlapscopeError

if TYPE_CHECKING:
    import torch

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


class Memory(StrEnum):
    """Where the copy's source lies on the host."""

    PAGEABLE = "pageable"
    PINNED = "pinned"


class Order(StrEnum):
    """What a round issues first."""

    COPY_FIRST = "copy-first"
    KERNELS_FIRST = "kernels-first"


class CopyStream(StrEnum):
    """Which stream the copy goes to: one of its own, or the kernels'."""

    SIDE = "side"
    SAME = "same"


@dataclass(frozen=True)
class Variant:
    """One way to write the loop."""

    memory: Memory = Memory.PAGEABLE
    order: Order = Order.COPY_FIRST
    blocking: bool = False
    stream: CopyStream = CopyStream.SIDE

    @property
    def name(self) -> str:
        """A file-name-safe label, such as ``pageable-copy-first-non-blocking-side``."""
        blocking = "blocking" if self.blocking else "non-blocking"
        return f"{self.memory}-{self.order}-{blocking}-{self.stream}"


@dataclass(frozen=True)
class Sizes:
    """How much work a pass is made of: for a data-centre GPU, unless made smaller."""

    rounds: int = 6
    matmuls: int = 2  # per round
    width: int = 4096  # of the square float32 matrices
    copy_mib: int = 64  # per round, in MiB


ON_CPU = Sizes(width=256, copy_mib=1)
"""Enough to try the program without a GPU; nothing there overlaps, and all memory is pageable."""


def variants() -> Iterator[Variant]:
    """Yield all sixteen ways to write the loop."""
    for memory, order, blocking, stream in product(Memory, Order, (False, True), CopyStream):
        yield Variant(memory, order, blocking, stream)


def build(variant: Variant, sizes: Sizes, device: str = "cuda") -> Callable[[], None]:
    """Allocate the buffers and return one pass of the loop, ready to be called again and again.

    Raises `CaptureError` when ``device`` is a GPU and there is none. A pass ends with
    a device synchronisation, so the wall time of a call is the time of its work.
    """
    require_torch()
    import torch

    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        require_cuda()
    a, b = (torch.randn(sizes.width, sizes.width, device=device) for _ in range(2))
    product_out = torch.empty_like(a)
    sources, targets = _buffers(sizes, device, pin=on_gpu and variant.memory is Memory.PINNED)
    own_stream = on_gpu and variant.stream is CopyStream.SIDE
    side = torch.cuda.Stream() if own_stream else None  # type: ignore[no-untyped-call]

    def copy(index: int) -> None:
        with annotate("copy", color="orange"), _on(side):
            targets[index].copy_(sources[index], non_blocking=not variant.blocking)

    def multiply() -> None:
        with annotate("matmul", color="green"):
            for _ in range(sizes.matmuls):
                torch.mm(a, b, out=product_out)

    def one_pass() -> None:
        with annotate("gemm_copy"):
            for index in range(sizes.rounds):
                with annotate("round"):
                    if variant.order is Order.COPY_FIRST:
                        copy(index)
                    multiply()
                    if variant.order is Order.KERNELS_FIRST:
                        copy(index)
            if on_gpu:
                torch.cuda.synchronize()

    return one_pass


def _buffers(sizes: Sizes, device: str, *, pin: bool) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """A source and a target per round. Rows of one pinned block stay plain pinned copies."""
    import torch

    shape = (sizes.rounds, sizes.copy_mib * 2**20 // 4)
    return list(torch.ones(shape, pin_memory=pin)), list(torch.empty(shape, device=device))


def _on(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    import torch

    return torch.cuda.stream(stream) if stream is not None else nullcontext()


def measure(one_pass: Callable[[], None], repeats: int = 9, warmup: int = 3) -> dict[str, float]:
    """Time a pass without any profiler.

    Returns:
        ``median_ms``, ``min_ms``, ``max_ms`` of the wall time of ``repeats`` passes, and ``repeats``.
    """
    for _ in range(warmup):
        one_pass()
    walls = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        one_pass()
        walls.append((time.perf_counter_ns() - begin) / 1e6)
    return {
        "median_ms": round(statistics.median(walls), 3),
        "min_ms": round(min(walls), 3),
        "max_ms": round(max(walls), 3),
        "repeats": repeats,
    }


@app.command()
def main(  # noqa: PLR0913, PLR0917 - one parameter per option
    memory: Annotated[Memory, typer.Option(help="The copies' source.")] = Memory.PAGEABLE,
    order: Annotated[Order, typer.Option(help="What each round issues first.")] = Order.COPY_FIRST,
    blocking: Annotated[bool, typer.Option("--blocking/--non-blocking", help="Wait for each copy?")] = False,
    stream: Annotated[CopyStream, typer.Option(help="The copies' stream.")] = CopyStream.SIDE,
    device: Annotated[str, typer.Option(help="cuda, or cpu to try the program without a GPU.")] = "cuda",
    rounds: Annotated[int, typer.Option(min=1)] = 6,
    matmuls: Annotated[int, typer.Option(min=1, help="Matrix products per round.")] = 2,
    width: Annotated[int | None, typer.Option(min=1, help="Width of the float32 matrices: 4096, 256 on a cpu.")] = None,
    copy_mib: Annotated[int | None, typer.Option(min=1, help="MiB copied per round: 64, 1 on a cpu.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Unprofiled passes to time.")] = 9,
    trace: Annotated[Path | None, typer.Option(help="Write a Kineto trace of one pass here.")] = None,
    bracket: Annotated[bool, typer.Option(help="Bracket one pass for nsys profile -c cudaProfilerApi.")] = False,
) -> None:
    """Time one variant without a profiler, print the result as JSON, and record a pass if asked to."""
    variant = Variant(memory, order, blocking, stream)
    try:
        usual = ON_CPU if device == "cpu" else Sizes()
        sizes = Sizes(rounds, matmuls, width or usual.width, copy_mib or usual.copy_mib)
        one_pass = build(variant, sizes, device)
        typer.echo(json.dumps({"variant": variant.name, "device": device, **measure(one_pass, repeats)}))
        if trace is not None or bracket:
            record_pass(one_pass, trace)
    except (OverlapscopeError, RuntimeError) as error:
        typer.echo(f"gemm_copy: {error}", err=True)
        raise typer.Exit(2) from error


if __name__ == "__main__":
    app()
