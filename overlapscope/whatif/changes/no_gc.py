"""Garbage is not collected in the loop.

## What it changes
What threads do between CUDA calls is shorter by the time in which Python collects garbage: called by the program
(``gc.collect()``), or by Python itself, as far as a recording notes it.

## What it assumes
Memory stays bounded without it. Most objects are freed when the last reference to them goes; the collector is for those
that refer to each other in a cycle (Python documentation, "gc"). Collect every some hundred steps instead, or call
``gc.freeze()`` once after the setup, so that the collector does not walk what stays.

## When it misleads
A program that keeps tensors alive in cycles needs more GPU memory without collections, and may run out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from overlapscope.measure.host_work import HostWorkKind
from overlapscope.whatif.change import Change
from overlapscope.whatif.changes.no_host_work import NoHostWork


@dataclass(frozen=True)
class NoGc(NoHostWork):
    """No garbage collection in the loop."""

    kind: str | None = HostWorkKind.GC

    name: ClassVar[str] = "no-gc"
    limits: ClassVar[tuple[str, ...]] = Change.limits
    condition: ClassVar[str] = "if memory stays bounded without it"
    assumption: ClassVar[str] = "memory stays bounded without collecting in the loop"
