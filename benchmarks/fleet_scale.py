"""Measure what `overlapscope fleet` costs on this machine, and simulate it with many more workers and ranks.

    python benchmarks/fleet_scale.py -o benchmarks/fleet_scale.json [--dask PYTHON] [--reduce-alone]

Costs are CPU time, which other programs on the machine change less than wall time. The simulation has what is serial:
the scheduler, the process that collects outcomes, and the reduce. PYTHON is an interpreter with `distributed`, where
this one has none. With ``--reduce-alone`` the other figures stay as they are in the file.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.fleet_ranks import Job, make  # noqa: E402 - a module beside this one

Row = dict[str, Any]
SMALL, LARGE = Job(ranks=8), Job(ranks=8, steps=100, layers=40)
RANKS = (10, 100, 1000)
FEW, MANY = Job(ranks=10, stragglers={7: "pageable"}), Job(ranks=10, steps=100, layers=20, stragglers={7: "pageable"})
"""Jobs with few collectives in each rank, and with many."""


@dataclass(frozen=True)
class Costs:
    """CPU seconds of each part: of a worker's start, a trace and its bytes; and of what is serial.

    Of the reduce these are its start, each trace, and each collective of each trace; and its memory in bytes alike.
    """

    worker_start_s: float
    worker_trace_s: float
    worker_byte_s: float
    scheduler_task_s: float
    client_task_s: float
    reduce_trace_s: float
    reduce_start_s: float
    reduce_collective_s: float = 0.0
    reduce_bytes: float = 0.0
    reduce_trace_bytes: float = 0.0
    reduce_collective_bytes: float = 0.0


@dataclass(frozen=True)
class Simulated:
    """What a run takes, and for which share of the map each part is busy."""

    workers: int
    ranks: int
    megabytes: float
    collectives: int
    map_s: float
    reduce_s: float
    workers_busy: float
    scheduler_busy: float
    client_busy: float


def simulate(costs: Costs, ranks: int, workers: int, trace_bytes: float, collectives: int = 0) -> Simulated:
    """Simulate a map of equal traces, task by task, and the reduce after it.

    A task goes through the scheduler before it is given to a worker and again when it is done, half of its cost each,
    one task at a time; then through the client. A worker has one task at a time.
    """
    half, each = costs.scheduler_task_s / 2, costs.worker_trace_s + costs.worker_byte_s * trace_bytes
    events = [(costs.worker_start_s, 0)] * min(workers, ranks)  # when a worker asks for work
    given, scheduler, client, done = 0, 0.0, 0.0, 0.0
    heapq.heapify(events)
    while events:
        at, finished = heapq.heappop(events)
        if finished:
            scheduler = max(scheduler, at) + half
            client = max(client, scheduler) + costs.client_task_s
            done = max(done, client)
        if given < ranks:
            given += 1
            scheduler = max(scheduler, at) + half
            heapq.heappush(events, (scheduler + each, 1))
    busy = [each * ranks / min(workers, ranks), costs.scheduler_task_s * ranks, costs.client_task_s * ranks]
    shares = [round(value / done, 3) for value in busy]
    reduce_s = costs.reduce_start_s + (costs.reduce_trace_s + costs.reduce_collective_s * collectives) * ranks
    return Simulated(workers, ranks, trace_bytes / 1e6, collectives, round(done, 2), round(reduce_s, 2), *shares)


def measured(part: Callable[..., Row], *arguments: object, python: str = sys.executable) -> Row:
    """What a part of this file measures in an interpreter of its own, whose memory and CPU time are its own."""
    command = [python, __file__, "--part", part.__name__, *map(str, arguments)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: Row = json.loads(text.splitlines()[-1])
    return {name: round(value, 4) for name, value in found.items()}


def map_part(traces: str, out: str, workers: str) -> Row:
    from overlapscope.fleet.executors import Processes, map_traces
    from overlapscope.fleet.sources import find_sources

    began = time.perf_counter()
    map_traces(find_sources([traces]), Path(out), Processes(int(workers)))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": children.ru_utime + children.ru_stime,
        "worker_peak_mb": children.ru_maxrss / 1e3,
        "peak_mb": _own_peak_mb(),
    }


def reduce_part(out: str) -> Row:
    import pandas  # noqa: F401 - its import is no cost of a rank

    from overlapscope.fleet.reduce import reduce_folder

    began, before = time.perf_counter(), _own_cpu_s()
    reduce_folder(Path(out))
    return {"wall_s": time.perf_counter() - began, "cpu_s": _own_cpu_s() - before, "peak_mb": _own_peak_mb()}


def dask_part(port: str, tasks: str) -> Row:
    """CPU time of the parts of a Dask cluster for tasks that do nothing, of the size of ours."""
    os.environ["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "120s"  # where other programs keep it from starting
    from distributed import Client, as_completed

    address, start = f"tcp://127.0.0.1:{port}", [sys.executable, "-m", "dask"]
    own = ["scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"]
    worker = ["worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    scheduler, *workers = (
        subprocess.Popen([*start, *words], stdout=subprocess.DEVNULL) for words in (own, worker, worker)
    )
    try:
        client = Client(address, timeout=120)
        client.wait_for_workers(2)
        given = [
            {"source": f"s3://bucket/run/rank{rank}_trace.json.gz", "folder": "/out"} for rank in range(int(tasks))
        ]
        used = []
        for some in (given[:200], given):  # the first warm up
            used.append((_cpu_s(scheduler), sum(map(_cpu_s, workers)), _own_cpu_s()))
            for future in as_completed(client.map(dict, some, pure=False)):
                future.result()
        now = _cpu_s(scheduler), sum(map(_cpu_s, workers)), _own_cpu_s()
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()
    names = ("scheduler_ms", "worker_ms", "client_ms")
    return {name: (b - a) / len(given) * 1e3 for name, a, b in zip(names, used[-1], now, strict=True)}


PARTS: dict[str, Callable[..., Row]] = {part.__name__: part for part in (map_part, reduce_part, dask_part)}


def _own_cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def _own_peak_mb() -> float:
    """Of this interpreter alone: that of getrusage has what the process held before it became one."""
    fields = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return next(int(words[1]) / 1e3 for words in fields if words[0] == "VmHWM:")


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def maps(scratch: Path) -> Iterator[Row]:
    """The map of small and of large traces, with one worker and two."""
    for name, job in (("small", SMALL), ("large", LARGE)):
        folder = scratch / name
        sizes = [path.stat().st_size for path in make(folder, job)]
        plain = _plain_bytes(folder)
        for workers in (1, 2):
            row = measured(map_part, folder, scratch / f"{name}-{workers}", workers)
            yield {"traces": job.ranks, "workers": workers, "bytes": sum(sizes), "json_bytes": plain, **row}


def _plain_bytes(folder: Path) -> int:
    return sum(len(gzip.decompress(path.read_bytes())) for path in folder.iterdir())


def by_ranks(scratch: Path, ranks: Sequence[int]) -> Iterator[Row]:
    """The map of more and more ranks."""
    for number in ranks:
        folder = scratch / f"ranks-{number}"
        make(folder, Job(number, stragglers={7: "pageable"}))
        mapped = measured(map_part, folder, scratch / f"ranks-{number}-out", 2)
        yield {"ranks": number} | {f"map_{k}": v for k, v in mapped.items()}


def reduces(scratch: Path, ranks: Sequence[int]) -> Iterator[Row]:
    """The reduce of more and more ranks, with few collectives in each and with many."""
    for name, job in (("few", FEW), ("many", MANY)):
        make(scratch / name, job)
        measured(map_part, scratch / name, scratch / f"{name}-out", 2)
        for number in ranks:
            out = scratch / f"{name}-{number}"
            copied(scratch / f"{name}-out", out, number)
            yield {"ranks": number, "collectives": job.steps * job.layers, **measured(reduce_part, out)}


def copied(mapped: Path, out: Path, ranks: int) -> None:
    """Results of so many ranks: those of a few, each under a number of its own."""
    import pyarrow as pa

    from overlapscope.fleet.store import outcomes, prepare, read_part, recording, write_part

    found = outcomes(mapped)
    parts = [read_part(mapped, outcome.key) for outcome in found]
    prepare(out, (1, 1))
    with recording(out, (1, 1), ranks) as record:
        for rank in range(ranks):
            part = dict(parts[rank % len(parts)])
            for name, value in (("recorded_rank", rank), ("world_size", ranks)):
                place = part["traces"].column_names.index(name)
                part["traces"] = part["traces"].set_column(place, name, pa.array([value], pa.int64()))
            write_part(out, f"{rank:08}", part)
            record(replace(found[0], source=f"/job/rank{rank:05}.json.gz", key=f"{rank:08}"))


def costs_of(maps: Sequence[Row], reduced: Sequence[Row], dask: Row) -> Costs:
    """The law: what a start costs, from two numbers of workers; a trace and its bytes, from two sizes.

    What the reduce costs is fitted to all of its rows: a start, each rank, and each collective of each rank.
    """
    small, large = (row for row in maps if row["workers"] == 1)
    start_s = sum(b["cpu_s"] - a["cpu_s"] for a, b in zip(maps[::2], maps[1::2], strict=True)) / len(maps[::2])
    each = [(row["cpu_s"] - start_s) / row["traces"] for row in (small, large)]
    size = [row["json_bytes"] / row["traces"] for row in (small, large)]
    byte_s = (each[1] - each[0]) / (size[1] - size[0])
    reduce_s, reduce_mb = _fitted(reduced, "cpu_s"), _fitted(reduced, "peak_mb")
    return Costs(
        worker_start_s=start_s,
        worker_trace_s=each[0] - byte_s * size[0] + dask["worker_ms"] / 1e3,
        worker_byte_s=byte_s,
        scheduler_task_s=dask["scheduler_ms"] / 1e3,
        client_task_s=dask["client_ms"] / 1e3,
        reduce_trace_s=reduce_s[1],
        reduce_start_s=reduce_s[0],
        reduce_collective_s=reduce_s[2],
        reduce_bytes=reduce_mb[0] * 1e6,
        reduce_trace_bytes=reduce_mb[1] * 1e6,
        reduce_collective_bytes=reduce_mb[2] * 1e6,
    )


def _fitted(rows: Sequence[Row], figure: str) -> list[float]:
    """What a figure is without ranks, and for each rank and each collective of one more: least relative squares."""
    import numpy as np

    terms = np.array([[1, row["ranks"], row["ranks"] * row["collectives"]] for row in rows], np.float64)
    values = np.array([row[figure] for row in rows])
    found = np.linalg.lstsq(terms / values[:, np.newaxis], np.ones(len(rows)), rcond=None)[0]
    return [max(float(value), 0.0) for value in found]


def _machine() -> Row:
    return {"cpus": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--dask", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--most-ranks", type=int, default=RANKS[-1])
    parser.add_argument("--reduce-alone", action="store_true", help="keep the other figures of the output")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part[0]](*options.part[1:])))
        return
    numbers = [number for number in RANKS if number <= options.most_ranks]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        of_map = (
            json.loads(options.output.read_text()) if options.reduce_alone else _of_map(scratch, numbers, options.dask)
        )
        reduced = list(reduces(scratch, numbers))
    costs = costs_of(of_map["maps"], reduced, of_map["dask"])
    found = {
        **{key: of_map[key] for key in ("machine", "maps", "ranks", "dask")},
        "reduces": reduced,
        "costs": asdict(costs),
        "simulated": [asdict(each) for each in _simulations(costs)],
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _of_map(scratch: Path, numbers: Sequence[int], dask: str) -> dict[str, Any]:
    return {
        "machine": _machine(),
        "dask": measured(dask_part, 8791, 2000, python=dask),
        "maps": list(maps(scratch)),
        "ranks": list(by_ranks(scratch, numbers)),
    }


def _simulations(costs: Costs) -> Iterator[Simulated]:
    for megabytes in (1, 20, 200):
        for workers in (1, 2, 8, 64, 256, 1000):
            yield simulate(costs, 10_000, workers, megabytes * 1e6, MANY.steps * MANY.layers)


if __name__ == "__main__":
    main()
