"""What does a kernel take in a CUDA graph, beyond what a profiler says that it takes outside of one?

    python benchmarks/graph_nodes.py        # needs a GPU

Chains of kernels, each of which needs the one before it. In a graph: by how much a replay of a chain twice as long
takes longer, by CUDA events and without a profiler, over the nodes that are more; what is left of the shorter one is
what it takes to start. Outside: the mean of the durations that torch.profiler records where the GPU waits for each
launch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

CALLS, REPLAYS = 200, 20
PAUSE_S = 2e-5  # between launches, so that no kernel follows another


def chains() -> dict[str, Callable[[], object]]:
    few, many = torch.ones(1024, device="cuda"), torch.ones(1 << 18, device="cuda")
    square, product = torch.randn(256, 256, device="cuda"), torch.empty(256, 256, device="cuda")
    hidden, weight = torch.randn(64, 256, device="cuda"), torch.randn(256, 768, device="cuda")
    norm = torch.nn.LayerNorm(256).cuda()

    def gates() -> None:
        reset, update, new = (hidden @ weight).chunk(3, 1)
        hidden.copy_(torch.sigmoid(reset) * torch.tanh(new) + (1 - torch.sigmoid(update)) * hidden)

    def block() -> None:
        torch.softmax(torch.relu(norm(hidden) @ weight), -1).sum(-1)

    return {
        "one small element-wise kernel": lambda: few.add_(1),
        "one larger element-wise kernel": lambda: many.mul_(1),
        "a small matrix product": lambda: torch.mm(square, square, out=product),
        "a gated cell": gates,
        "a normalised layer": block,
    }


def captured(work: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        for _ in range(calls):
            work()
    return graph


def replay_ns(graph: torch.cuda.CUDAGraph) -> float:
    times: list[float] = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        graph.replay()  # so that the clocks are up, and the next one is queued when it begins
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e6 * begin.elapsed_time(end))
    return min(times)


def durations_ns(work: Callable[[], object]) -> list[int]:
    with profile(activities=[ProfilerActivity.CUDA]) as profiler, torch.no_grad():
        for _ in range(CALLS):
            work()
            time.sleep(PAUSE_S)
        torch.cuda.synchronize()
    events = profiler.profiler.kineto_results.events()
    return [event.duration_ns() for event in events if event.device_type().name == "CUDA"]


def main() -> None:
    works = chains()
    with torch.no_grad():  # before there is a profiler
        replays = {
            name: [replay_ns(captured(work, calls)) for calls in (CALLS, 2 * CALLS)] for name, work in works.items()
        }
    beyond = []
    for name, work in works.items():
        kernels = durations_ns(work)
        once, twice = replays[name]
        node, outside = (twice - once) / len(kernels), statistics.mean(kernels)
        start = once - node * len(kernels)
        beyond.append(node - outside)
        print(f"{name:32} {outside:6.0f} ns a kernel, {node:6.0f} a node: {beyond[-1]:+5.0f}; {start:6.0f} to start")
    print(f"median: {statistics.median(beyond):.0f} ns a node")


if __name__ == "__main__":
    main()
