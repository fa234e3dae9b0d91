"""`Overlap`, the fixture: it records runs and opens recorded ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from overlapscope.capture import recorder
from overlapscope.capture.machine import require_cuda
from overlapscope.errors import CaptureError
from overlapscope.formatting import counted
from overlapscope.pytest_plugin.run import RecordedRun, Run, Settings, plainly

__tracebackhide__ = True
"""For pytest, which shows the line of the test."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_DIGITS = 8
"""Digits of a hash that distinguishes two tests whose names have the same safe form."""


@dataclass(frozen=True, repr=False)
class Overlap:
    """Records what a test does on the GPU, or opens recorded traces; ``runs`` are those so far."""

    settings: Settings
    runs: list[Run] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<overlap: {counted(len(self.runs), 'run')}>"

    @contextmanager
    def record(self, *, steps: int | None = None, **options: Any) -> Iterator[RecordedRun]:
        """Record the block; the test is skipped where nothing can be recorded.

        Args:
            steps: how many steps to record, each ended by ``run.step()``; None for the whole block.
            options: further options of `overlapscope.record`. Unless they say so, nothing is calibrated and no step is
                timed without the profiler: limits need neither.
        """
        path = self.settings.folder / f"overlap-{len(self.runs) + 1}.json.gz"
        recording = recorder.record(path, steps=steps, **{"unprofiled": 0, "calibrate": False, **options})
        self._can(recording.check)
        run = RecordedRun(path, self._settings(), recording)
        with recording:
            yield run
        if not recording.saved:
            pytest.skip("overlap: a profiler around pytest records this program, so that there is no trace to check")
        self.runs.append(run)

    def require_gpu(self) -> None:
        """Skip the test here where there is no GPU: before it makes tensors on one."""
        self._can(require_cuda)

    def open(self, path: str | Path) -> Run:
        """Open a recorded trace, for the same assertions.

        Raises:
            TraceError: it cannot be used.
        """
        run = Run(Path(path), self._settings())
        plainly(getattr, run, "trace")
        self.runs.append(run)
        return run

    def _settings(self) -> Settings:
        """The settings of the next run, which has a figure and a baseline of its own."""
        number, first = len(self.runs) + 1, self.settings
        if number == 1:
            return first
        return replace(first, figure=_numbered(first.figure, number), baseline=_numbered(first.baseline, number))

    def _can(self, check: Callable[[], None]) -> None:
        """Skip the test where something raises that nothing can be recorded; fail it where the options say so."""
        try:
            check()
        except CaptureError as error:
            if self.settings.require_gpu:
                raise
            pytest.skip(f"overlap: {str(error).partition(';')[0]}")  # what to do instead is no use in a test


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def safe_name(name: str) -> str:
    """A name for files; those of two tests differ.

    >>> safe_name("test_train.test_step"), safe_name("test_train.test_step[a b]")
    ('test_train.test_step', 'test_train.test_step-a-b-62894689')
    """
    clean = _UNSAFE.sub("-", name).strip("-.")
    if clean == name:
        return name
    return f"{clean}-{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"
