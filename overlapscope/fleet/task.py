"""What executors run: tasks, their outcomes, and the protocol that an executor has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

TRIED_AGAIN = "the next run tries it again"
"""What is said of a trace that has no result for a reason outside of it."""


@dataclass(frozen=True)
class Task:
    """One trace to map: where it is, and the folder that keeps the result."""

    source: str
    folder: str


@dataclass(frozen=True)
class Outcome:
    """What became of a task: the key of its result, or why there is none.

    ``kept`` says that the result was there already. ``code`` and ``error`` are empty where all went well; a trace that
    cannot be used has a result all the same, which says so.
    """

    source: str
    key: str = ""
    size_bytes: int = 0
    modified_ns: int = 0
    kept: bool = False
    code: str = ""
    error: str = ""


class Executor(Protocol):
    """Runs tasks somewhere, in any order.

    Calling it gives one outcome for each task, as they come. Whatever happens to a worker becomes the outcome of its
    task; it never raises for one of them.
    """

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Run the tasks."""
