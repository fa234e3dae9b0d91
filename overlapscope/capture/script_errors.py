"""Show the error of a script as Python would: with the frames of the script, and without ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

_OURS = tuple(str(Path(__file__).resolve().parent.parent / name) for name in ("capture", "cli"))
_RUNPY = frozenset({"<frozen runpy>", sys.modules["runpy"].__file__ if "runpy" in sys.modules else ""})


def show(error: BaseException) -> None:
    """Let ``sys.excepthook`` show an error that ended a script."""
    for each in _chain(error, set()):
        each.__traceback__ = _without_ours(each.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """An error, those that it comes from, and those in it."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    inside = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (error.__cause__, error.__context__, *inside):
        yield from _chain(each, seen)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The frames that are not ours, linked to each other."""
    frames = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not (name.startswith(_OURS) or name in _RUNPY):
            frames.append(trace)
        trace = trace.tb_next
    following = None
    for frame in reversed(frames):
        frame.tb_next = following
        following = frame
    return following
