"""What a recording notes of the host: Python stacks, garbage collections, sleeps, files, output."""

from __future__ import annotations

import _thread
import builtins
import gc
import json
import logging
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from overlapscope.calibration.data import from_json
from overlapscope.calibration.schema import Calibration, Loader
from overlapscope.capture import calibrate, places
from overlapscope.capture.host_log import HostLog, watch_host
from overlapscope.capture.recorder import record
from overlapscope.capture.sampler import INTERVAL_NS, Sampler
from overlapscope.scrub.kineto import scrub_kineto
from tests.conftest import ROOT

NAME = Path(__file__).name
Event = dict[str, Any]


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        torch.ones(4).add(1)


def recorded(step: Callable[[], object], path: Path, **settings: Any) -> tuple[list[Event], Calibration]:
    """What was noted while two steps were recorded, of each category, and the calibration."""
    settings = {"steps": 2, "unprofiled": 0, "device": "cpu"} | settings
    with record(path, **settings) as recording:
        recording.run(step)
    data = json.loads(path.read_text())
    known = from_json(data["overlapscope"])
    assert known is not None
    return [each for each in data["traceEvents"] if each.get("cat") in {"python_sample", "host_event"}], known


def of_kind(events: list[Event], kind: str) -> list[Event]:
    return [each for each in events if each["args"].get("kind") == kind]


def samples(events: list[Event], thread: int | None = None) -> list[Event]:
    found = [each for each in events if each["cat"] == "python_sample"]
    return [each for each in found if thread is None or each["tid"] == thread]


def test_stacks_are_sampled_on_the_clock_of_the_trace(tmp_path: Path) -> None:
    events, known = recorded(lambda: spin(0.05), tmp_path / "t.json")
    here = samples(events, threading.get_native_id())
    ops = [each for each in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if each.get("cat") == "cpu_op"]
    assert {each["name"].partition(":")[0] for each in here} <= {f"spin ({NAME}", f"<lambda> ({NAME}"}
    assert all(f"spin ({NAME}:" in each["args"]["stack"].rsplit(";", 1)[-1] for each in here)
    assert min(each["ts"] for each in ops) - 1e4 < here[0]["ts"] < max(each["ts"] for each in ops)
    ends = [each["ts"] + each["dur"] for each in here]
    assert all(end <= after["ts"] + 0.002 for end, after in zip(ends, here[1:], strict=False))
    assert sum(each["args"]["samples"] for each in here) > 4
    assert sum(each["args"]["cpu_ns"] for each in here) > 20e6
    assert known.sampling is not None
    assert known.sampling.interval_ns >= INTERVAL_NS
    assert known.sampling.samples
    assert known.sampling.cost_ns
    assert known.sampling.wall_ns
    assert known.sampling.wall_ns > 90e6


def test_where_steps_were_without_the_profiler_is_kept(tmp_path: Path) -> None:
    _, known = recorded(lambda: spin(0.02), tmp_path / "t.json", unprofiled=3)
    assert known.unprofiled_samples[0].place.startswith(f"spin ({NAME}:")
    counts = [each.samples for each in known.unprofiled_samples]
    assert counts == sorted(counts, reverse=True)


def test_other_threads_are_sampled_and_the_sampler_is_not(tmp_path: Path) -> None:
    ended, ids = threading.Event(), []

    def work() -> None:
        ids.append(threading.get_native_id())
        while not ended.is_set():
            spin(0.001)

    other = threading.Thread(target=work)
    other.start()
    try:
        events, _ = recorded(lambda: time.sleep(0.05), tmp_path / "t.json")
    finally:
        ended.set()
        other.join()
    assert any("work (" in each["args"]["stack"] for each in samples(events, ids[0]))
    assert not any("sampler.py" in each["args"]["stack"] for each in samples(events))
    sleeping = samples(events, threading.get_native_id())
    assert sum(each["args"]["cpu_ns"] for each in sleeping) < sum(
        each["args"]["cpu_ns"] for each in samples(events, ids[0])
    )


def test_without_sampling_there_are_no_samples(tmp_path: Path) -> None:
    events, known = recorded(lambda: time.sleep(0.003), tmp_path / "t.json", sampling=False)
    assert samples(events) == []
    assert known.sampling is None
    assert len(of_kind(events, "sleep")) == 2


def test_the_sampler_is_no_thread_of_the_program(tmp_path: Path) -> None:
    counts: list[int] = []
    recorded(lambda: counts.append(threading.active_count()), tmp_path / "t.json")
    assert set(counts) == {threading.active_count()}


def test_a_sampler_ends_when_it_is_stopped() -> None:
    before = _thread._count()
    sampler = Sampler()
    sampler.start()
    spin(0.02)
    assert _thread._count() == before + 1
    begin = time.perf_counter()
    sampler.stop()
    sampler.stop()
    assert time.perf_counter() - begin < 1
    number = len(sampler.runs)
    spin(0.02)
    assert _thread._count() == before
    assert len(sampler.runs) == number


def test_threads_that_come_and_go_are_told_apart() -> None:
    """Python gives the ident of a thread that ended to the next one."""
    sampler, ids = Sampler(), []

    def work() -> None:
        ids.append(threading.get_native_id())
        spin(0.03)

    sampler.start()
    for _ in range(4):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    sampler.stop()
    seen = {run.tid for run in sampler.runs if any("work (" in each for each in run.stack)}
    assert len(set(ids)) == 4
    assert seen <= set(ids)
    assert len(seen) >= 3


def test_a_deep_stack_keeps_its_innermost_functions() -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            spin(0.03)

    sampler = Sampler()
    sampler.start()
    deep(100)
    sampler.stop()
    found = [run.stack for run in sampler.runs if "spin" in run.stack[0]]
    assert found
    assert all(len(stack) == 40 for stack in found)


def test_a_forked_process_has_no_sampler_and_notes_nothing(tmp_path: Path) -> None:
    with record(tmp_path / "t.json", device="cpu") as recording:
        child = os.fork()
        if not child:
            time.sleep(0.005)
            recording.end()
            os._exit(0 if len(os.listdir("/proc/self/task")) == 1 and not recording._log.events else 7)
        assert os.waitpid(child, 0)[1] == 0
        spin(0.01)


def test_garbage_collections_are_noted(tmp_path: Path) -> None:
    garbage = [[number] for number in range(20_000)]
    events, _ = recorded(gc.collect, tmp_path / "t.json")
    asked = [each for each in of_kind(events, "gc") if each["args"]["generation"] == 2]
    assert len(asked) >= 2
    assert all(each["dur"] >= 100 for each in asked)
    assert len(garbage) == 20_000


def test_a_collection_that_was_asked_for_is_named_by_its_line(tmp_path: Path) -> None:
    def collect() -> None:
        gc.collect()

    line = collect.__code__.co_firstlineno + 1
    events, _ = recorded(collect, tmp_path / "t.json")
    assert f"gc.collect ({NAME}:{line})" in {each["name"] for each in of_kind(events, "gc")}
    assert f"collect ({NAME}:{line})" in {each["args"]["place"] for each in of_kind(events, "gc")}


def slow(*_: object, **__: object) -> None:
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass


@pytest.mark.parametrize(
    ("call", "kind", "name"),
    [
        (lambda: time.sleep(0.002), "sleep", "time.sleep"),
        (lambda: torch.save(torch.ones(3), "x.pt", pickle_module=Slow()), "save", "torch.save"),
        (lambda: logging.getLogger("host-notes").warning("x"), "log", "logging"),
        (lambda: print("x", file=Slow()), "log", "print"),
        (lambda: open("x", opener=slow_opener).close(), "file", "open"),
    ],
)
def test_what_takes_a_millisecond_is_noted(
    call: Callable[[], object], kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text("x")
    monkeypatch.setattr(logging.getLogger("host-notes"), "handlers", [SlowHandler()])
    events, _ = recorded(call, tmp_path / "t.json")
    found = [each for each in of_kind(events, kind) if each["name"].startswith(f"{name} ({NAME}:")]
    assert len(found) == 2
    assert all(each["dur"] >= 1000 for each in found)
    assert all(each["tid"] == threading.get_native_id() for each in found)
    assert found[0]["args"]["place"].startswith(f"<lambda> ({NAME}:")


def slow_opener(path: str, flags: int) -> int:
    slow()
    return os.open(path, flags)


class Slow:
    """A stream, and a module for pickling, that takes its time."""

    def __getattr__(self, name: str) -> Any:
        slow()
        return getattr(pickle, name)

    write = flush = slow


class SlowHandler(logging.Handler):
    emit = slow


def test_what_is_short_is_not_noted(tmp_path: Path) -> None:
    events, _ = recorded(lambda: time.sleep(0), tmp_path / "t.json")
    assert of_kind(events, "sleep") == []


def test_afterwards_everything_is_as_it_was(tmp_path: Path) -> None:
    def state() -> list[Any]:
        paths = [vars(pathlib.Path).get(name) for name in ("read_bytes", "read_text", "write_bytes", "write_text")]
        calls = [time.sleep, torch.save, torch.load, torch.cuda.empty_cache, builtins.print, builtins.open, os.fsync]
        return [*paths, *calls, logging.Logger.callHandlers, *gc.callbacks]

    before, handles = state(), len(os.listdir("/proc/self/fd"))
    recorded(lambda: None, tmp_path / "t.json")
    assert [one is other for one, other in zip(before, state(), strict=True)] == [True] * len(before)
    assert len(os.listdir("/proc/self/fd")) == handles


def test_functions_are_pickled_meanwhile_as_before() -> None:
    with watch_host(HostLog()):
        heard = time.sleep
        text = pickle.dumps(heard)
    assert pickle.loads(text) is time.sleep  # noqa: S301
    heard(0)


def test_a_function_that_the_program_replaced_stays_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", os.fsync)
    with watch_host(HostLog()):
        os.fsync = slow
    assert os.fsync is slow


class Rows(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        slow()
        return torch.ones(2)


def stack_slowly(rows: list[torch.Tensor]) -> torch.Tensor:
    slow()
    slow()
    return torch.stack(rows)


def loaded(path: Path, **settings: Any) -> tuple[list[Event], Loader]:
    with record(path, device="cpu") as recording:
        for _ in DataLoader(Rows(), batch_size=3, collate_fn=stack_slowly, **settings):
            recording.step()
    data = json.loads(path.read_text())
    known = from_json(data["overlapscope"])
    assert known is not None
    return [each for each in data["traceEvents"] if each.get("cat") == "host_event"], known.loaders[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_what_batches_take_is_noted(workers: int, tmp_path: Path) -> None:
    events, loader = loaded(tmp_path / "t.json", num_workers=workers)
    assert loader.item_ns is not None
    assert loader.item_ns >= 6e6
    assert loader.collate_ns is not None
    assert loader.collate_ns >= 4e6
    assert loader.in_worker == bool(workers)
    items, collations = of_kind(events, "item"), of_kind(events, "collate")
    assert len(items) == len(collations) == 8
    assert {each["name"] for each in items} == {"Rows.__getitem__"}
    assert {each["name"] for each in collations} == {"collate_fn"}
    assert collations[0]["args"]["place"].startswith(f"stack_slowly ({NAME}:")
    assert ({each["pid"] for each in items} == {os.getpid()}) == (not workers)
    assert len(loader.ready) == (8 if workers else 0)


def test_waiting_for_workers_is_noted_with_what_was_ready(tmp_path: Path) -> None:
    events, loader = loaded(tmp_path / "t.json", num_workers=1)
    waits = of_kind(events, "transfer")
    assert 4 <= len(waits) <= 8
    assert waits[0]["args"]["ready"] == 0
    assert loader.ready[0] == 0
    assert waits[0]["name"].startswith(f"DataLoader.__next__ ({NAME}:")


def test_scrubbing_keeps_what_was_noted(tmp_path: Path) -> None:
    recorded(lambda: time.sleep(0.01), tmp_path / "t.json", unprofiled=1)
    scrub_kineto(tmp_path / "t.json", tmp_path / "s.json")
    before, after = (json.loads((tmp_path / name).read_text()) for name in ("t.json", "s.json"))
    noted = [
        [each for each in data["traceEvents"] if each.get("cat") in {"python_sample", "host_event"}]
        for data in (before, after)
    ]
    assert noted[0] == noted[1]
    assert after["overlapscope"]["sampling"] == before["overlapscope"]["sampling"]
    assert after["overlapscope"]["unprofiled_samples"] == before["overlapscope"]["unprofiled_samples"]


def test_folders_are_in_no_name(tmp_path: Path) -> None:
    recorded(lambda: time.sleep(0.01), tmp_path / "t.json")
    assert str(ROOT) not in (tmp_path / "t.json").read_text()
    assert places.short("/a/lib/python3.11/site-packages/torch/optim/adam.py") == "torch/optim/adam.py"
    assert places.short(threading.__file__) == "threading.py"
    assert places.short("/home/me/net.py") == "net.py"


def test_a_script_is_sampled_without_what_called_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import time, torch\n"
        "def work():\n"
        "    end = time.time() + 0.1\n"
        "    while time.time() < end: torch.ones(3).add(1)\n"
        "work()\n"
    )
    command = [sys.executable, "-m", "overlapscope", "record", "--device", "cpu", "-o", "t.json", "train.py"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    stacks = [each["args"]["stack"] for each in samples([each for each in events if "cat" in each])]
    assert any(each.startswith("<module> (train.py:5);work (train.py:") for each in stacks)


def test_timing_of_calls_is_given_up_where_each_waits_for_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(calibrate.time, "perf_counter", lambda: now[0])

    def issue() -> None:
        now[0] += 0.04

    with pytest.raises(RuntimeError, match="interpreter lock"):
        calibrate.after_staging(4, [issue] * 9, issue)
    assert now[0] < 5
