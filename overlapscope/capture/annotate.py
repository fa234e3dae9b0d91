"""One call that names a stretch of host time in both worlds.

NVTX ranges never reach a Kineto trace and ``record_function`` ranges never reach Nsight Systems, so a
program that wants its names in either emits both.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from overlapscope.errors import CaptureError

DOMAIN = "overlapscope"
"""The NVTX domain of every range made here, so that a tool can filter on it."""

P = ParamSpec("P")
R = TypeVar("R")


class annotate:  # noqa: N801 - reads as a verb where it is used
    """Name a stretch of host code, as a context manager or a decorator.

    The name becomes an NVTX push/pop range (domain ``overlapscope``) and, when torch is already imported, a
    ``torch.profiler.record_function`` range. Neither costs much when nothing listens; neither needs a GPU.
    A decorated function may recurse and run in several threads; a generator or coroutine function cannot
    be decorated, because it leaves and enters again while its range is open: use ``with`` inside it.

    Raises:
        CaptureError: the nvtx package is not installed.
        TypeError: a generator or coroutine function is decorated.

    >>> with annotate("load batch"):
    ...     total = sum(range(3))
    >>> @annotate("step")
    ... def step() -> int:
    ...     return 1
    >>> step()
    1
    """

    def __init__(self, name: str, *, color: str = "blue") -> None:
        self.name = name
        self.color = color
        self._open = threading.local()

    def __enter__(self) -> annotate:
        marker = _nvtx().annotate(message=self.name, color=self.color, domain=DOMAIN)
        marker.__enter__()
        torch = sys.modules.get("torch")
        record = torch.profiler.record_function(self.name) if torch is not None else None
        if record is not None:
            record.__enter__()
        self._stack().append((marker, record))
        return self

    def __exit__(self, *failure: object) -> None:
        marker, record = self._stack().pop()
        if record is not None:
            record.__exit__(*failure)
        marker.__exit__(*failure)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap ``function`` so that each call of it is a range."""
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(
                f"{function.__qualname__} is a generator or coroutine function: use `with annotate` inside it"
            )

        @wraps(function)
        def named(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return named

    def _stack(self) -> list[tuple[Any, Any]]:
        """The ranges of this name that are open on this thread, the innermost last."""
        if not hasattr(self._open, "ranges"):
            self._open.ranges = []
        ranges: list[tuple[Any, Any]] = self._open.ranges
        return ranges


def _nvtx() -> Any:
    try:
        import nvtx
    except ImportError as error:
        raise CaptureError("annotate needs the nvtx package: pip install 'overlapscope[capture]'") from error
    return nvtx
