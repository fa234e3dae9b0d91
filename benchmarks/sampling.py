"""Measure what noting the host costs a loop that is bound by launching: steps with the sampler and without, in turns.

    python -m benchmarks.sampling

``--interval 100000`` never samples, and shows what else makes times differ. Runs on a GPU where there is one, else on
the processor. A step calls many tiny operators from a stack of some depth.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from overlapscope.capture import sampler as sampler_module
from overlapscope.capture.host_log import HostLog, watch_host
from overlapscope.capture.sampler import Sampler, Stacks

DEPTH, OPERATORS = 20, 20_000


def step(rows: torch.Tensor, depth: int = DEPTH) -> None:
    """A step: tiny operators, at the bottom of a stack."""
    if depth:
        step(rows, depth - 1)
        return
    for _ in range(OPERATORS):
        rows.add_(1)


def times_s(rows: torch.Tensor, sampler: Sampler | None) -> tuple[float, float]:
    """Wall time of a step, and processor time of the whole process meanwhile."""
    if sampler is not None:
        sampler.start()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    step(rows)
    if rows.is_cuda:
        torch.cuda.synchronize()
    taken = time.perf_counter() - begin, time.process_time() - begin_cpu
    if sampler is not None:
        sampler.stop()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="pairs of steps")
    parser.add_argument("--interval", type=float, default=sampler_module.INTERVAL_NS / 1e6, help="ms between samples")
    arguments = parser.parse_args()
    steps, sampler_module.INTERVAL_NS = arguments.steps, int(1e6 * arguments.interval)
    torch.set_num_threads(1)
    rows = torch.ones(64, device="cuda" if torch.cuda.is_available() else "cpu")
    times_s(rows, None)
    stacks = Stacks()  # shared, as in a recording
    samplers = [Sampler(stacks) for _ in range(steps)]
    without: list[tuple[float, float]] = []
    sampled: list[tuple[float, float]] = []
    with watch_host(HostLog()):
        for number, sampler in enumerate(samplers):
            for each in (None, sampler) if number % 2 else (sampler, None):
                (without if each is None else sampled).append(times_s(rows, each))
    print(f"on {rows.device}, {steps} pairs of steps of {1e3 * statistics.median(wall for wall, _ in without):.1f} ms")
    for index, name in enumerate(("wall", "processor")):
        ones, others = ([times[index] for times in each] for each in (sampled, without))
        pairs = statistics.median(one / other for one, other in zip(ones, others, strict=True))
        least = min(ones) / min(others)
        print(f"{name} time with sampling / without: median of pairs {pairs:.3f}, of the least of each {least:.3f}")
    known = [each.sampling for each in samplers if each.sampling is not None]
    share = sum(each.cost_ns or 0 for each in known) / sum(each.wall_ns or 0 for each in known)
    number = sum(each.samples or 0 for each in known) / steps
    print(f"{number:.1f} samples a step; the sampler's processor time is {share:.3f} of them")


if __name__ == "__main__":
    main()
