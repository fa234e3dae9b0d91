"""Record a script that knows nothing of us, and choose which stretch of it."""

from __future__ import annotations

import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from overlapscope.capture.recorder import record
from overlapscope.capture.watch import watch_ranges
from overlapscope.errors import CaptureError, OverlapscopeError


@dataclass(frozen=True)
class Times:
    """When to record, in seconds: from ``delay_s`` after the start of the script, for ``duration_s`` or to its end."""

    delay_s: float = 0.0
    duration_s: float | None = None


def run_script(argv: list[str], *, module: bool = False) -> int:
    """Run ``argv[0]``, a script or a module's name, as ``python`` would, with the rest as its arguments.

    Returns:
        The exit status that the script asks for.

    Raises:
        BaseException: whatever the script raises, other than ``SystemExit``.
    """
    name = argv[0]
    try:
        with _as_main(argv, "" if module else str(Path(name).resolve().parent)):
            if module:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(name, run_name="__main__")
    except SystemExit as wish:
        if wish.code is None or isinstance(wish.code, int):
            return wish.code or 0
        print(wish.code, file=sys.stderr)  # noqa: T201 - what python does with it
        return 1
    return 0


@contextmanager
def recording_by_range(recording: record, name: str) -> Iterator[None]:
    """Record the occurrences of a range as the steps of ``recording``, from the first that is opened."""
    inside = False

    def opened(which: str) -> None:
        nonlocal inside
        if which == name and not inside:
            recording.__enter__()
            inside = True

    def closed(which: str) -> None:
        if which == name and inside:
            recording.step()

    try:
        with watch_ranges(opened, closed):
            yield
    finally:
        if inside:
            recording.__exit__(*sys.exc_info())
    if not inside:
        raise CaptureError(f"nothing was recorded: the script opened no range named {name!r}")


@contextmanager
def recording_by_time(recording: record, times: Times, tell: Callable[[str], None]) -> Iterator[None]:
    """Record a stretch of time, and ``tell`` when its end comes before the script's.

    An alarm signal interrupts the main thread between two of its instructions, because the profiler
    records the thread that starts it. What fails on the way is raised at the end of the script.
    """
    if times == Times():
        with watch_ranges(_ignore, _ignore), recording:
            yield
        return
    if not hasattr(signal, "SIGALRM"):
        raise CaptureError("a delay or a duration needs SIGALRM, which this system does not have")
    clock = _Clock(recording, times, tell)
    old = signal.signal(signal.SIGALRM, lambda *_: clock.ring())
    try:
        with watch_ranges(_ignore, _ignore):
            clock.set(times.delay_s)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        clock.end(*sys.exc_info())


class _Clock:
    """Rings once to start a recording and, where it shall last a certain time, once to end it."""

    def __init__(self, recording: record, times: Times, tell: Callable[[str], None]) -> None:
        self._recording, self._times, self._tell = recording, times, tell
        self._running = False
        self._failure: OverlapscopeError | None = CaptureError(
            f"nothing was recorded: the script ended before the delay of {times.delay_s:g} s"
        )

    def set(self, seconds: float) -> None:
        if seconds > 0:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        else:
            self.ring()

    def ring(self) -> None:
        try:
            if self._running:
                self._running = False
                self._recording.__exit__(None, None, None)
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

    def end(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """At the end of the script: end what still runs, and raise what failed."""
        if self._running:
            self._recording.__exit__(kind, error, trace)
        elif self._failure is not None and error is None:
            raise self._failure


def _ignore(_name: str) -> None:
    pass


@contextmanager
def _as_main(argv: list[str], folder: str) -> Iterator[None]:
    old = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = list(argv), folder
    try:
        yield
    finally:
        sys.argv, sys.path[0] = old
