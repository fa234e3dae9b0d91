"""Say on a terminal how many of many traces are done, how fast, and how long the rest will take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from overlapscope.formatting import size

if TYPE_CHECKING:
    from overlapscope.fleet.sources import Source
    from overlapscope.fleet.task import Outcome

_BAR_WIDTH = 16


@contextmanager
def tally(sources: Sequence[Source], *, quiet: bool) -> Iterator[Callable[[Source, Outcome], None]]:
    """What to call with each trace and its outcome; without a terminal, or with ``quiet``, it shows nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (BarColumn(_BAR_WIDTH), MofNCompleteColumn(), TextColumn("traces  {task.fields[rate]}  left:"))
    bar = Progress(*shown, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task, began, read = bar.add_task("", total=len(sources), rate=""), monotonic(), 0

    def done(source: Source, outcome: Outcome) -> None:
        nonlocal read
        read += 0 if outcome.kept else source.size_bytes
        finished, passed = int(bar.tasks[0].completed) + 1, max(monotonic() - began, 1e-3)
        bar.update(task, advance=1, rate=f"{finished / passed:.1f}/s, {size(int(read / passed))}/s")

    with bar:
        yield done
