"""The executor that runs tasks in processes of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue
from threading import Thread
from typing import IO

from overlapscope.fleet.task import TRIED_AGAIN, Outcome, Task

DIED = "worker-died"
"""The code of the outcome of a trace whose worker died twice."""
_TRIES = 2


class Processes:
    """So many worker processes, each of which has one trace in memory at a time.

    Workers are new interpreters, not forks, and import nothing of the program that starts them. A worker that dies,
    by a signal or for lack of memory, is noticed, and its trace goes once to a new one.
    """

    def __init__(self, workers: int) -> None:
        self._workers = max(1, workers)

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """One outcome for each task, as they come."""
        waiting, done = SimpleQueue[Task | None](), SimpleQueue[Outcome]()
        count = min(self._workers, len(tasks))
        for task in (*tasks, *[None] * count):
            waiting.put(task)
        workers = [_Worker() for _ in range(count)]
        threads = [Thread(target=_serve, args=(worker, waiting, done), daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        try:
            for _ in tasks:
                yield done.get()
        finally:
            for worker in workers:
                worker.end()
            for thread in threads:
                thread.join()


class _Worker:
    """One worker process, started when it is needed, and again after it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._ended = False

    def ask(self, task: Task) -> Outcome | None:
        """The outcome of a task; None where the worker died of it."""
        process = self._running()
        try:
            _stream(process.stdin).write(json.dumps(asdict(task)) + "\n")
            _stream(process.stdin).flush()
            answer = _stream(process.stdout).readline()
        except OSError:
            answer = ""
        return Outcome(**json.loads(answer)) if answer.endswith("\n") else None

    def buried(self) -> str:
        """How the worker died, after it did."""
        if self._process is None:
            return "unknown"
        self._process.kill()  # where it lives and only its answer was none
        code = self.close()
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def end(self) -> None:
        """End the process, also in the middle of a task."""
        self._ended = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> int:
        """Close the pipes of a process that has nothing more to do, and wait for its end: its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with process, suppress(OSError):
            _stream(process.stdin).close()
        return process.returncode

    @property
    def ended(self) -> bool:
        """Whether no more tasks are wanted."""
        return self._ended

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = [sys.executable, "-m", "overlapscope.fleet.worker"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
        return self._process


def _serve(worker: _Worker, waiting: SimpleQueue[Task | None], done: SimpleQueue[Outcome]) -> None:
    while not worker.ended and (task := waiting.get()) is not None:
        done.put(_tried(worker, task))
    worker.close()


def _tried(worker: _Worker, task: Task) -> Outcome:
    how = ""
    for _ in range(_TRIES):
        with suppress(OSError, ValueError):  # no process can be started, or its answer is none
            outcome = worker.ask(task)
            if outcome is not None:
                return outcome
        if worker.ended:
            break
        how = worker.buried()
    return Outcome(task.source, code=DIED, error=f"its worker died {_TRIES} times ({how}); {TRIED_AGAIN}")


def _stream(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise OSError("no pipe to the worker")
    return pipe
