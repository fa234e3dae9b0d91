"""Make a job of any number of ranks out of two recorded ones: a rank on time, and one that is late for a known cause.

    python benchmarks/fleet_recorded.py OUT --ranks 64 --late 17 40 --times 5 --cut 3 --missing 5 --twice 9

Each rank is a copy of one of them, by default of the two of `sample_traces/ddp_pageable`, with its own rank, host,
process, GPU and clock. ``--times`` repeats their steps, for traces of any size. OUT-truth.json says which ranks are
late and why, how late, how far off each clock is, and which traces are cut, missing or there twice.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Trace = dict[str, Any]
Event = dict[str, Any]
RECORDED = Path(__file__).resolve().parent.parent / "sample_traces" / "ddp_pageable"
_IDS = ("correlation", "External id", "Record function id", "Ev Idx")
_GPUS, _SHOWN_RANKS = 8, 8
_APART_US = 500.0  # between the last work of the steps and their next repetition


@dataclass(frozen=True)
class Copies:
    """What to make: how many ranks, which of them are late, and what is wrong with which trace.

    ``times`` is how often the recorded steps occur, ``skew_ns`` how far clocks lie apart at most. Ranks in ``cut`` have
    a truncated file, those in ``missing`` none, and those in ``twice`` two. ``code`` is the rule that explains why the
    late body is late.
    """

    ranks: int
    late: tuple[int, ...] = ()
    times: int = 1
    cut: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    twice: tuple[int, ...] = ()
    skew_ns: int = 50_000_000
    seed: int = 1
    on_time: Path = RECORDED / "rank0.json.gz"
    behind: Path = RECORDED / "rank1.json.gz"
    code: str = "OVL001"


def make(folder: Path, job: Copies) -> Trace:
    """Write the traces of a job, and the truth beside their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    on_time, behind = (json.loads(gzip.decompress(path.read_bytes())) for path in (job.on_time, job.behind))
    period = max(_end_us(each) for each in (on_time, behind)) - min(_begin_us(each) for each in (on_time, behind))
    bodies = {late: _repeated(each, job.times, period + _APART_US) for late, each in ((0, on_time), (1, behind))}
    chance, skews = random.Random(job.seed), dict[int, int]()
    for rank in sorted(set(range(job.ranks)) - set(job.missing)):
        skews[rank] = chance.randrange(job.skew_ns)
        _write(folder, _renamed(bodies[rank in job.late], rank, job.ranks, skews[rank]), rank, job)
    about = {key: value for key, value in asdict(job).items() if not isinstance(value, Path)}
    truth = about | {"late_us": _late_us(on_time, behind), "clocks_ns": skews}
    folder.with_name(f"{folder.name}-truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return truth


def _repeated(trace: Trace, times: int, period_us: float) -> Trace:
    """The trace with its steps so many times, each with ids and step numbers of its own."""
    events = trace["traceEvents"]
    ids = 1 + max((value for event in events for value in _ids(event)), default=0)
    steps = sum(event["name"].startswith("ProfilerStep#") for event in events if event.get("cat") == "user_annotation")
    again = (_later(event, number, period_us, ids, steps) for number in range(1, times) for event in events)
    return trace | {"traceEvents": [*events, *(event for event in again if event["ph"] != "M")]}


def _later(event: Event, number: int, period_us: float, ids: int, steps: int) -> Event:
    args = event.get("args") or {}
    moved = {key: args[key] + number * ids for key in _IDS if isinstance(args.get(key), int)}
    later = event | {"ts": round(event.get("ts", 0) + number * period_us, 3), "args": args | moved}
    head, mark, step = event["name"].partition("ProfilerStep#")
    return later | {"name": f"{head}{mark}{int(step) + number * steps}"} if mark else later


def _renamed(trace: Trace, rank: int, ranks: int, skew_ns: int) -> Trace:
    """The trace as one of another rank, on a clock that is so far ahead."""
    (process,) = {event["pid"] for event in trace["traceEvents"] if event.get("cat") == "cuda_runtime"}
    (device,) = {event["args"]["device"] for event in trace["traceEvents"] if event.get("cat") == "kernel"}
    names = {process: 10_000 + rank, ("gpu", device): rank % _GPUS}
    shown = ", ".join(map(str, range(min(ranks, _SHOWN_RANKS)))) + (", ..." if ranks > _SHOWN_RANKS else "")
    about = {
        "deviceProperties": [trace["deviceProperties"][0] | {"id": number} for number in range(_GPUS)],
        "distributedInfo": trace["distributedInfo"] | {"rank": rank, "world_size": ranks},
        "baseTimeNanoseconds": trace["baseTimeNanoseconds"] + skew_ns,
    }
    kept = {key: value for key, value in trace.items() if key != "overlapscope"}  # its times are of the first copy
    return kept | about | {"traceEvents": [_event(event, names, f"[{shown}]") for event in trace["traceEvents"]]}


def _event(event: Event, names: dict[Any, int], group: str) -> Event:
    args = dict(event.get("args") or {})
    own = names.get(("gpu", args.get("device")))
    if own is None:
        ids = {key: names.get(event[key], event[key]) for key in ("pid", "tid") if key in event}
        return event | ids
    args |= {"device": own} | ({"Process Group Ranks": group} if "Process Group Ranks" in args else {})
    return event | {"pid": own, "args": args}


def _write(folder: Path, trace: Trace, rank: int, job: Copies) -> None:
    data = json.dumps(trace).encode()
    for number in range(2 if rank in job.twice else 1):
        packed = gzip.compress(data + b"\n" * number, compresslevel=1, mtime=0)
        name = f"node-{rank // _GPUS}_{10_000 + rank}.{1_790_857_026_000 + number}.pt.trace.json.gz"
        (folder / name).write_bytes(packed[: len(packed) * 2 // 3] if rank in job.cut else packed)


def _late_us(on_time: Trace, behind: Trace) -> list[float]:
    """How much later one comes to each collective than the other, by the ends of these."""
    pairs = list(zip(_collectives(on_time), _collectives(behind), strict=True))
    ahead = sorted(late["ts"] + late["dur"] - first["ts"] - first["dur"] for first, late in pairs)
    return [round(late["ts"] - first["ts"] - ahead[len(ahead) // 2], 3) for first, late in pairs]


def _collectives(trace: Trace) -> list[Event]:
    found = [event for event in trace["traceEvents"] if event.get("cat") == "kernel" and "nccl" in event["name"]]
    return sorted(found, key=lambda event: float(event["ts"]))


def _begin_us(trace: Trace) -> float:
    return min(float(event["ts"]) for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] != "Trace")


def _end_us(trace: Trace) -> float:
    timed = (event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] != "Trace")
    return max(float(event["ts"] + event["dur"]) for event in timed)


def _ids(event: Event) -> Iterator[int]:
    args = event.get("args") or {}
    yield from (args[key] for key in _IDS if isinstance(args.get(key), int))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name, default in (("ranks", 64), ("times", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("late", "cut", "missing", "twice"):
        parser.add_argument(f"--{name}", type=int, nargs="*", default=[], metavar="RANK")
    for name in ("on_time", "behind"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, default=getattr(Copies, name), metavar="TRACE")
    parser.add_argument("--code", default=Copies.code, help="the rule that explains why the late trace is late")
    given = vars(parser.parse_args())
    found: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    make(found.pop("out"), Copies(**found))


if __name__ == "__main__":
    main()
