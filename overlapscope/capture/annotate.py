"""One call that names a stretch of host time in both worlds.

NVTX ranges never reach a Kineto trace and ``record_function`` ranges never reach Nsight Systems, so a
program that wants its names in either emits both.
"""

from __future__ import annotations

import sys
from contextlib import ContextDecorator
from typing import Any

import nvtx

DOMAIN = "overlapscope"
"""The NVTX domain of every range made here, so that a tool can filter on it."""


class annotate(ContextDecorator):  # noqa: N801 - reads as a verb where it is used
    """Name a stretch of host code, as a context manager or a decorator.

    The name becomes an NVTX push/pop range (domain ``overlapscope``) and, when torch is already
    imported, a ``torch.profiler.record_function`` range. Neither costs much when nothing listens;
    neither needs a GPU.

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
        self._open: list[tuple[Any, Any]] = []  # a stack: one instance may decorate a recursive function

    def __enter__(self) -> annotate:
        marker = nvtx.annotate(message=self.name, color=self.color, domain=DOMAIN)
        marker.__enter__()
        torch = sys.modules.get("torch")
        record = torch.profiler.record_function(self.name) if torch is not None else None
        if record is not None:
            record.__enter__()
        self._open.append((marker, record))
        return self

    def __exit__(self, *failure: object) -> None:
        marker, record = self._open.pop()
        if record is not None:
            record.__exit__(*failure)
        marker.__exit__(*failure)

    def _recreate_cm(self) -> annotate:
        """Give each decorated call an instance of its own, so that threads do not share a stack."""
        return annotate(self.name, color=self.color)
