"""Record a script that knows nothing of us, and choose which stretch of it."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType

from overlapscope.capture.annotate import profiler_name
from overlapscope.capture.recorder import record
from overlapscope.capture.watch import watch_ranges
from overlapscope.errors import CaptureError, OverlapscopeError

_EARLY_S = 0.01  # an alarm that comes earlier than this before its time is not ours


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
                _run_file(name)
    except SystemExit as wish:
        if wish.code is None or isinstance(wish.code, int):
            return wish.code or 0
        print(wish.code, file=sys.stderr)  # noqa: T201 - what python does with it
        return 1
    return 0


def _run_file(name: str) -> None:
    """Run a script as ``__main__``. Unlike `runpy.run_path`, this leaves ``sys.argv[0]`` as it was given."""
    main = ModuleType("__main__")
    main.__file__ = str(Path(name).absolute())
    code = compile(Path(name).read_bytes(), main.__file__, "exec")
    old, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        exec(code, main.__dict__)  # noqa: S102 - what the command is for
    finally:
        sys.modules["__main__"] = old


@contextmanager
def recording_by_range(recording: record, name: str) -> Iterator[None]:
    """Record the occurrences of a range as the steps of ``recording``, from the first that is opened."""
    name, process = profiler_name(name), os.getpid()
    inside = False
    failure: OverlapscopeError | None = None

    def opened(which: str) -> None:
        nonlocal inside, failure
        if which != name or inside or failure is not None:
            return
        try:
            recording.__enter__()
            inside = True
        except OverlapscopeError as error:
            failure = error  # the script goes on, its end says what failed

    def closed(which: str) -> None:
        if which == name and inside:
            recording.step()

    try:
        with watch_ranges(opened, closed):
            yield
    finally:
        if inside:
            recording.__exit__(*sys.exc_info())
    if not inside and os.getpid() == process:
        raise failure or CaptureError(
            f"nothing was recorded: the script's main thread opened no range named {name!r} in this process"
        )


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

    def ring(*_: object) -> None:
        clock.ring()

    old = signal.signal(signal.SIGALRM, ring)
    try:
        with watch_ranges(_ignore, _ignore):
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


def _ignore(_name: str) -> None:
    pass


@contextmanager
def _as_main(argv: list[str], folder: str) -> Iterator[None]:
    old_argv, old_path = sys.argv, list(sys.path)
    sys.argv, sys.path[0] = list(argv), folder
    try:
        yield
    finally:
        sys.argv, sys.path[:] = old_argv, old_path
