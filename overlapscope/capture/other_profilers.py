"""Refuse profilers that the program starts itself while it is recorded: torch has one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

from overlapscope.capture.watch import replaced
from overlapscope.errors import CaptureError

REFUSED = (
    "the program starts a torch.profiler of its own while overlapscope records it, and there can be one at a time: "
    "switch that one off, or record a part of the program without it"
)


@contextmanager
def refusing_profilers() -> Iterator[None]:
    """Raise `CaptureError` where another profiler of torch begins; else it would end ours, and nothing be left."""
    import torch

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise CaptureError(REFUSED)

    with ExitStack() as changes:
        for kind in (torch.profiler.profile, torch.profiler.profiler._KinetoProfile):  # noqa: SLF001 - its base has a start too
            changes.enter_context(replaced(kind, "start", refuse))
        changes.enter_context(replaced(torch.autograd.profiler.profile, "__enter__", refuse))
        yield
