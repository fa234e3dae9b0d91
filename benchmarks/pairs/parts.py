"""What several programs are made of."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.pairs.recording import Step


def weight(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").div_(shape[-2] ** 0.5).to(dtype)


def captured(work: Step, state: Sequence[torch.Tensor] = ()) -> torch.cuda.CUDAGraph:
    """The work as a graph; ``state`` is as it was before."""
    before = [each.detach().clone() for each in state]
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    for each, old in zip(state, before, strict=True):
        each.detach().copy_(old)
    torch.cuda.synchronize()
    return graph
