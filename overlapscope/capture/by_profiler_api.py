"""Record a script as a whole, or what it brackets itself with cudaProfilerStart and cudaProfilerStop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from overlapscope.capture.recorder import record
from overlapscope.capture.watch import on_main_thread, replaced

START, STOP = "cudaProfilerStart", "cudaProfilerStop"


@contextmanager
def recording_whole(recording: record, tell: Callable[[str], None]) -> Iterator[None]:
    """Record all of a script. Where it calls cudaProfilerStart through torch, begin again there; end at the Stop.

    A profiler around this program hears these calls itself.
    """
    with recording, _watch_calls(*_answers(recording, tell)) if recording.writes else ExitStack():
        yield


def _answers(recording: record, tell: Callable[[str], None]) -> tuple[Callable[[], None], Callable[[], None]]:
    """What to do when the script asks to begin and to end."""

    def begin() -> None:
        if not recording.marker:
            recording.marker = START
            recording.restart()

    def end() -> None:
        if recording.done:
            return
        recording.marker = recording.marker or STOP
        recording.end()
        if recording.saved:
            tell(f"the script called {STOP}: the recording ends there, and the script goes on")

    return begin, end


@contextmanager
def _watch_calls(begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Hear of the calls of the main thread. Calls that the recorder makes while it answers one are ignored."""
    import torch

    if not torch.cuda.is_available():
        yield
        return
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    answering = False

    def heard(call: Any, answer: Callable[[], None]) -> Any:
        def heard_call() -> Any:
            nonlocal answering
            result = call()
            if not answering and on_main_thread():
                answering = True
                try:
                    answer()
                finally:
                    answering = False
            return result

        return heard_call

    with (
        replaced(runtime, START, heard(getattr(runtime, START), begin)),
        replaced(runtime, STOP, heard(getattr(runtime, STOP), end)),
    ):
        yield
