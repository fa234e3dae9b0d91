"""The catalogue of all checks, in the order in which their answers matter to an audit."""

from __future__ import annotations

from overlapscope.fitness.answer import Check
from overlapscope.fitness.checks import (
    blocked,
    clocks,
    complete,
    cycles,
    gpu_idle,
    host_waits,
    launches,
    loaders,
    memory,
    modules,
    operators,
    profiler,
    ranges,
    ranks,
    source,
    steps,
    stream_waits,
    tensors,
)

CHECKS: tuple[Check, ...] = tuple(
    module.CHECK
    for module in (
        gpu_idle,
        complete,
        cycles,
        clocks,
        launches,
        blocked,
        memory,
        stream_waits,
        host_waits,
        profiler,
        steps,
        ranges,
        operators,
        source,
        modules,
        tensors,
        loaders,
        ranks,
    )
)
"""All checks."""
