"""Record steps of a script: occurrences of a range, or steps that are found while it runs."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from overlapscope.capture.annotate import profiler_name
from overlapscope.capture.recorder import record
from overlapscope.capture.watch import on_main_thread, replaced, watch_ranges
from overlapscope.errors import CaptureError, OverlapscopeError

_PROFILER_STEP = "ProfilerStep#"
"""The begin of the names of the ranges that the profiler itself opens while it records."""
_OPTIMIZER, _LOADER = "Optimizer.step", "enumerate(DataLoader)"
"""The begins of the names of the ranges that torch itself opens in each step."""
_FIRST = 2  # one step or batch is no loop: programs look at the first batch, or try a step, to learn its shape
_PATIENCE = 64  # batches without a step of an optimizer that was made: more than gradients are accumulated over
_MOST_NAMES = 12  # in a message
_LOOP = re.compile(r"\b(?:DataLoader|Trainer|Accelerator|Adam\w*|SGD)\(|\boptim\.\w+\(")
"""What a script makes that will take steps."""


def promises_steps(text: str) -> bool:
    """Whether a script makes a DataLoader or an optimizer, as far as its text tells.

    >>> promises_steps("optimizer = torch.optim.Adam(net.parameters())"), promises_steps("net(torch.ones(3))")
    (True, False)
    """
    return _LOOP.search(text) is not None


class _LateStart:
    """Begins a recording once; what fails then is raised at the end of the script."""

    def __init__(self, recording: record) -> None:
        self._recording = recording
        self._process = os.getpid()
        self._inside = False
        self._failure: OverlapscopeError | None = None

    def begin(self) -> None:
        """Begin now, if that was not tried before."""
        if self._inside or self._failure is not None:
            return
        try:
            self._recording.__enter__()
            self._inside = True
        except OverlapscopeError as error:
            self._failure = error

    @contextmanager
    def ending(self, reason: Callable[[], str]) -> Iterator[None]:
        """End the recording with the block; where it never began, raise why, for which ``reason`` is asked."""
        try:
            yield
        finally:
            if self._inside:
                self._recording.__exit__(*sys.exc_info())
        if not self._inside and os.getpid() == self._process:
            raise self._failure or CaptureError(reason())


class _HeardRanges:
    """Counts the ranges of the main thread, and those of other threads, which are never steps."""

    def __init__(self) -> None:
        self._main: Counter[str] = Counter()
        self._others: Counter[str] = Counter()

    def on_main(self, name: str) -> None:
        """Count a range of the main thread, unless it is the profiler's own."""
        if not name.startswith(_PROFILER_STEP):
            self._main[name] += 1

    def on_other(self, name: str) -> None:
        """Count a range of another thread."""
        self._others[name] += 1

    def sentence(self) -> str:
        """Which ranges there were, and which of them are not counted."""
        if self._main:
            there = f"the script's main thread opened: {_listed(self._main)}"
        else:
            there = "the script's main thread opened no range in this process"
        if not self._others:
            return there
        return f"{there}; only ranges of the main thread are counted, other threads opened: {_listed(self._others)}"

    def __bool__(self) -> bool:
        return bool(self._main or self._others)


def _listed(heard: Counter[str]) -> str:
    names = [f"{name} ({count}x)" for name, count in heard.most_common(_MOST_NAMES)]
    more = len(heard) - len(names)
    return ", ".join(names) + (f", and {more} more" if more else "")


@contextmanager
def recording_by_range(recording: record, pattern: str) -> Iterator[None]:
    """Record the occurrences of a range as the steps of ``recording``, from the first that is opened.

    ``*`` and ``?`` in ``pattern`` stand for any text and any letter. Of matching ranges inside each other, the
    outermost counts.
    """
    occurrences = _Occurrences(recording, pattern)
    recording.when_too_few = occurrences.too_few
    start = occurrences.start.ending(occurrences.nothing_matched)
    with start, watch_ranges(occurrences.opened, occurrences.closed, occurrences.heard.on_other):
        yield


class _Occurrences:
    """Counts the ranges of the main thread, and makes those that match steps."""

    def __init__(self, recording: record, pattern: str) -> None:
        self.start = _LateStart(recording)
        self._recording, self._pattern = recording, profiler_name(pattern)
        self._matches = re.compile(_regular(self._pattern), re.DOTALL).fullmatch
        self.heard = _HeardRanges()
        self._depth = 0

    def opened(self, name: str) -> None:
        self.heard.on_main(name)
        if self._is_meant(name):
            self._depth += 1
            if self._depth == 1:
                self.start.begin()

    def closed(self, name: str) -> None:
        if self._is_meant(name):
            self._depth -= 1
            if self._depth == 0:
                self._recording.marker = self._pattern
                self._recording.step()

    def nothing_matched(self) -> str:
        """A sentence with the ranges that there are."""
        there = f"{self.heard.sentence()}; --steps auto finds steps by itself"
        return f"nothing was recorded: no range named {self._pattern!r}; {there}"

    def too_few(self, made: int, asked: int) -> str:
        """A sentence for a script that ended before the first occurrence to record."""
        return (
            f"nothing was recorded: the script ended after {made} of {asked} steps, ranges named {self._pattern!r}, "
            f"that --steps, --warmup and --unprofiled ask for; ask for fewer; {self.heard.sentence()}"
        )

    def _is_meant(self, name: str) -> bool:
        return not name.startswith(_PROFILER_STEP) and self._matches(name) is not None


def _regular(pattern: str) -> str:
    """A pattern with ``*`` and ``?`` as a regular expression.

    >>> _regular("step?*")
    'step..*'
    """
    return "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)


@contextmanager
def recording_by_step(recording: record, steps: int, *, from_begin: bool, short_below: int = 0) -> Iterator[None]:
    """Record so many steps of the script.

    A step ends with the next batch of a DataLoader after an optimizer has made its step. Where no batch is taken
    between two steps of one optimizer, it ends where the same optimizer steps again; without optimizers, with each
    batch, and where they do not step, after `_PATIENCE` batches. Steps are counted from the second on.

    Args:
        recording: the recording, of the whole block where ``from_begin``, else of so many steps.
        steps: how many.
        from_begin: record from the begin of the script until steps are found. That is kept where none of them is
            recorded until the script's end.
        short_below: record likewise from the first loop over a DataLoader that has fewer batches than this.
    """
    start = _LateStart(recording)
    finder = _Finder(recording, steps, start, restarts=from_begin)
    if from_begin:
        start.begin()
    recording.when_too_few = finder.too_few
    ranges = watch_ranges(finder.opened, finder.closed, finder.heard.on_other)
    loops = _watch_loops(finder.short_loop, short_below) if short_below else ExitStack()
    with start.ending(finder.no_steps), ranges, loops, _watch_optimizers(finder.made, finder.stepped):
        yield


class _Finder:
    """Decides what ends a step, and ends steps with it."""

    def __init__(self, recording: record, steps: int, start: _LateStart, *, restarts: bool) -> None:
        self._recording, self._steps, self._start, self._restarts = recording, steps, start, restarts
        self._kind = ""  # what ends steps, once that is known
        self._optimizers_made = self._ever_stepped = self._again = False
        self._stepped: set[Any] = set()  # the optimizers that did in this step
        self._batches = 0  # since an optimizer stepped
        self._fed = False  # batches come between the steps of optimizers
        self.heard = _HeardRanges()

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

    def short_loop(self) -> None:
        """A loop begins that has too few batches to time some of them without the profiler."""
        if not self._kind and not self._restarts:
            self._restarts = True
            self._recording.plan_anew(None, unprofiled=0)
            self._start.begin()

    def opened(self, name: str) -> None:
        self.heard.on_main(name)
        if not name.startswith(_LOADER) or self._kind == _OPTIMIZER:
            return
        self._batches += 1
        patience = _PATIENCE if self._optimizers_made else _FIRST
        if self._stepped if self._fed else self._batches >= patience:
            self._stepped.clear()
            self._end_step(_LOADER, _LOADER)

    def closed(self, name: str) -> None:
        if name.startswith(_OPTIMIZER) and self._again:
            self._again = False
            if not self._fed or self._kind == _OPTIMIZER:
                self._end_step(_OPTIMIZER, name)

    def no_steps(self) -> str:
        return (
            f"nothing was recorded: the script's main thread made fewer than {_FIRST} steps of a torch optimizer and "
            f"took too few batches from a DataLoader to tell steps by; name a range with --range, or use "
            f"--steps auto without --unprofiled to record all of it; {self.heard.sentence()}"
        )

    def too_few(self, made: int, asked: int) -> str:
        """A sentence for a script that ended before the first step to record."""
        return (
            f"nothing was recorded: the script ended after {made} of {asked} steps, counted by "
            f"{self._recording.marker!r}, that --steps, --warmup and --unprofiled ask for; ask for fewer, as --steps "
            f"auto does, or name a range with --range; {self.heard.sentence()}"
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
def _watch_loops(short: Callable[[], None], below: int) -> Iterator[None]:
    """Hear when a loop of the main thread over a DataLoader begins that has fewer batches than this."""
    from torch.utils.data import DataLoader

    iterate: Any = DataLoader.__iter__

    @functools.wraps(iterate)
    def heard_iterate(self: Any) -> Any:
        with suppress(TypeError, NotImplementedError):  # of a dataset without a length
            if on_main_thread() and len(self) < below:
                short()
        return iterate(self)

    with replaced(DataLoader, "__iter__", heard_iterate):
        yield


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
