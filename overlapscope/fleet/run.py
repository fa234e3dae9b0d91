"""Map many traces: what has a result already is left out, the rest goes to an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from overlapscope.fleet.sources import Source
from overlapscope.fleet.store import Run, Shard, has_part, is_current, remove_outdated
from overlapscope.fleet.task import Executor, Outcome, Task

Progress = Callable[[Source, Outcome], None]
"""Called with each trace and its outcome, as they come."""


def map_traces(
    sources: Sequence[Source],
    folder: Path,
    executor: Executor,
    shard: Shard = Shard(),
    progress: Progress = lambda *_: None,
) -> list[Outcome]:
    """Bring the results of all traces of a shard into the folder, and say what became of each.

    A trace whose size and time of change are those of an earlier run is not even read; one with the content of an
    earlier one is read, and not mapped.

    Raises:
        OutputError: the folder cannot be written.
    """
    run, mine = Run(folder, shard), {source.name: source for source in shard.share(sources)}
    done = []
    with run.recording(len(mine)) as recorder:
        for outcome in _outcomes(run, folder, mine, executor):
            source = mine[outcome.source]
            about = replace(outcome, size_bytes=source.size_bytes, modified_ns=source.modified_ns)
            recorder.add(about)
            progress(source, about)
            done.append(about)
    remove_outdated(folder)
    return done


def _outcomes(run: Run, folder: Path, sources: dict[str, Source], executor: Executor) -> Iterator[Outcome]:
    kept = {name: found for name, source in sources.items() if (found := _kept(run, folder, source)) is not None}
    yield from kept.values()
    tasks = [Task(name, str(folder.absolute())) for name in sources if name not in kept]
    yield from executor(tasks)


def _kept(run: Run, folder: Path, source: Source) -> Outcome | None:
    """The earlier outcome of a trace that has not changed since, where its result is still there."""
    known = run.known(source.name)
    if known is None or not source.modified_ns or not (is_current(known.key) and has_part(folder, known.key)):
        return None
    unchanged = (known.size_bytes, known.modified_ns) == (source.size_bytes, source.modified_ns)
    return known if unchanged else None
