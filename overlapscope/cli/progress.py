"""Say on a terminal what a command is doing, once it takes longer than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING

from overlapscope.formatting import safe

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_S = 1.0
_BAR_WIDTH = 16
_NAME_WIDTH = 24


class Phases:
    """The phase that a command is in. Without a terminal, or with ``--quiet``, it shows nothing."""

    def __init__(self, bar: Progress | None = None, name: str = "") -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task("", total=None, name=name)

    def begin(self, phase: str) -> None:
        """Say which phase begins; the time shown is that of all phases."""
        if self._bar is not None and self._task is not None:
            started = self._bar.tasks[0].start_time
            self._bar.reset(self._task, total=None, description=phase)
            self._bar.tasks[0].start_time = started

    def read(self, done: int, total: int) -> None:
        """Say how much of the trace is read."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total)


@contextmanager
def phases(path: Path, *, quiet: bool = False) -> Iterator[Phases]:
    """Phases of a command about this trace; the line disappears when it ends."""
    if quiet or not sys.stderr.isatty():
        yield Phases()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}"), BarColumn(_BAR_WIDTH), TimeElapsedColumn())
    name = TextColumn("{task.fields[name]}", markup=False)
    bar = Progress(SpinnerColumn(), *parts, name, console=Console(stderr=True), transient=True)
    with _shown_later(bar):
        yield Phases(bar, safe(path.name, _NAME_WIDTH))


@contextmanager
def _shown_later(bar: Progress) -> Iterator[None]:
    lock, over, shown = Lock(), False, False

    def show() -> None:
        nonlocal shown
        with lock:
            if not over:
                bar.start()
                shown = True

    timer = Timer(_PATIENCE_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            over = True
            if shown:
                bar.stop()
