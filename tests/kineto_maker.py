"""Small Kineto traces, written down event by event."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]

H200: Event = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
"""The header of a trace from a GPU whose link is known by its name."""
TO_GPU: Event = {"kinds": "HtoD (Pinned -> Device)", "stream": 7}
"""A pinned copy on the stream of the kernels, of which copies to the host are ``TO_HOST``."""
TO_HOST: Event = {"kinds": "DtoH (Device -> Pinned)", "stream": 7}


def calibrated(**fields: Any) -> Event:
    """The header of a trace with these fields of a calibration."""
    return {"overlapscope": {"schema": "overlapscope.calibration/2", **fields}}


def kernel(
    ts: float, dur: float, *, stream: int = 7, device: int = 0, correlation: int | None = None, **more: Any
) -> Event:
    args = {"device": device, "stream": stream, "context": 1, "grid": [2, 3, 1], "block": [64, 1, 1]}
    return _event("kernel", more.pop("name", "k"), device, stream, ts, dur, _with(args, correlation) | more)


def copy(
    ts: float,
    dur: float,
    *,
    kinds: str = "HtoD (Pageable -> Device)",
    size: int = 1000,
    stream: int = 13,
    device: int = 0,
    correlation: int | None = None,
) -> Event:
    args = {"device": device, "stream": stream, "context": 1, "bytes": size}
    return _event("gpu_memcpy", f"Memcpy {kinds}", device, stream, ts, dur, _with(args, correlation))


def call(
    ts: float, dur: float, *, name: str = "cudaLaunchKernel", correlation: int = 0, pid: int = 1, tid: int = 1
) -> Event:
    return _event("cuda_runtime", name, pid, tid, ts, dur, {"cbid": 1, "correlation": correlation})


def annotation(name: str, ts: float, dur: float, *, pid: int = 1, tid: int = 1) -> Event:
    return _event("user_annotation", name, pid, tid, ts, dur, {})


def cpu_op(name: str, ts: float, dur: float, *, pid: int = 1, tid: int = 1) -> Event:
    return _event("cpu_op", name, pid, tid, ts, dur, {})


def frame(name: str, ts: float, dur: float, *, pid: int = 1, tid: int = 1) -> Event:
    """A call of a Python function, as Kineto writes it with stacks."""
    return _event("python_function", name, pid, tid, ts, dur, {})


def sample(
    stack: str, ts: float, dur: float, *, cpu: float | None = None, count: int = 1, pid: int = 1, tid: int = 1
) -> Event:
    """Samples of a thread with one stack; ``cpu`` is its processor time in us."""
    args = {"stack": stack, "samples": count} | ({} if cpu is None else {"cpu_ns": round(1000 * cpu)})
    return _event("python_sample", stack.rpartition(";")[2], pid, tid, ts, dur, args)


def host_event(name: str, ts: float, dur: float, kind: str, *, pid: int = 1, tid: int = 1, **args: Any) -> Event:
    return _event("host_event", name, pid, tid, ts, dur, {"kind": kind} | args)


def sync(name: str, ts: float, dur: float, *, stream: int, correlation: int, **args: Any) -> Event:
    about = {"device": 0, "stream": stream, "correlation": correlation, "cuda_sync_kind": name} | args
    return _event("cuda_sync", name, 0, stream, ts, dur, about)


def overhead(ts: float, dur: float, name: str = "Activity Buffer Request") -> Event:
    """What the profiler did for itself, as Kineto writes it: of no thread."""
    return _event("overhead", name, -1, 0, ts, dur, {})


def _event(cat: str, name: str, pid: int, tid: int, ts: float, dur: float, args: Event) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _with(args: Event, correlation: int | None) -> Event:
    return args if correlation is None else args | {"correlation": correlation}


def text(*events: Event, **header: Any) -> str:
    """A trace in Kineto's own layout: header, then one event after another."""
    about = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Test GPU"}], "baseTimeNanoseconds": 10**18}
    return json.dumps(about | header | {"traceEvents": list(events)}, indent=2)


def write(path: Path, *events: Event, **header: Any) -> Path:
    data = text(*events, **header).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
