"""A fleet on a Dask cluster of other processes, and from an object store: a local server that speaks S3."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleet_ranks import Job as Made, make
from benchmarks.fleet_scale import copied, map_part, measured, reduce_part
from overlapscope import ClusterError, TraceNotFound, open_fleet
from overlapscope.fleet.executors import DaskCluster, Processes, map_traces
from overlapscope.fleet.reduce import reduce_folder
from overlapscope.fleet.sources import find_sources, local_file
from overlapscope.fleet.store import outcomes
from tests.test_fleet import backwards, contents, fleet

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),  # of dask and of s3fs
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RANKS = 12


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    make(folder, Made(RANKS, stragglers={7: "pageable"}))
    return folder


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, each a process of its own."""
    pytest.importorskip("distributed")
    address = f"tcp://127.0.0.1:{_free_port()}"
    own = tmp_path_factory.mktemp("dask")
    commands = [
        ["scheduler", "--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1], "--no-dashboard"],
        *[["worker", address, "--nworkers", "1", "--nthreads", "1", "--no-dashboard"]] * 2,
    ]
    started = [_start(own, ["-m", "dask", *command]) for command in commands]
    yield address
    _stop(started)


@pytest.fixture(scope="module")
def bucket(job: Path) -> Iterator[str]:
    """The URL of a folder in a bucket with the traces of the job."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=_free_port(), verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    own = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (own | {"AWS_DEFAULT_REGION": "us-east-1"}).items():
            patch.setenv(name, value)
        import s3fs

        store: Any = s3fs.S3FileSystem()
        store.mkdir("traces")
        for trace in job.iterdir():
            store.put(str(trace), f"traces/run/{trace.name}")
        yield "s3://traces/run"
    server.stop()


@pytest.mark.parametrize("ranks", [24, pytest.param(1000, marks=pytest.mark.sweep)])
def test_processes_a_cluster_and_shards_give_the_same_bytes(ranks: int, scheduler: str, tmp_path: Path) -> None:
    make(tmp_path / "job", Made(ranks, stragglers={7: "pageable"}, cut=(3,), missing=(5,), twice=(9,)))
    sources = find_sources([str(tmp_path / "job")])
    map_traces(sources, tmp_path / "processes", Processes(2))
    map_traces(sources, tmp_path / "cluster", DaskCluster(scheduler))
    for number in (2, 3, 1):
        map_traces(sources, tmp_path / "shards", backwards, (number, 3))
    for name in ("processes", "cluster", "shards"):
        reduce_folder(tmp_path / name)
    assert "Of the recorded ranks, rank 7 is " in " ".join(open_fleet(tmp_path / "processes").summary.split())
    expected = contents(tmp_path / "processes")
    for name in ("cluster", "shards"):
        assert contents(tmp_path / name) == expected, name


def test_a_worker_of_a_cluster_that_is_killed_loses_no_trace(job: Path, scheduler: str, tmp_path: Path) -> None:
    worker = _start(tmp_path, ["-m", "dask", "worker", scheduler, "--nworkers", "1", "--no-dashboard", "--no-nanny"])
    time.sleep(5)

    def kill_it(*_: object) -> None:
        worker.kill()

    map_traces(find_sources([str(job)]), tmp_path, DaskCluster(scheduler), progress=kill_it)
    worker.wait()
    assert [outcome.code for outcome in outcomes(tmp_path)] == [""] * RANKS


def test_a_scheduler_that_is_not_there(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("overlapscope.fleet.executors.PATIENCE_S", 1)
    with pytest.raises(ClusterError, match="no Dask scheduler answers"):
        map_traces(find_sources([str(job)]), tmp_path, DaskCluster(f"tcp://127.0.0.1:{_free_port()}"))


def test_traces_in_an_object_store_give_the_same_answer(job: Path, bucket: str, tmp_path: Path) -> None:
    sources = find_sources([bucket])
    assert [source.name for source in sources] == sorted(f"{bucket}/{trace.name}" for trace in job.iterdir())
    map_traces(sources, tmp_path / "store", Processes(2))
    reduce_folder(tmp_path / "store")
    local = fleet(job, tmp_path / "here")
    assert open_fleet(tmp_path / "store").summary == open_fleet(local).summary
    parts = {name: data for name, data in contents(tmp_path / "store").items() if name.startswith("parts")}
    assert parts == {name: data for name, data in contents(local).items() if name.startswith("parts")}


def test_a_second_run_reads_nothing_from_the_store_again(bucket: str, tmp_path: Path) -> None:
    some = find_sources([f"{bucket}/rank1*"])
    assert len(some) == 3
    map_traces(some, tmp_path, Processes(1))
    map_traces(find_sources([f"{bucket}/rank1*"]), tmp_path, _nobody)
    assert all(outcome.kept for outcome in outcomes(tmp_path))


def _nobody(_: Path, sources: Any) -> Iterator[Any]:
    assert not sources
    return iter(())


def test_what_is_not_in_the_store(bucket: str) -> None:
    with pytest.raises(TraceNotFound, match="no such file"):
        find_sources([f"{bucket}/nothing/*.json"])
    with pytest.raises(TraceNotFound), local_file(f"{bucket}/nothing.json"):
        pass


def _start(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        os.killpg(process.pid, signal.SIGTERM)
    for process in processes:
        process.wait(timeout=30)


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_memory_does_not_grow_with_the_number_of_ranks(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    mapped, reduced = [], []
    for ranks in (10, 40):
        make(tmp_path / f"{ranks}", Made(ranks))
        mapped.append(measured(map_part, tmp_path / f"{ranks}", tmp_path / f"{ranks}-out", 2))
    for ranks in (40, 400):
        copied(tmp_path / "10-out", tmp_path / f"{ranks}-copied", ranks)
        reduced.append(measured(reduce_part, tmp_path / f"{ranks}-copied"))
    assert mapped[1]["worker_peak_mb"] < 1.1 * mapped[0]["worker_peak_mb"]
    assert mapped[1]["peak_mb"] < 1.1 * mapped[0]["peak_mb"]
    assert reduced[1]["peak_mb"] < 1.2 * reduced[0]["peak_mb"]
