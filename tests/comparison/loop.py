"""A loop of copies and kernels whose parts can be chosen one by one, as a trace with the times that follow."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests.notation import trace_of

_ENQUEUE, _LATENCY = 4.0, 5.0


@dataclass(frozen=True)
class Loop:
    """Each step copies, waits for the copy or not, and launches a kernel; times are in us.

    Copies of pageable memory block their call. ``pieces`` is how many copies a step makes of its data of so many
    ``kib``, ``reads`` whether it reads a value at its end, ``scatter`` the share by which everything scatters.
    """

    steps: int = 4
    memory: str = "pinned"
    copy_us: float = 200
    sync: bool = False
    stream: int = 7
    kernel_us: float = 300
    kernel: str = "gemm"
    blocks: int = 64
    gap_us: float = 20
    allocation_us: float = 0
    pieces: int = 1
    kib: int = 64
    reads: bool = False
    scatter: float = 0
    seed: int = 0

    def trace(self, folder: Path, **header: Any) -> Trace:
        """The trace of the loop."""
        folder.mkdir(exist_ok=True)
        return trace_of(folder, self.text(), **(make.H200 | header))

    def text(self) -> str:
        """The trace in the notation of the tests."""
        return _Writer(self, random.Random(self.seed)).text()  # noqa: S311 - for scatter


@dataclass
class _Writer:
    loop: Loop
    chance: random.Random
    now: float = 0.0
    free: dict[int, float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def text(self) -> str:
        for _ in range(self.loop.steps):
            begin = self.now
            self._step()
            self.lines.append(f"range step {begin:.3f}-{self.now:.3f}")
            self.now += self._about(self.loop.gap_us)
        done = max(*self.free.values(), self.now + 1) + 1
        self.lines.append(f"sync {self.now:.3f}-{done:.3f}")
        return "thread 1: " + " | ".join(self.lines)

    def _about(self, us: float) -> float:
        return round(us * (1 + self.loop.scatter * (2 * self.chance.random() - 1)), 3)

    def _step(self) -> None:
        for _ in range(self.loop.pieces):
            self._copy(
                f"{self.loop.kib // self.loop.pieces}KiB {self.loop.memory} HtoD", self.loop.copy_us / self.loop.pieces
            )
        if self.loop.allocation_us:
            self._call("cudaMalloc", self._about(self.loop.allocation_us))
        copied = self.free[self.loop.stream]
        if self.loop.sync:
            end = max(self.now + 2, copied + 1)
            self.lines.append(f"stream-sync {self.now:.3f}-{end:.3f} -> stream {self.loop.stream}")
            self.now = end
        begin = max(self.now + _LATENCY, self.free.get(7, 0))
        self.free[7] = begin + self._about(self.loop.kernel_us)
        place = f"stream 7: {begin:.3f}-{self.free[7]:.3f} of {self.loop.blocks} blocks"
        self._call(f"launch {self.loop.kernel}", _ENQUEUE, place)
        if self.loop.reads:
            self._copy("4B pageable DtoH", 2, 7)

    def _copy(self, what: str, took: float, stream: int | None = None) -> None:
        stream = self.loop.stream if stream is None else stream
        begin = max(self.now + _LATENCY, self.free.get(stream, 0))
        self.free[stream] = begin + self._about(took)
        call = self.free[stream] + 1 - self.now if "pageable" in what else _ENQUEUE
        self._call(f"copy {what}", call, f"stream {stream}: {begin:.3f}-{self.free[stream]:.3f}")

    def _call(self, what: str, took: float, place: str = "") -> None:
        self.lines.append(f"{what} {self.now:.3f}-{self.now + took:.3f}" + (f" -> {place}" if place else ""))
        self.now = round(self.now + took + 1, 3)
