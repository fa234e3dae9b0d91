"""Hear of the ranges that a running program opens, with whichever of the usual calls it does.

NVTX ranges never reach a Kineto trace. While they are watched, those made with the ``nvtx`` package and with
``torch.cuda.nvtx`` become profiler ranges too, so that a program which only knows NVTX has its names in the trace.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from overlapscope.capture.annotate import DOMAIN, profiler_name

Heard = Callable[[str], None]


def on_main_thread() -> bool:
    """Whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


def _ignore(_name: str) -> None:
    pass


@contextmanager
def watch_ranges(opened: Heard = _ignore, closed: Heard = _ignore, opened_elsewhere: Heard = _ignore) -> Iterator[None]:
    """Call ``opened(name)`` before and ``closed(name)`` after each range of the main thread.

    ``opened_elsewhere(name)`` is called before each range of another thread, on that thread.

    Hears ``record_function``, `overlapscope.annotate`, ``nvtx.annotate`` and the push and pop functions of ``nvtx``
    and ``torch.cuda.nvtx``; of ranges of one name inside each other, the outermost. Several may listen at once.
    """
    ear = _Ear(opened, closed, opened_elsewhere)
    with ExitStack() as changes:
        if not _ears:
            for owner, name, new in (*_torch_changes(), *_nvtx_changes()):
                changes.enter_context(replaced(owner, name, new))
        _ears.append(ear)
        changes.callback(_ears.remove, ear)
        yield


class _Ear:
    """Counts how deep each name is open on the main thread."""

    def __init__(self, opened: Heard, closed: Heard, opened_elsewhere: Heard) -> None:
        self._opened, self._closed, self._opened_elsewhere = opened, closed, opened_elsewhere
        self._depth: dict[str, int] = {}
        self._process = os.getpid()

    def open(self, name: str) -> None:
        if self._forked:
            return
        if not on_main_thread():
            self._opened_elsewhere(name)
            return
        self._depth[name] = self._depth.get(name, 0) + 1
        if self._depth[name] == 1:
            self._opened(name)

    def close(self, name: str) -> None:
        if self._forked or not on_main_thread() or not self._depth.get(name):
            return
        self._depth[name] -= 1
        if not self._depth[name]:
            self._closed(name)

    @property
    def _forked(self) -> bool:
        """Whether this process was forked off."""
        return os.getpid() != self._process


_ears: list[_Ear] = []
"""Who listens. While somebody does, the functions that open and close ranges are replaced, once for all."""

Change = tuple[Any, str, Any]


def _torch_changes() -> Iterator[Change]:
    import torch

    ranges = torch.profiler.record_function
    enter: Any = ranges.__enter__
    leave: Any = ranges.__exit__

    @functools.wraps(enter)
    def heard_enter(self: Any) -> Any:
        for ear in tuple(_ears):
            ear.open(self.name)
        return enter(self)

    @functools.wraps(leave)
    def heard_exit(self: Any, *failure: Any) -> Any:
        try:
            return leave(self, *failure)
        finally:
            for ear in tuple(_ears):
                ear.close(self.name)

    yield ranges, "__enter__", heard_enter
    yield ranges, "__exit__", heard_exit
    yield from _push_and_pop(torch.cuda.nvtx, "range_push", "range_pop")


def _nvtx_changes() -> Iterator[Change]:
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
    def heard_enter(self: Any) -> Any:
        message, _color, domain, *_ = self.init_args
        if domain != DOMAIN:  # ours come with a profiler range
            mirrors.open.append(_mirror(str(message)))
        return enter(self)

    @functools.wraps(leave)
    def heard_exit(self: Any, *failure: Any) -> Any:
        try:
            return leave(self, *failure)
        finally:
            if self.init_args[2] != DOMAIN and mirrors.open:
                mirrors.open.pop().__exit__(*failure)

    yield ranges, "__enter__", heard_enter
    yield ranges, "__exit__", heard_exit
    yield ranges, "__call__", _decorated
    yield from _push_and_pop(nvtx, "push_range", "pop_range")


def _decorated(annotation: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as ``nvtx.annotate`` decorates it, but each call enters and leaves the range where that is heard."""
    message, *others = annotation.init_args
    named = type(annotation)(message or function.__name__, *others)

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        with named:
            return function(*args, **kwargs)

    return inner


def _push_and_pop(module: Any, push_name: str, pop_name: str) -> Iterator[Change]:
    """A module's two functions, with a profiler range beside each of theirs."""
    push, pop = getattr(module, push_name), getattr(module, pop_name)
    mirrors = _Mirrors()

    @functools.wraps(push)
    def heard_push(message: Any = None, *args: Any, **kwargs: Any) -> Any:
        mirrors.open.append(_mirror(str(message)))
        return push(message, *args, **kwargs)

    @functools.wraps(pop)
    def heard_pop(*args: Any, **kwargs: Any) -> Any:
        try:
            return pop(*args, **kwargs)
        finally:
            if mirrors.open:
                mirrors.open.pop().__exit__(None, None, None)

    yield module, push_name, heard_push
    yield module, pop_name, heard_pop


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
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Give ``owner`` another attribute for a while."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)
