"""The executor that runs tasks on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from overlapscope.errors import ClusterError
from overlapscope.fleet.processes import DIED
from overlapscope.fleet.task import Outcome, Task
from overlapscope.fleet.work import work

if TYPE_CHECKING:
    from distributed import Client

_PATIENCE_S = 30


class DaskCluster:
    """The workers of a Dask cluster, by the scheduler's address or its file.

    Each worker needs this package, and sees traces and results under the same paths. A trace whose worker dies goes to
    another one, as often as the scheduler's ``allowed-failures`` say.
    """

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """One outcome for each task, as they come.

        Raises:
            ClusterError: there is no such cluster, or dask is not installed.
        """
        with self._client() as client:
            yield from _outcomes(client, tasks)

    def _client(self) -> Client:
        try:
            from distributed import Client
        except ImportError as error:
            raise ClusterError("--scheduler needs `pip install overlapscope[fleet]`") from error
        where = {"address" if "://" in self._scheduler else "scheduler_file": self._scheduler}
        try:
            return Client(**where, timeout=_PATIENCE_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"{self._scheduler}: no Dask scheduler answers ({error})") from error


def _outcomes(client: Client, tasks: Sequence[Task]) -> Iterator[Outcome]:
    from distributed import as_completed

    futures = dict(zip(client.map(work, tasks, pure=False), tasks, strict=True))
    for future in as_completed(futures, loop=client.loop):
        task = futures.pop(future)
        yield _outcome(future, task)


def _outcome(future: Any, task: Task) -> Outcome:
    if future.status == "finished":
        outcome: Outcome = future.result()
        return outcome
    error = future.exception()
    died = type(error).__name__ == "KilledWorker"
    return Outcome(task.source, code=DIED if died else "internal", error=f"{type(error).__name__}: {error}")
