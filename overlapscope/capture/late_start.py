"""Begin a recording in the middle of a script, which goes on where that fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from overlapscope.capture.recorder import record
from overlapscope.errors import CaptureError, OverlapscopeError


class LateStart:
    """Begins a recording once; what fails then is raised at the end of the script."""

    def __init__(self, recording: record) -> None:
        self._recording = recording
        self._process = os.getpid()
        self._inside = False
        self._failure: OverlapscopeError | None = None

    def begin(self) -> None:
        """Begin now, if that was not tried before."""
        if self._inside or self._failure is not None:
            return
        try:
            self._recording.__enter__()
            self._inside = True
        except OverlapscopeError as error:
            self._failure = error

    @contextmanager
    def ending(self, reason: Callable[[], str]) -> Iterator[None]:
        """End the recording with the block; where it never began, raise why, for which ``reason`` is asked."""
        try:
            yield
        finally:
            if self._inside:
                self._recording.__exit__(*sys.exc_info())
        if not self._inside and os.getpid() == self._process:
            raise self._failure or CaptureError(reason())
