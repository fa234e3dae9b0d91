"""Record a stretch of a script: all of it, what it brackets itself, or an interval of time."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from overlapscope.capture.recorder import record
from overlapscope.capture.watch import on_main_thread, replaced
from overlapscope.errors import CaptureError, OverlapscopeError

START, STOP = "cudaProfilerStart", "cudaProfilerStop"
_BRACKETS = re.compile(rf"{START}|{STOP}|\bprofiler\.(?:start|stop)\(")


def brackets(text: str) -> bool:
    """Whether a script says itself what to record, as far as its text tells.

    >>> brackets("torch.cuda.profiler.start()"), brackets("timer.start()")
    (True, False)
    """
    return _BRACKETS.search(text) is not None


@contextmanager
def recording_whole(recording: record, tell: Callable[[str], None]) -> Iterator[None]:
    """Record all of a script. Where it calls cudaProfilerStart through torch, begin again there; end at the Stop.

    A profiler around this program hears these calls itself.
    """
    with recording, _watch_calls(*_answers(recording, tell)) if recording.writes else ExitStack():
        yield


def _answers(recording: record, tell: Callable[[str], None]) -> tuple[Callable[[], None], Callable[[], None]]:
    """The answers to a script that asks to begin and to end."""

    def begin() -> None:
        if not recording.marker:
            recording.marker = START
            recording.restart()

    def end() -> None:
        if recording.done:
            return
        recording.marker = recording.marker or STOP
        recording.end()
        if recording.saved:
            tell(f"the script called {STOP}: the recording ends there, and the script goes on")

    return begin, end


@contextmanager
def _watch_calls(begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Hear of the calls of the main thread. Calls that the recorder makes while it answers one are ignored."""
    import torch

    if not torch.cuda.is_available():
        yield
        return
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    answering = False

    def heard(call: Any, answer: Callable[[], None]) -> Any:
        def heard_call() -> Any:
            nonlocal answering
            result = call()
            if not answering and on_main_thread():
                answering = True
                try:
                    answer()
                finally:
                    answering = False
            return result

        return heard_call

    with (
        replaced(runtime, START, heard(getattr(runtime, START), begin)),
        replaced(runtime, STOP, heard(getattr(runtime, STOP), end)),
    ):
        yield


_EARLY_S = 0.01  # an alarm that comes earlier than this before its time is not ours


@dataclass(frozen=True)
class Times:
    """When to record, in seconds: from ``delay_s`` after the start of the script, for ``duration_s`` or to its end."""

    delay_s: float = 0.0
    duration_s: float | None = None


@contextmanager
def recording_by_time(recording: record, times: Times, tell: Callable[[str], None]) -> Iterator[None]:
    """Record a stretch of time, and ``tell`` when its end comes before the script's.

    An alarm signal interrupts the main thread between two of its instructions, because the profiler
    records the thread that starts it. What fails on the way is raised at the end of the script.
    """
    if not hasattr(signal, "SIGALRM"):
        raise CaptureError("a delay or a duration needs SIGALRM, which this system does not have")
    clock = _Clock(recording, times, tell)

    def ring(*_: object) -> None:
        clock.ring()

    old = signal.signal(signal.SIGALRM, ring)
    try:
        clock.set(times.delay_s)
        yield
    finally:
        undisturbed = signal.getsignal(signal.SIGALRM) is ring
        if undisturbed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        clock.end(*sys.exc_info(), disturbed=not undisturbed)


class _Clock:
    """Rings once to start a recording and, where it shall last a certain time, once to end it."""

    def __init__(self, recording: record, times: Times, tell: Callable[[str], None]) -> None:
        self._recording, self._times, self._tell = recording, times, tell
        self._running = False
        self._due_s = 0.0
        self._process = os.getpid()
        self._failure: OverlapscopeError | None = CaptureError(
            f"nothing was recorded: the script ended before the delay of {times.delay_s:g} s"
        )

    def set(self, seconds: float) -> None:
        self._due_s = time.monotonic() + seconds
        if seconds > 0:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        else:
            self.ring()

    def ring(self) -> None:
        if os.getpid() != self._process:
            return
        left = self._due_s - time.monotonic()
        if left > _EARLY_S:
            self._tell("the script sets timers of its own; --delay and --duration go on from here")
            signal.setitimer(signal.ITIMER_REAL, left)
            return
        try:
            if self._running:
                self._running = False
                self._recording.__exit__(None, None, None)
                if self._recording.saved:
                    self._tell(f"recorded {self._times.duration_s:g} s to {self._recording.path}; the script goes on")
                return
            self._failure = None
            self._recording.__enter__()
            self._running = True
            if self._times.duration_s is not None:
                self.set(self._times.duration_s)
        except OverlapscopeError as error:
            self._failure = error
            self._tell(str(error))

    def end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        *,
        disturbed: bool,
    ) -> None:
        """At the end of the script: end what still runs, and raise what failed."""
        if os.getpid() != self._process:
            return
        if disturbed:
            self._tell("the script uses SIGALRM itself: --delay and --duration could not be kept")
        if self._running:
            self._recording.__exit__(kind, error, trace)
        elif self._failure is not None and error is None:
            raise self._failure
