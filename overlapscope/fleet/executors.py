"""Map many traces: what has a result already is left out, the rest goes to processes or to a Dask cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from overlapscope.errors import ClusterError, OutputError, OverlapscopeError
from overlapscope.fleet import store
from overlapscope.fleet.rows import map_trace, without
from overlapscope.fleet.sources import Source, local_file
from overlapscope.fleet.store import Outcome, Shard

Executor = Callable[[Path, Sequence[str]], Iterator[Outcome]]
"""Runs `work` somewhere for a folder and each of some sources, in any order: one outcome for each, as they come.

Whatever happens to a worker becomes the outcome of its trace; it never raises for one of them.
"""
Progress = Callable[[Source, Outcome], None]
"""Called with each trace and its outcome, as they come."""
DIED = "worker-died"
"""The code of the outcome of a trace whose worker died twice."""
_TRIES = 2
_TRIED_AGAIN = "the next run tries it again"
PATIENCE_S = 30


def map_traces(
    sources: Sequence[Source],
    folder: Path,
    executor: Executor,
    shard: Shard = (1, 1),
    progress: Progress = lambda *_: None,
) -> list[Outcome]:
    """Bring the results of all traces of a shard into the folder, and say what became of each.

    A trace whose size and time of change are those of an earlier run is not even read; one with the content of an
    earlier one is read, and not mapped.

    Raises:
        OutputError: the folder cannot be written.
    """
    by_name = {source.name: source for source in sources[shard[0] - 1 :: shard[1]]}
    known = store.prepare(folder, shard)
    kept = {name: known[name] for name in by_name if name in known and _unchanged(known[name], by_name[name], folder)}
    done = []
    with store.recording(folder, shard, len(by_name)) as record:
        left = [name for name in by_name if name not in kept]
        for outcome in chain((replace(each, kept=True) for each in kept.values()), executor(folder.absolute(), left)):
            source = by_name[outcome.source]
            done.append(replace(outcome, size_bytes=source.size_bytes, modified_ns=source.modified_ns))
            record(done[-1])
            progress(source, done[-1])
    store.remove_outdated(folder)
    return done


def _unchanged(known: Outcome, source: Source, folder: Path) -> bool:
    """Whether a trace is as in an earlier run whose result is still there."""
    unchanged = source.modified_ns and (known.size_bytes, known.modified_ns) == (source.size_bytes, source.modified_ns)
    return bool(unchanged) and store.is_current(known.key) and store.has_part(folder, known.key)


def work(folder: Path, source: str) -> Outcome:
    """Map one trace and keep its rows; whatever goes wrong becomes the outcome.

    A trace that cannot be used has rows that say so, since its content will not change. What failed for another
    reason, such as a full disk, has none, and is tried again by the next run.
    """
    try:
        with local_file(source) as (path, content):
            key = store.key_of(content)
            if store.has_part(folder, key):
                return Outcome(source, key, kept=True)
            part = map_trace(path, content)
        try:
            store.write_part(folder, key, part)
        except OutputError as error:
            why = without(str(error), store.part_path(folder, key))
            return Outcome(source, code=error.code, error=f"its result {why}; {_TRIED_AGAIN}")
        return Outcome(source, key)
    except OverlapscopeError as error:
        return Outcome(source, code=error.code, error=without(str(error), source))
    except Exception as error:  # noqa: BLE001 - one trace never ends a run, whatever is wrong with it
        return Outcome(source, code="internal", error=f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Processes:
    """So many worker processes of this machine, each of which has one trace in memory at a time.

    A worker that dies, by a signal or for lack of memory, is noticed, and its trace goes once to a new one.
    """

    workers: int

    def __call__(self, folder: Path, sources: Sequence[str]) -> Iterator[Outcome]:
        """One outcome for each source, as they come."""
        waiting = deque((source, 1) for source in sources)
        idle = [_Worker() for _ in range(min(max(1, self.workers), len(sources)))]
        running: dict[Future[Outcome], tuple[_Worker, str, int]] = {}
        try:
            while waiting or running:
                while waiting and idle:
                    worker, (source, attempt) = idle.pop(), waiting.popleft()
                    running[worker.submit(folder, source)] = worker, source, attempt
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    worker, source, attempt = running.pop(future)
                    idle.append(worker)
                    if future.exception() is None:
                        yield future.result()
                        continue
                    death = worker.bury()
                    if attempt < _TRIES:
                        waiting.appendleft((source, attempt + 1))
                    else:
                        error = f"its worker died {_TRIES} times ({death}); {_TRIED_AGAIN}"
                        yield Outcome(source, code=DIED, error=error)
        finally:
            for worker in (*idle, *(each for each, *_ in running.values())):
                worker.bury()


class _Interpreter(SpawnProcess):
    """A new interpreter, which imports nothing of the program that starts it."""

    def start(self) -> None:
        """Start it, with an empty main module to copy: that of the program may have no guard."""
        program, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = program


class _Worker(SpawnContext):
    """A pool of one process, so that the trace is known of which it dies; there is a new one for the next trace."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._process: _Interpreter | None = None

    def Process(self, *args: Any, **options: Any) -> _Interpreter:  # type: ignore[override]  # noqa: N802
        """The process of the pool, which starts it."""
        self._process = _Interpreter(*args, **options)
        return self._process

    def submit(self, folder: Path, source: str) -> Future[Outcome]:
        """Begin to map a trace; the future fails where the process dies, or where none can be started."""
        try:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, self, initializer=_begin)
            return self._pool.submit(work, folder, source)
        except (BrokenExecutor, OSError) as error:
            failed = Future[Outcome]()
            failed.set_exception(error)
            return failed

    def bury(self) -> str:
        """End the process, where it is not dead yet, and say how it died."""
        process, pool, self._process, self._pool = self._process, self._pool, None, None
        if process is None or pool is None or process.pid is None:
            return "unknown"
        process.kill()
        pool.shutdown()
        code = process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit status {code}"


def _begin() -> None:
    """Leave interrupts and the standard output to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):  # the program has no standard error
        os.dup2(2, 1)


@dataclass(frozen=True)
class DaskCluster:
    """The workers of a Dask cluster, by the scheduler's address or its file.

    Each worker needs this package, and sees traces and results under the same paths. A trace whose worker dies goes to
    another one, as often as the scheduler's ``allowed-failures`` say.
    """

    scheduler: str

    def __call__(self, folder: Path, sources: Sequence[str]) -> Iterator[Outcome]:
        """One outcome for each source, as they come.

        Raises:
            ClusterError: there is no such cluster, or dask is not installed.
        """
        try:
            from distributed import Client, KilledWorker, as_completed
        except ImportError as error:
            raise ClusterError("--scheduler needs `pip install distributed`") from error
        where = {"address" if "://" in self.scheduler else "scheduler_file": self.scheduler}
        try:
            client = Client(**where, timeout=PATIENCE_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"{self.scheduler}: no Dask scheduler answers ({error})") from error
        with client:
            futures = dict(zip(client.map(partial(work, folder), sources, pure=False), sources, strict=True))
            for future in as_completed(futures, loop=client.loop):
                source = futures.pop(future)
                if future.status == "finished":
                    yield future.result()
                    continue
                raised = future.exception()
                code = DIED if isinstance(raised, KilledWorker) else "internal"
                yield Outcome(source, code=code, error=f"{type(raised).__name__}: {raised}")
