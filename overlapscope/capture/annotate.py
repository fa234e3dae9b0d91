"""One call that names a stretch of host time in both worlds.

NVTX ranges never reach a Kineto trace and ``record_function`` ranges never reach Nsight Systems, so a
program that wants its names in either emits both.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any, ParamSpec, TypeVar

from overlapscope.errors import CaptureError

DOMAIN = "overlapscope"
"""The NVTX domain of every range made here, so that a tool can filter on it."""

COLORS = {
    "blue": 0xFF0000FF,
    "green": 0xFF008000,
    "orange": 0xFFFFA500,
    "red": 0xFFFF0000,
    "purple": 0xFF800080,
    "cyan": 0xFF00FFFF,
    "yellow": 0xFFFFFF00,
    "white": 0xFFFFFFFF,
}
"""Colours of ranges by name, as ARGB."""

P = ParamSpec("P")
R = TypeVar("R")


class annotate:  # noqa: N801 - reads as a verb where it is used
    """Name a stretch of host code, as a context manager or a decorator.

    The name becomes an NVTX push/pop range (domain ``overlapscope``) and, when torch is already imported, a
    ``torch.profiler.record_function`` range. Neither costs much when nothing listens; neither needs a GPU.
    A decorated function may recurse and run in several threads. Ranges of a thread close in the reverse order of
    their opening, so a range may not be left open over a ``yield`` or an ``await`` at which other ranges open:
    generator and coroutine functions cannot be decorated. Name what runs in one go inside them.

    Args:
        name: any text for NVTX; see `profiler_name` for what torch's profiler gets.
        color: one of `COLORS`, or ARGB as a number; only NVTX tools show it.

    Raises:
        CaptureError: the nvtx package is not installed.
        TypeError: a generator or coroutine function is decorated.
        ValueError: there is no such colour.

    >>> with annotate("load batch"):
    ...     total = sum(range(3))
    >>> @annotate("step")
    ... def step() -> int:
    ...     return 1
    >>> step()
    1
    """

    def __init__(self, name: str, *, color: str | int = "blue") -> None:
        if not isinstance(name, str):
            raise TypeError(f'annotate takes a name, not {name!r}: @annotate("step")')
        if isinstance(color, str) and color not in COLORS:
            raise ValueError(f"no colour {color!r}; there are {', '.join(COLORS)} and ARGB numbers such as 0xFF00AACC")
        self.name = name
        self.color = COLORS[color] if isinstance(color, str) else color

    def __enter__(self) -> annotate:
        record = _profiler_range(self.name)
        mark = marker(self.name, self.color)
        mark.__enter__()
        if record is not None:
            record.__enter__()
        _thread.open.append((self, mark, record))
        return self

    def __exit__(self, *failure: object) -> None:
        _, mark, record = _thread.open.pop(_innermost(self))
        if record is not None:
            record.__exit__(*failure)
        mark.__exit__(*failure)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap ``function`` so that each call of it is a range."""
        if _leaves_its_range_open(function):
            raise TypeError(
                f"{function!r} is a generator or coroutine function: its range would be open while other code runs; "
                "name what runs in one go inside it"
            )

        @wraps(function)
        def named(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return named


class _Thread(threading.local):
    """The ranges that are open on this thread, the innermost last."""

    def __init__(self) -> None:
        self.open: list[tuple[annotate, Any, Any]] = []


_thread = _Thread()


def _innermost(annotation: annotate) -> int:
    """The place of this annotation's innermost range in the list of open ranges."""
    for position in range(len(_thread.open) - 1, -1, -1):
        if _thread.open[position][0] is annotation:
            return position
    raise RuntimeError(f"the range {annotation.name!r} was not opened on this thread")


def _leaves_its_range_open(function: Callable[..., Any]) -> bool:
    inner = function if inspect.isroutine(function) or isinstance(function, partial) else type(function).__call__
    return any(
        test(inner) for test in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    )


def profiler_name(name: str) -> str:
    """The name as torch's profiler can write it: printable ASCII without quotes and backslashes.

    Torch 2.13 writes "unknown" for other characters, and a trace that is no JSON for a quote.

    >>> profiler_name('say "über"')
    "say '?ber'"
    """
    plain = name.encode("ascii", "replace").decode().replace('"', "'").replace("\\", "/")
    return "".join(letter if letter.isprintable() else "?" for letter in plain)


def _profiler_range(name: str) -> Any:
    """A profiler range that is not open yet; None without torch, and while another thread is importing it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        _ = torch.ops.profiler  # what opening a range asks for
        return torch.profiler.record_function(profiler_name(name))
    except AttributeError:
        return None


@lru_cache(maxsize=1024)
def marker(name: str, color: int = COLORS["blue"]) -> Any:
    """An NVTX range that can be open many times at once; making one costs more than opening it."""
    with _one_domain:
        return _nvtx().annotate(message=name, color=color, domain=DOMAIN)


_one_domain = threading.Lock()
"""The nvtx package makes the domain with its first range, and twice where two threads make their first at once."""


def _nvtx() -> Any:
    try:
        import nvtx
    except ImportError as error:
        raise CaptureError("annotate needs the nvtx package: pip install nvtx") from error
    return nvtx
