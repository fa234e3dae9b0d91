"""Notice the ranges that a running program opens with any of the usual annotation calls.

NVTX ranges never reach a Kineto trace. While a program is watched, ranges of the ``nvtx`` package and of
``torch.cuda.nvtx`` become profiler ranges too, so that a program that only uses NVTX has its names in the trace.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from overlapscope.capture.annotate import DOMAIN, profiler_name

OnRange = Callable[[str], None]


@contextmanager
def watch_ranges(opened: OnRange, closed: OnRange) -> Iterator[None]:
    """Call ``opened(name)`` before and ``closed(name)`` after each range of the main thread.

    It covers ``record_function``, `overlapscope.annotate`, ``nvtx.annotate`` and the push and pop functions of ``nvtx``
    and ``torch.cuda.nvtx``. Of nested ranges with the same name, only the outermost counts.
    """
    listener = _Listener(opened, closed)
    with ExitStack() as patches:
        for owner, name, new in (*_torch_patches(listener), *_nvtx_patches()):
            patches.enter_context(_replaced(owner, name, new))
        yield


class _Listener:
    """Counts how deep each name is open on the main thread."""

    def __init__(self, opened: OnRange, closed: OnRange) -> None:
        self._opened, self._closed = opened, closed
        self._depth: dict[str, int] = {}
        self._process = os.getpid()

    def open(self, name: str) -> None:
        if self._not_main:
            return
        self._depth[name] = self._depth.get(name, 0) + 1
        if self._depth[name] == 1:
            self._opened(name)

    def close(self, name: str) -> None:
        if self._not_main or not self._depth.get(name):
            return
        self._depth[name] -= 1
        if not self._depth[name]:
            self._closed(name)

    @property
    def _not_main(self) -> bool:
        """On another thread, or in a process that was forked off."""
        return threading.current_thread() is not threading.main_thread() or os.getpid() != self._process


Patch = tuple[Any, str, Any]


def _torch_patches(listener: _Listener) -> Iterator[Patch]:
    import torch

    ranges = torch.profiler.record_function
    enter: Any = ranges.__enter__
    leave: Any = ranges.__exit__

    @functools.wraps(enter)
    def watched_enter(self: Any) -> Any:
        listener.open(self.name)
        return enter(self)

    @functools.wraps(leave)
    def watched_exit(self: Any, *failure: Any) -> Any:
        try:
            return leave(self, *failure)
        finally:
            listener.close(self.name)

    yield ranges, "__enter__", watched_enter
    yield ranges, "__exit__", watched_exit
    yield from _push_and_pop(torch.cuda.nvtx, "range_push", "range_pop")


def _nvtx_patches() -> Iterator[Patch]:
    try:
        import nvtx
    except ImportError:
        return
    if not nvtx.enabled():  # by NVTX_DISABLE: then its functions do nothing, and are others
        return
    ranges = nvtx.annotate
    enter, leave = ranges.__enter__, ranges.__exit__
    mirrors = _Mirrors()

    @functools.wraps(enter)
    def watched_enter(self: Any) -> Any:
        message, _color, domain, *_ = self.init_args
        if domain != DOMAIN:  # ours come with a profiler range
            mirrors.open.append(_mirror(str(message)))
        return enter(self)

    @functools.wraps(leave)
    def watched_exit(self: Any, *failure: Any) -> Any:
        try:
            return leave(self, *failure)
        finally:
            if self.init_args[2] != DOMAIN and mirrors.open:
                mirrors.open.pop().__exit__(*failure)

    def call(self: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        message, *others = self.init_args
        named = type(self)(message or function.__name__, *others)

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with named:
                return function(*args, **kwargs)

        return inner

    yield ranges, "__enter__", watched_enter
    yield ranges, "__exit__", watched_exit
    yield ranges, "__call__", call
    yield from _push_and_pop(nvtx, "push_range", "pop_range")


def _push_and_pop(module: Any, push_name: str, pop_name: str) -> Iterator[Patch]:
    """A module's two functions, with a profiler range beside each of theirs."""
    push, pop = getattr(module, push_name), getattr(module, pop_name)
    mirrors = _Mirrors()

    @functools.wraps(push)
    def watched_push(message: Any = None, *args: Any, **kwargs: Any) -> Any:
        mirrors.open.append(_mirror(str(message)))
        return push(message, *args, **kwargs)

    @functools.wraps(pop)
    def watched_pop(*args: Any, **kwargs: Any) -> Any:
        try:
            return pop(*args, **kwargs)
        finally:
            if mirrors.open:
                mirrors.open.pop().__exit__(None, None, None)

    yield module, push_name, watched_push
    yield module, pop_name, watched_pop


class _Mirrors(threading.local):
    """The profiler ranges that are open beside NVTX ranges on this thread, the innermost last."""

    def __init__(self) -> None:
        self.open: list[Any] = []


def _mirror(name: str) -> Any:
    import torch

    # Its __enter__ is watched, which is how NVTX ranges are heard.
    mirror: Any = torch.profiler.record_function(profiler_name(name))
    return mirror.__enter__()


@contextmanager
def _replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)
