"""Record steps of a script that are found while it runs: steps of its optimizer, or batches of its DataLoader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from overlapscope.capture.heard_ranges import HeardRanges
from overlapscope.capture.late_start import LateStart
from overlapscope.capture.recorder import record
from overlapscope.capture.watch import on_main_thread, replaced, watch_ranges

OPTIMIZER, LOADER = "Optimizer.step", "enumerate(DataLoader)"
"""What the names of the ranges begin with that torch itself opens in each step."""
_FIRST = 2  # one step or batch is no loop: programs look at the first batch, or try a step, to learn its shape
_PATIENCE = 64  # batches without a step of an optimizer that was made: more than gradients are accumulated over


@contextmanager
def recording_by_step(recording: record, steps: int, *, from_begin: bool) -> Iterator[None]:
    """Record so many steps of the script.

    A step ends with the next batch of a DataLoader after an optimizer has made its step. Where no batch is taken
    between two steps of one optimizer, it ends where the same optimizer steps again; without optimizers, with each
    batch, and where they do not step, after `_PATIENCE` batches. Steps are counted from the second on.

    Args:
        recording: the recording, of the whole block where ``from_begin``, else of so many steps.
        steps: how many.
        from_begin: record from the begin of the script until steps are found. That is kept where none of them is
            recorded until the script's end.
    """
    start = LateStart(recording)
    finder = _Finder(recording, steps, start, restarts=from_begin)
    if from_begin:
        start.begin()
    recording.when_too_few = finder.too_few
    ranges = watch_ranges(finder.opened, finder.closed, finder.heard.on_other)
    with start.ending(finder.nothing_found), ranges, _watch_optimizers(finder.made, finder.stepped):
        yield


class _Finder:
    """Decides what ends a step, and ends steps with it."""

    def __init__(self, recording: record, steps: int, start: LateStart, *, restarts: bool) -> None:
        self._recording, self._steps, self._start, self._restarts = recording, steps, start, restarts
        self._kind = ""  # what ends steps, once that is known
        self._optimizers_made = self._ever_stepped = self._again = False
        self._stepped: set[Any] = set()  # the optimizers that did in this step
        self._batches = 0  # since an optimizer stepped
        self._fed = False  # batches come between the steps of optimizers
        self.heard = HeardRanges()

    def made(self) -> None:
        self._optimizers_made = True

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has made its step; its range is still open."""
        self._fed = self._fed or (self._ever_stepped and self._batches > 0)
        self._again = optimizer in self._stepped
        if self._again:
            self._stepped.clear()
        self._stepped.add(optimizer)
        self._ever_stepped, self._batches = True, 0

    def opened(self, name: str) -> None:
        self.heard.on_main(name)
        if not name.startswith(LOADER) or self._kind == OPTIMIZER:
            return
        self._batches += 1
        patience = _PATIENCE if self._optimizers_made else _FIRST
        if self._stepped if self._fed else self._batches >= patience:
            self._stepped.clear()
            self._end_step(LOADER, LOADER)

    def closed(self, name: str) -> None:
        if name.startswith(OPTIMIZER) and self._again:
            self._again = False
            if not self._fed or self._kind == OPTIMIZER:
                self._end_step(OPTIMIZER, name)

    def nothing_found(self) -> str:
        return (
            f"nothing was recorded: the script's main thread made fewer than {_FIRST} steps of a torch optimizer and "
            f"took too few batches from a DataLoader to tell steps by; name a range with --range, or leave "
            f"--unprofiled out to record all of it; {self.heard.sentence()}"
        )

    def too_few(self, made: int, asked: int) -> str:
        """A sentence for a script that ended before the first step to record."""
        return (
            f"nothing was recorded: the script ended after {made} of {asked} steps, counted by "
            f"{self._recording.marker!r}, that --steps, --warmup and --unprofiled ask for; ask for fewer, or name a "
            f"range with --range; {self.heard.sentence()}"
        )

    def _end_step(self, kind: str, marker: str) -> None:
        if self._kind:
            if kind == self._kind:
                self._recording.step()
            return
        self._kind, self._recording.marker = kind, marker
        if self._restarts:
            self._recording.restart(self._steps)
        else:
            self._start.begin()


@contextmanager
def _watch_optimizers(made: Callable[[], None], stepped: Callable[[Any], None]) -> Iterator[None]:
    """Hear when an optimizer is made, and after each step of one."""
    from torch.optim import optimizer

    make: Any = optimizer.Optimizer.__init__

    @functools.wraps(make)
    def heard_make(self: Any, *args: Any, **kwargs: Any) -> None:
        made()
        make(self, *args, **kwargs)

    def heard_step(which: Any, *_: Any) -> None:
        if on_main_thread():
            stepped(which)

    hook = optimizer.register_optimizer_step_post_hook(heard_step)
    try:
        with replaced(optimizer.Optimizer, "__init__", heard_make):
            yield
    finally:
        hook.remove()
