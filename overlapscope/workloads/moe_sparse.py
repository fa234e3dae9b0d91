"""64 experts and few tokens: why does the prefetch of a Switch Transformer's experts not overlap its computation?

Somebody prefetches the experts of the next block on one stream and computes this block on another. The router runs one
block ahead, so the experts that are fetched are those that are used. In the profiler nothing overlaps. The copies are
pageable: is that the reason? In a small test with matrix products, pageable copies overlap too.

It is the first reason, and the reads of the program are the second. The active experts are read one by one: formatting
an index that is on the GPU waits for the stream of the copies, and so for the expert fetched before it. The loop over
all experts asks the GPU whether each has tokens, and selecting tokens by a mask asks how many. The host is never ahead.

The variants fix one after the other: pinned experts, one read for each block, and last a read that the host does not
wait for long. There the next block's gate is queued before this block's experts are waited for. Its counts go to
pinned memory, with an event, and the host reads them after it has queued this block's computation. Only the experts
with tokens are fetched, by all variants.

    python -m overlapscope.workloads.moe_sparse --variant as-asked --trace out.json.gz
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.workloads.experts import (
    Ahead,
    Fetcher,
    OnDemand,
    Shape,
    Weights,
    experts_of,
    on_host,
    route,
    sparse_blocks,
)
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, Memory, copy_stream, finish, keep_for, on, pins

if TYPE_CHECKING:
    import torch


class Reads(StrEnum):
    """How the host learns which experts have tokens."""

    EACH = "each"
    ONCE = "once"
    AHEAD = "ahead"


@dataclass(frozen=True)
class Choices:
    """Memory of the experts, and how the host reads which of them have tokens."""

    memory: Memory = Memory.PAGEABLE
    reads: Reads = Reads.EACH


@dataclass(frozen=True)
class Sizes(Shape):
    """Sizes of a pass: those of a Switch Transformer of 64 experts (base), but for the number of blocks."""

    blocks: int = 3
    experts: int = 64
    width: int = 768  # d_model
    inner: int = 3072  # d_ff
    tokens: int = 16


VARIANTS = (
    Variant("as-asked", Choices(), "pageable experts, non_blocking=True, a read for each expert", "ahead"),
    Variant("pinned", Choices(Memory.PINNED), "pinned experts, a read for each expert", "ahead"),
    Variant("one-read", Choices(Memory.PINNED, Reads.ONCE), "and all counts of a block read at once", "ahead"),
    Variant(
        "ahead",
        Choices(Memory.PINNED, Reads.AHEAD),
        "and read one block ahead, by way of pinned memory and an event; two sets of buffers",
    ),
)


@dataclass(frozen=True)
class Model:
    """The sparse blocks, what fetches their experts, and the streams of the copies and of the computation."""

    blocks: list[Any]
    fetcher: Fetcher
    copies: torch.cuda.Stream | None
    compute: torch.cuda.Stream | None


@dataclass(frozen=True)
class Gate:
    """What a router chose: the expert of each token (one-hot), its weight, and how many tokens each expert has."""

    mask: torch.Tensor
    weight: torch.Tensor
    counts: torch.Tensor


Fetch = Callable[[Model, int, Gate], "tuple[list[int], list[int] | None]"]


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Build the sparse blocks, with routers on the GPU and experts on the host, and two streams."""
    import torch

    blocks = sparse_blocks(sizes, device)
    hosts = [on_host(block, pin=pins(choices.memory, device)) for block in blocks]
    first = torch.randn(sizes.tokens, sizes.width, generator=torch.Generator().manual_seed(1)).to(device)
    copies, compute = (copy_stream(CopyStream.SIDE, device) for _ in range(2))
    fetcher = (Ahead if choices.reads is Reads.AHEAD else OnDemand)(hosts, device, copies, blocking=False)
    model = Model(blocks, fetcher, copies, compute)
    run_blocks = _RUNS[choices.reads]
    outputs = [first]

    def one_pass() -> None:
        with annotate("moe_sparse"), torch.no_grad(), on(compute):
            outputs[0] = run_blocks(model, first)
            finish(device)

    return Program(one_pass, result=lambda: outputs[0])


def _prefetch_first(model: Model, hidden: torch.Tensor, fetch: Fetch) -> torch.Tensor:
    """The loop of the question: the next block's gate and copies on one stream, then this block on the other."""
    gate = _gate(model, 0, hidden, model.copies)
    active, counts = fetch(model, 0, gate)
    for number, block in enumerate(model.blocks):
        with annotate("block"):
            here = model.fetcher.take(number, active)
            following, known = gate, counts
            if number + 1 < len(model.blocks):
                following = _gate(model, number + 1, hidden, model.copies)
                active, known = fetch(model, number + 1, following)
            with annotate("compute", color="green"):
                output = (
                    _by_mask(block, hidden, here, gate)
                    if counts is None
                    else _by_count(block, hidden, here, gate, counts)
                )
                hidden = hidden + gate.weight * output
            gate, counts = following, known
    return hidden


def _fetch_each(model: Model, number: int, gate: Gate) -> tuple[list[int], None]:
    """Fetch the experts with tokens, as the question does: read one, queue its copies, read the next."""
    active = []
    with annotate("which experts", color="red"), on(model.copies):
        for expert in gate.counts.nonzero()[:, 0]:
            active.append(int(expert))  # waits for the copies of the expert before it
            model.fetcher.send(number, active[-1:])
    return active, None


def _fetch_counted(model: Model, number: int, gate: Gate) -> tuple[list[int], list[int]]:
    """Read all counts at once, and fetch the experts with tokens."""
    with annotate("which experts", color="red"), on(model.copies):
        counts: list[int] = gate.counts.tolist()
    model.fetcher.send(number, _active(counts))
    return _active(counts), counts


def _read_ahead(model: Model, hidden: torch.Tensor) -> torch.Tensor:
    """Queue the next block's gate before this block waits for its experts; read its counts after this block's work."""
    gate = _gate(model, 0, hidden, model.compute)
    counts = _Counts(gate, model.compute).read()
    model.fetcher.send(0, _active(counts))
    for number, block in enumerate(model.blocks):
        with annotate("block"):
            following = coming = None
            if number + 1 < len(model.blocks):
                following = _gate(model, number + 1, hidden, model.compute)
                coming = _Counts(following, model.compute)
            here = model.fetcher.take(number, _active(counts))
            with annotate("compute", color="green"):
                hidden = hidden + gate.weight * _by_count(block, hidden, here, gate, counts)
            model.fetcher.done(number)
            if following is not None and coming is not None:
                gate, counts = following, coming.read()
                model.fetcher.send(number + 1, _active(counts))
    return hidden


def _gate(model: Model, number: int, hidden: torch.Tensor, stream: torch.cuda.Stream | None) -> Gate:
    """Run a block's router on a stream; the computation uses what it chose."""
    if stream is not None and model.compute is not None:
        stream.wait_stream(model.compute)
    with annotate("gate", color="blue"), on(stream):
        keep_for(hidden, stream)
        mask, weight = route(model.blocks[number], hidden)
        gate = Gate(mask, weight, mask.sum(0))
        for each in (gate.mask, gate.weight, gate.counts):
            keep_for(each, model.compute)
    return gate


class _Counts:
    """The tokens of each expert on their way to pinned memory, and an event after them."""

    def __init__(self, gate: Gate, stream: torch.cuda.Stream | None) -> None:
        import torch

        self._host = torch.empty(gate.counts.shape, dtype=gate.counts.dtype, pin_memory=stream is not None)
        self._host.copy_(gate.counts, non_blocking=True)
        self._arrived = None if stream is None else stream.record_event()

    def read(self) -> list[int]:
        """Wait for the event, not for what was queued after it."""
        with annotate("which experts", color="red"):
            if self._arrived is not None:
                self._arrived.synchronize()
            counts: list[int] = self._host.tolist()
        return counts


def _active(counts: list[int]) -> list[int]:
    return [number for number, count in enumerate(counts) if count]


def _by_mask(block: Any, hidden: torch.Tensor, here: dict[int, Weights], gate: Gate) -> torch.Tensor:
    """Run the experts with tokens, as the question does: the host asks for each, and how many tokens a mask has."""
    import torch

    output = torch.zeros_like(hidden)
    for number, expert in enumerate(experts_of(block)):
        if gate.counts[number] != 0:
            rows = gate.mask[:, number].bool()
            output[rows] = torch.func.functional_call(expert, here[number], (hidden[rows],))
    return output


def _by_count(
    block: Any, hidden: torch.Tensor, here: dict[int, Weights], gate: Gate, counts: list[int]
) -> torch.Tensor:
    """Run the experts with tokens: tokens sorted by expert, so that known counts select them."""
    import torch

    output, experts = torch.zeros_like(hidden), experts_of(block)
    order = gate.mask.argmax(1).argsort(stable=True)
    for number, (begin, end) in enumerate(pairwise((0, *accumulate(counts)))):
        if begin < end:
            rows = order[begin:end]
            output.index_copy_(0, rows, torch.func.functional_call(experts[number], here[number], (hidden[rows],)))
    return output


_RUNS: dict[Reads, Callable[[Model, torch.Tensor], torch.Tensor]] = {
    Reads.EACH: partial(_prefetch_first, fetch=_fetch_each),
    Reads.ONCE: partial(_prefetch_first, fetch=_fetch_counted),
    Reads.AHEAD: _read_ahead,
}

WORKLOAD = Workload(
    module="overlapscope.workloads.moe_sparse",
    question="64 experts and few tokens: why does the prefetch of a Switch Transformer's experts not overlap?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(experts=8, width=16, inner=32, tokens=12),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
