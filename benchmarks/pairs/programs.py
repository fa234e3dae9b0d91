"""Programs before and after they were fixed: what predictions are compared with, beside the workloads.

Each makes what its step needs and returns one step, faulty or fixed; ``recording`` says how they are run.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.pairs.parts import captured
from benchmarks.pairs.recording import Step, main

MIB = 2**18  # float32 numbers


def matrix(width: int) -> torch.Tensor:
    return torch.randn(width, width, device="cuda")


def host(mib: int, *, pin: bool) -> torch.Tensor:
    return torch.ones(mib * MIB, pin_memory=pin)


def launch_bound(*, fixed: bool) -> Step:
    """Hundreds of kernels of a few microseconds; fixed: one launch of a graph."""
    state, weight = torch.ones(64, 256, device="cuda"), matrix(256)

    def forward() -> None:
        for _ in range(150):
            state.copy_(torch.tanh(state @ weight))

    graph = captured(forward) if fixed else None

    def step() -> None:
        forward() if graph is None else graph.replay()
        torch.cuda.synchronize()

    return step


def network() -> nn.Sequential:
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(2048, 2048), nn.ReLU()))).cuda()


def training(*, fixed: bool) -> Step:
    """Batches from pageable memory, gradients by autograd's own thread, a loss read after each of six batches.

    Mended: pinned batches, copied asynchronously, the losses read once.
    """
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    batches = [torch.randn(2048, 2048, pin_memory=fixed) for _ in range(6)]

    def step() -> None:
        losses = []
        for batch in batches:
            loss = model(batch.to("cuda", non_blocking=fixed)).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach() if fixed else loss.item())
        if fixed:
            torch.stack(losses).cpu()
        torch.cuda.synchronize()

    return step


def backward_pageable(*, fixed: bool) -> Step:
    """A pageable batch for each forward and backward pass; fixed: pinned and asynchronous."""
    model = network()
    batches = [torch.randn(4096, 2048, pin_memory=fixed) for _ in range(5)]

    def step() -> None:
        for batch in batches:
            model(batch.to("cuda", non_blocking=fixed)).square().mean().backward()
        torch.cuda.synchronize()

    return step


def no_distance(*, fixed: bool) -> Step:
    """Each copy is issued right before kernels that wait for it; fixed: one round ahead, two buffers, events."""
    side = torch.cuda.Stream()
    sources, weight = [host(48, pin=True) for _ in range(8)], matrix(3072)
    buffers = [torch.empty(48 * MIB, device="cuda") for _ in range(2)]
    free = [torch.cuda.Event() for _ in buffers]

    def fetch(index: int) -> torch.cuda.Event:
        side.wait_event(free[index % 2])
        with torch.cuda.stream(side):
            buffers[index % 2].copy_(sources[index], non_blocking=True)
            ready = torch.cuda.Event()
            ready.record()
        return ready

    def step() -> None:
        ahead = fetch(0) if fixed else None
        for index in range(len(sources)):
            ready = ahead if ahead is not None else fetch(index)
            if fixed and index + 1 < len(sources):
                ahead = fetch(index + 1)
            torch.cuda.current_stream().wait_event(ready)
            buffers[index % 2].mul_(1.5)
            torch.mm(weight, weight)
            free[index % 2].record()
            if not fixed:
                side.wait_event(free[index % 2])
        torch.cuda.synchronize()

    return step


def up_and_down(*, fixed: bool) -> Step:
    """Up, compute, down, all on one stream and pinned; fixed: a stream for each direction, with events."""
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    sources, results = ([host(32, pin=True) for _ in range(6)] for _ in range(2))
    tiles, weight = [torch.empty(32 * MIB, device="cuda") for _ in range(6)], matrix(3072)

    def step() -> None:
        for source, result, tile in zip(sources, results, tiles, strict=True):
            with torch.cuda.stream(up if fixed else main):
                tile.copy_(source, non_blocking=True)
            if fixed:
                main.wait_stream(up)
            tile.mul_(1.5)
            torch.mm(weight, weight)
            if fixed:
                down.wait_stream(main)
            with torch.cuda.stream(down if fixed else main):
                result.copy_(tile, non_blocking=True)
        torch.cuda.synchronize()

    return step


def device_allocations(*, fixed: bool) -> Step:
    """Memory given back to the driver and taken again in each round; fixed: kept by the caching allocator."""
    weight = matrix(2048)

    def step() -> None:
        for _ in range(10):
            product = weight @ weight
            if not fixed:
                del product
                torch.cuda.empty_cache()
        torch.cuda.synchronize()

    return step


def small_copies(*, fixed: bool) -> Step:
    """Three hundred pinned tensors of 16 KiB, one by one; fixed: gathered in a pinned buffer that goes as one."""
    pieces = [torch.ones(4096, pin_memory=True) for _ in range(300)]
    buffer, weight = torch.empty(300 * 4096, pin_memory=True), matrix(2048)

    def step() -> None:
        if fixed:
            torch.cat(pieces, out=buffer)
        for piece in (buffer,) if fixed else pieces:
            piece.to("cuda", non_blocking=True)
        torch.mm(weight, weight)
        torch.cuda.synchronize()

    return step


if __name__ == "__main__":
    main(
        (
            launch_bound,
            training,
            backward_pageable,
            no_distance,
            up_and_down,
            device_allocations,
            small_copies,
        ),
        str(__doc__),
    )
