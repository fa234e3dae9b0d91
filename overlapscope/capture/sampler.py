"""Sample the Python stacks of all threads of this process, from a thread of its own.

Why no library does it: pyinstrument's low-level sampler goes by the profile hook of one thread
(``PyEval_SetProfile``), which slows each call down and which torch's profiler uses itself for ``with_stack``; py-spy
and ``profiling.sampling`` of Python 3.15 read another process's memory, which needs ptrace or root, and containers
mostly refuse that. ``sys._current_frames`` is documented, works in every process, and costs what is read of it.

A sample is taken when the sampler has the interpreter lock. A thread that runs Python without a pause gives it up after
``sys.getswitchinterval()``, 5 ms, so that samples come later than asked for there; each stands for the time around it.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, tee
from types import CodeType, FrameType

from overlapscope.calibration.schema import SampledPlace, Sampling
from overlapscope.capture import places
from overlapscope.capture.kineto_file import TraceEvent

CATEGORY = "python_sample"
"""The category of samples in a trace."""
INTERVAL_NS = 3_000_000
"""The least time between samples: some seven of a step of 20 ms, and less than a thread keeps the interpreter lock.

A loop bound by launching takes 2 to 4 % longer on an H100 (``benchmarks/README.md``).
"""
_COST = 0.01
"""The processor time of taking samples, as a share of the time that is sampled: where it is more, they are fewer.

To wake up for one takes as much again (20 and 25 us on one machine), and the sampled threads wait for the interpreter
lock meanwhile: together that stayed below 5 % (``benchmarks/README.md``).
"""
_REMEMBERED = 8  # samples over which their cost is averaged: one that finds new functions costs ten times the next
_DEEPEST = 40  # frames of a stack, the innermost
_MANY = 50_000  # runs, about 20 MB of trace: with each so many, samples are taken half as often
_MOST_PLACES = 20
_PATIENCE_S = 2.0  # for the sampler to end, where other threads have the interpreter lock
_RUNNER = "runner.py"  # of `overlapscope record`: what called it is not the program
_WAITING = "wait_for_devices"  # at the end of a stretch: what this calls is not the program either

Stack = tuple[str, ...]


@dataclass
class Run:
    """Consecutive samples of one thread with one stack, the innermost function first."""

    stack: Stack
    tid: int
    begin_ns: int
    last_ns: int
    end_ns: int = 0
    samples: int = 1
    cpu_ns: float | None = None


@dataclass
class _Thread:
    """What is known of a thread: its number, its processor clock where it has one, and the run that goes on."""

    tid: int
    clock: int | None
    run: Run | None = None
    ran_ns: int | None = None
    _cpu_ns: int = 0

    def __post_init__(self) -> None:
        self.advance()
        self.ran_ns = None if self.clock is None else 0

    def advance(self) -> bool:
        """Read for how long it ran since this was last read; False where it has ended, and another has its place."""
        if self.clock is None:
            return True
        try:
            before, self._cpu_ns = self._cpu_ns, time.clock_gettime_ns(self.clock)
        except OSError:
            return False
        self.ran_ns = self._cpu_ns - before
        return True


def _threads(idents: Iterable[int]) -> dict[int, _Thread]:
    """Threads by what Python knows them by; those whose number cannot be told are left out."""
    clocks = _clocks() if sys.platform == "linux" else {}
    known: dict[int, _Thread] = {}
    for ident in idents:
        clock = clocks.get(ident)
        if clock is not None:
            known[ident] = _Thread(~(clock >> 3), clock)  # Linux makes the clock of the number
        elif (thread := threading._active.get(ident)) is not None and thread.native_id:  # type: ignore[attr-defined]  # noqa: SLF001
            known[ident] = _Thread(thread.native_id, None)
    return known


def _clocks() -> dict[int, int]:
    """The processor clocks of all threads that run Python now.

    To ask for the clock of a thread that has ended can crash. None of them ends here, because no line of Python, where
    the interpreter lock may be given up, comes between listing threads and asking for their clocks.
    """
    one, same = tee(islice(iter(sys._current_frames, None), 1))  # noqa: SLF001
    try:
        (clocks,) = map(list, map(partial(map, time.pthread_getcpuclockid), one))
    except OSError:
        return {}
    return dict(zip(next(same), clocks, strict=True))


class Sampler:
    """Samples all threads but its own, from `start` to `stop`; ``stacks`` names what it finds.

    Attributes:
        runs: what was sampled so far, in the order in which it ended.
        sampling: what that cost.
    """

    def __init__(self, stacks: Stacks | None = None) -> None:
        self.runs: list[Run] = []
        self.sampling: Sampling | None = None
        self._stacks = stacks or Stacks()
        self._threads: dict[int, _Thread] = {}
        self._interval_ns = INTERVAL_NS
        self._samples = self._cost_ns = 0
        self._stopping, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._running = False

    def start(self) -> None:
        """Begin; in a thread that `threading` does not list, since programs count theirs."""
        self._stopping.acquire()
        self._ended.acquire()
        self._begin_ns = time.time_ns()
        self._running = True
        _thread.start_new_thread(self._work, ())

    def stop(self) -> None:
        """End, in a few milliseconds; does nothing where it does not run."""
        if not self._running:
            return
        self._running = False
        self._stopping.release()
        self._ended.acquire(timeout=_PATIENCE_S)
        end_ns = time.time_ns()
        for thread in self._threads.values():
            self._close(thread, end_ns)
        self.sampling = Sampling(self._interval_ns, self._samples, self._cost_ns, end_ns - self._begin_ns)

    def events(self) -> Iterator[TraceEvent]:
        """What was sampled, as events of a trace."""
        process = os.getpid()
        for run in self.runs:
            args: dict[str, object] = {"stack": ";".join(reversed(run.stack)), "samples": run.samples}
            if run.cpu_ns is not None:
                args["cpu_ns"] = round(run.cpu_ns)
            yield TraceEvent(CATEGORY, run.stack[0], run.begin_ns, run.end_ns, process, run.tid, args)

    def places(self, ident: int) -> tuple[SampledPlace, ...]:
        """The innermost functions of a thread, those with the most samples first."""
        thread = self._threads.get(ident)
        counts: Counter[str] = Counter()
        for run in self.runs if thread is not None else ():
            if thread is not None and run.tid == thread.tid:
                counts[run.stack[0]] += run.samples
        return tuple(SampledPlace(*each) for each in counts.most_common(_MOST_PLACES))

    def _work(self) -> None:
        try:
            own, each_ns = _thread.get_ident(), _COST * INTERVAL_NS
            while not self._stopping.acquire(timeout=self._interval_ns / 1e9):
                before_ns = time.thread_time_ns()
                self._sample(own)
                self._cost_ns = time.thread_time_ns()
                self._samples += 1
                each_ns += (self._cost_ns - before_ns - each_ns) / _REMEMBERED
                self._interval_ns = max(INTERVAL_NS << (len(self.runs) // _MANY), round(each_ns / _COST))
        finally:
            self._ended.release()

    def _sample(self, own: int) -> None:
        frames = sys._current_frames()  # noqa: SLF001 - documented
        now = time.time_ns()
        frames.pop(own, None)
        gone = [ident for ident, thread in self._threads.items() if ident not in frames or not thread.advance()]
        for ident in gone:
            self._close(self._threads.pop(ident), now)
        if unknown := frames.keys() - self._threads.keys():
            self._threads |= _threads(unknown)
        for ident, frame in frames.items():
            if (thread := self._threads.get(ident)) is not None:
                self._note(thread, frame, now)

    def _note(self, thread: _Thread, frame: FrameType, now: int) -> None:
        run, ran_ns = thread.run, thread.ran_ns
        stood_still = run is not None and ran_ns == 0
        stack = run.stack if run is not None and stood_still else self._stacks.of(frame)
        half = None if ran_ns is None else ran_ns / 2
        if run is not None:
            same = run.stack == stack
            run.cpu_ns = None if half is None or run.cpu_ns is None else run.cpu_ns + half * (2 if same else 1)
            if same:
                run.samples, run.last_ns = run.samples + 1, now
                return
            self._close(thread, now)
        if stack:
            begin = max(now - self._interval_ns // 2, self._begin_ns) if run is None else (run.last_ns + now) // 2
            thread.run = Run(stack, thread.tid, begin, now, cpu_ns=half)

    def _close(self, thread: _Thread, now: int) -> None:
        run, thread.run = thread.run, None
        if run is not None:
            run.end_ns = (run.last_ns + now) // 2
            self.runs.append(run)


class Stacks:
    """Names the functions of frames; what is named once costs a look, so that samplers in turn share them."""

    def __init__(self) -> None:
        places.short("")  # asks where libraries are, which takes milliseconds
        self._names: dict[tuple[int, int], tuple[str, CodeType]] = {}  # by code and instruction; code is kept alive

    def of(self, frame: FrameType | None) -> Stack:
        """The functions of a stack, the innermost first; without ours, and without what called the script."""
        stack: list[str] = []
        while frame is not None and len(stack) < _DEEPEST:
            known = self._names.get((id(frame.f_code), frame.f_lasti))
            name = self._name(frame) if known is None else known[0]
            if name == _RUNNER:
                break
            if name == _WAITING:
                stack.clear()
            elif name:
                stack.append(name)
            frame = frame.f_back
        return tuple(stack)

    def _name(self, frame: FrameType) -> str:
        code = frame.f_code
        name = places.function(code, frame.f_lineno)
        if places.is_ours(code.co_filename):
            name = _RUNNER if code.co_filename.endswith(f"/capture/{_RUNNER}") else ""
            name = _WAITING if code.co_name == _WAITING else name
        self._names[id(code), frame.f_lasti] = name, code
        return name
