"""What a worker does with one task."""

from __future__ import annotations

from pathlib import Path

from overlapscope.errors import OutputError, OverlapscopeError
from overlapscope.fleet.map import map_trace, without
from overlapscope.fleet.sources import LocalFile, local_file
from overlapscope.fleet.store import has_part, key_of, part_path, write_part
from overlapscope.fleet.task import TRIED_AGAIN, Outcome, Task


def work(task: Task) -> Outcome:
    """Map one trace and keep its rows; whatever goes wrong becomes the outcome.

    A trace that cannot be used has rows that say so, since its content will not change. What failed for another
    reason, such as a full disk, has none, and is tried again by the next run.
    """
    try:
        with local_file(task.source) as file:
            return _kept(task, file)
    except OverlapscopeError as error:
        return Outcome(task.source, code=error.code, error=without(str(error), task.source))
    except Exception as error:  # noqa: BLE001 - one trace never ends a run, whatever is wrong with it
        return Outcome(task.source, code="internal", error=f"{type(error).__name__}: {error}")


def _kept(task: Task, file: LocalFile) -> Outcome:
    """The outcome of a file that is here: its result is there already, or is made."""
    folder, key = Path(task.folder), key_of(file.content)
    if has_part(folder, key):
        return Outcome(task.source, key, kept=True)
    part = map_trace(file.path, file.content)
    try:
        write_part(folder, key, part)
    except OutputError as error:
        why = without(str(error), part_path(folder, key))
        return Outcome(task.source, code=error.code, error=f"its result {why}; {TRIED_AGAIN}")
    return Outcome(task.source, key)
