"""Recording, without a GPU: what is in the file, what is not, and what is said when it cannot be done."""

from __future__ import annotations

import errno
import getpass
import gzip
import json
import os
import platform
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nvtx
import pytest
import torch

from overlapscope.calibration.schema import Calibration, CopyTime, DuplexTime, IssueCost, Packing, PostStaging
from overlapscope.capture import calibrate, kineto_file, profilers
from overlapscope.capture.annotate import annotate
from overlapscope.capture.calibrate import PIECE_BYTES, after_staging, copy_call_ns, pack_times
from overlapscope.capture.event_tree import arguments, copy_consumers, d2h_consumers
from overlapscope.capture.kineto_file import save
from overlapscope.capture.recorder import record
from overlapscope.cli.record import noise_of
from overlapscope.errors import CaptureError, OutputError, OverlapscopeError
from overlapscope.read.opening import open_trace
from tests import kineto_maker as make

DATA = Path(__file__).resolve().parent / "data"


def named(path: Path) -> list[str]:
    trace = open_trace(path)
    return [trace.names[number] for number in trace.ranges.name_id]


def contents(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return found


def marks_go_to(told: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell a function, and no tool around the program, where the stretch that is recorded starts and stops."""
    for what in ("start", "stop"):
        monkeypatch.setattr(torch.cuda.profiler, what, lambda what=what: told(what))


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording of GPUs goes on as if there were one."""
    marks_go_to(lambda what: None, monkeypatch)
    monkeypatch.setattr("overlapscope.capture.recorder.require_cuda", lambda: None)
    monkeypatch.setattr("overlapscope.capture.recorder.devices", list)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for name in profilers.TOOL_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def noted(monkeypatch: pytest.MonkeyPatch, path: str | None = None, **settings: Any) -> Calibration:
    """What a recording tells a tool around it."""
    told: list[Calibration] = []
    monkeypatch.setattr(profilers, "note", told.append)
    with record(path, steps=1, **settings) as recording:
        recording.run(lambda: None)
    return told[0]


class OnHost(profilers.OutsideProfiler):
    """In place of torch's profiler, which would need a GPU."""

    def __init__(self, path: Path, warmup: int, steps: int | None, **settings: Any) -> None:
        super().__init__(warmup)


@pytest.mark.parametrize(("profiled_ns", "unprofiled_ns", "noisy"), [(32e6, 49e6, True), (49e6, 32e6, False)])
def test_steps_that_are_slower_without_the_profiler_are_called_noise(
    profiled_ns: float, unprofiled_ns: float, noisy: bool
) -> None:
    assert bool(noise_of(profiled_ns, unprofiled_ns)) == noisy
    assert not noisy or "49 ms without the profiler" in noise_of(profiled_ns, unprofiled_ns)


def test_a_step_function_is_run_as_often_as_it_takes(tmp_path: Path) -> None:
    calls: list[int] = []

    def step() -> None:
        with annotate("work"):
            calls.append(1)

    with record(tmp_path / "t.json.gz", steps=3, warmup=2, unprofiled=4, device="cpu") as recording:
        recording.run(step)
    assert len(calls) == 2 + 4 + 2 + 3
    assert named(tmp_path / "t.json.gz").count("work") == 3
    assert [name for name in named(tmp_path / "t.json.gz") if name.startswith("ProfilerStep#")] == [
        f"ProfilerStep#{number}" for number in (2, 3, 4)
    ]
    kept = open_trace(tmp_path / "t.json.gz").metadata.recording
    assert kept is not None
    assert kept.recorded is not None
    assert kept.unprofiled is not None
    assert (kept.recorded.count, kept.unprofiled.count) == (3, 4)
    assert kept.profiler_factor == pytest.approx(kept.recorded.step_ns / kept.unprofiled.step_ns)


def test_a_loop_goes_on_after_its_recorded_steps(tmp_path: Path) -> None:
    done = []
    with record(tmp_path / "t.json", steps=1, unprofiled=1, device="cpu") as recording:
        for number in range(6):
            with annotate(f"batch {number}"):
                pass
            recording.step()
            done.append(recording.done)
    assert [name for name in named(tmp_path / "t.json") if name.startswith("batch")] == ["batch 3"]
    assert done == [False, False, False, True, True, True]


def test_without_steps_the_whole_block_is_recorded(tmp_path: Path) -> None:
    with record(tmp_path / "t.json", device="cpu") as recording:
        for _ in range(3):
            with annotate("inside"):
                pass
            recording.step()
    with annotate("after"):
        pass
    names = named(tmp_path / "t.json")
    assert (names.count("inside"), names.count("after")) == (3, 0)
    assert recording.saved


def test_without_a_warm_up_the_first_step_is_recorded(tmp_path: Path) -> None:
    calls: list[int] = []
    with record(tmp_path / "t.json", steps=2, warmup=0, unprofiled=0, device="cpu") as recording:
        recording.run(lambda: calls.append(1))
    assert len(calls) == 2


def test_a_block_that_ends_early_keeps_what_was_recorded(tmp_path: Path) -> None:
    with record(tmp_path / "t.json", steps=5, unprofiled=0, device="cpu") as recording:
        for _ in range(3):
            with annotate("work"):
                pass
            recording.step()
    assert named(tmp_path / "t.json").count("work") == 2
    kept = open_trace(tmp_path / "t.json").metadata.recording
    assert kept is not None
    assert kept.recorded is not None
    assert kept.recorded.count == 2


@pytest.mark.parametrize("steps_made", [0, 1, 3, 7])
def test_a_block_that_ends_before_anything_was_recorded_says_so(steps_made: int, tmp_path: Path) -> None:
    recording = record(tmp_path / "t.json", steps=3, unprofiled=5, device="cpu")
    recording.__enter__()
    for _ in range(steps_made):
        recording.step()
    with pytest.raises(CaptureError, match=f"after {steps_made} of 10 steps"):
        recording.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []
    with record(tmp_path / "again.json", device="cpu"):  # the profiler was left off
        pass


def test_the_programs_own_error_matters_more(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught, record(tmp_path / "t.json", device="cpu"), annotate("work"):
        _ = 1 / 0
    assert not getattr(caught.value, "__notes__", [])
    assert "work" in named(tmp_path / "t.json")
    with pytest.raises(ZeroDivisionError) as caught, record(tmp_path / "u.json", steps=1, device="cpu"):
        _ = 1 / 0
    assert "nothing was recorded" in caught.value.__notes__[0]


def test_a_recording_is_made_once(tmp_path: Path) -> None:
    recording = record(tmp_path / "t.json", device="cpu")
    with recording:
        pass
    with pytest.raises(CaptureError, match="made once"), recording:
        pytest.fail("the block ran")


def test_a_gpu_that_fails_in_the_loop_is_said_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a fault in a kernel: the loop goes on as it would, the profiler is left off."""
    without_gpu(monkeypatch)

    def fail() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("overlapscope.capture.calibrate.issue_cost", lambda: IssueCost(3))
    recording = record(tmp_path / "t.json", steps=2, warmup=1, unprofiled=0, calibrate=False)
    monkeypatch.setattr("overlapscope.capture.recorder.TorchProfiler", OnHost)
    recording.__enter__()
    recording.step()
    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    recording.step()
    recording.step()
    assert recording.done
    with pytest.raises(CaptureError, match="reports an error"):
        recording.__exit__(None, None, None)
    monkeypatch.undo()
    with record(tmp_path / "again.json", device="cpu"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["again.json"]


def test_a_relative_path_is_meant_where_the_recording_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with record("t.json", device="cpu"):
        os.chdir("elsewhere")
    assert (tmp_path / "t.json").exists()


def test_a_forked_process_leaves_the_recording_to_its_parent(tmp_path: Path) -> None:
    with record(tmp_path / "t.json", device="cpu") as recording:
        child = os.fork()
        if not child:
            recording.step()
            recording.__exit__(None, None, None)
            os._exit(7 if recording.saved or (tmp_path / "t.json").exists() else 0)
        assert os.waitpid(child, 0)[1] == 0
        with annotate("of the parent"):
            pass
    assert "of the parent" in named(tmp_path / "t.json")


def test_a_gpu_without_room_is_recorded_uncalibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError

    asked: list[Calibration] = []

    class Quiet(profilers.OutsideProfiler):
        def __init__(self, path: Path, warmup: int, steps: int | None, **settings: Any) -> None:
            super().__init__(warmup)

        def stop(self, calibration: Calibration | None) -> None:
            assert calibration is not None
            asked.append(calibration)

    for name in profilers.TOOL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("copy_times", "issue_cost"):
        monkeypatch.setattr(f"overlapscope.capture.calibrate.{name}", full)
    marks_go_to(lambda what: None, monkeypatch)
    monkeypatch.setattr("overlapscope.capture.recorder.TorchProfiler", Quiet)
    monkeypatch.setattr("overlapscope.capture.recorder.require_cuda", lambda: None)
    monkeypatch.setattr("overlapscope.capture.recorder.devices", list)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with record(tmp_path / "t.json"):
        pass
    assert asked[0].copies == ()
    assert (asked[0].issue_unprofiled, asked[0].issue_profiled) == (None, None)
    assert asked[0].post_staging == ()


def test_all_gpus_in_use_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step has ended when every GPU that the program uses is done; others are left alone."""
    waited: list[int | None] = []
    for name in profilers.TOOL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    marks_go_to(lambda what: None, monkeypatch)
    monkeypatch.setattr("overlapscope.capture.recorder.require_cuda", lambda: None)
    monkeypatch.setattr("overlapscope.capture.recorder.devices", list)
    monkeypatch.setattr("overlapscope.capture.machine.in_use", lambda number: number != 1)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: waited.append(device))
    with record(None, steps=1, unprofiled=0, warmup=0, calibrate=False) as recording:
        waited.clear()
        recording.run(lambda: None)
    assert waited == [None, 0, 2]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_steps_end_on_every_gpu(tmp_path: Path) -> None:
    """Kernels that a step queues on the second GPU are within the recording, though the step does not wait."""
    big = torch.ones(4096, 4096, device="cuda:1")
    torch.mm(big, big)
    with record(tmp_path / "t.json", steps=1, unprofiled=2, calibrate=False) as recording:
        recording.run(lambda: [torch.mm(big, big) for _ in range(20)])
    trace = open_trace(tmp_path / "t.json")
    steps = trace.metadata.recording
    assert steps is not None
    assert steps.unprofiled is not None
    busy = int((trace.kernels.end_ns - trace.kernels.start_ns)[trace.kernels.device == 1].sum())
    assert len(trace.kernels) >= 20
    assert steps.unprofiled.step_ns > busy / 2


def test_after_a_recording_nothing_is_called_unprofiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profilers.TorchProfiler, "used", True)
    with record(tmp_path / "t.json", steps=1, unprofiled=2, device="cpu") as recording:
        recording.run(lambda: torch.ones(3).neg_())
    kept = open_trace(tmp_path / "t.json").metadata.recording
    assert kept is not None
    assert kept.recorded is not None
    assert kept.unprofiled is None


def test_the_profiler_is_asked_for_what_the_analysis_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {}
    monkeypatch.setattr(torch.profiler, "profile", lambda **given: settings.update(given))
    monkeypatch.setattr(torch._C._profiler, "_ExperimentalConfig", lambda **given: given)
    profilers.TorchProfiler(tmp_path / "t.json", 1, 2, on_gpu=True, stacks=True, memory=True)
    assert settings["experimental_config"] == {"enable_cuda_sync_events": True, "profile_all_threads": True}
    assert settings["with_stack"]
    assert settings["profile_memory"]
    assert torch.profiler.ProfilerActivity.CUDA in settings["activities"]


def test_releases_that_cannot_record_all_threads_are_not_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {}
    monkeypatch.setattr(torch.profiler, "profile", lambda **given: settings.update(given))
    monkeypatch.setattr(torch._C._profiler, "_ExperimentalConfig", lambda enable_cuda_sync_events: "the old way")
    profilers.TorchProfiler(tmp_path / "t.json", 1, 2, on_gpu=True, stacks=False, memory=False)
    assert settings["experimental_config"] == "the old way"


def test_other_threads_operators_and_ranges_are_recorded(tmp_path: Path) -> None:
    """Those of a thread that was there before, and of one that comes and goes meanwhile."""
    asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
    answered: queue.SimpleQueue[None] = queue.SimpleQueue()

    def work() -> None:
        with annotate("elsewhere"):
            torch.ones(3).neg_()

    def worker() -> None:
        while asked.get():
            work()
            answered.put(None)

    threading.Thread(target=worker, daemon=True).start()
    with record(tmp_path / "t.json", steps=2, unprofiled=0, device="cpu") as recording:
        for _ in range(3):
            asked.put(True)
            answered.get()
            passing = threading.Thread(target=work)
            passing.start()
            passing.join()
            recording.step()
    asked.put(False)
    trace = open_trace(tmp_path / "t.json")
    names = [trace.names[name] for name in trace.cpu_ops.name_id]
    ranges = [trace.names[name] for name in trace.ranges.name_id]
    assert (names.count("aten::neg_"), ranges.count("elsewhere")) == (4, 4)
    assert threading.get_native_id() not in trace.cpu_ops.thread


@pytest.mark.parametrize("device", ["CPU", "gpu", "mps"])
def test_a_device_that_is_none_is_refused(device: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no device"):
        record(tmp_path / "t.json", device=device)


def test_counts_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for counts in ({"steps": 0}, {"warmup": -1}, {"unprofiled": -1}):
        with pytest.raises(ValueError, match="at least"):
            record(tmp_path / "t.json", **counts)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_clear_sentence_without_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no CUDA device"), record(tmp_path / "t.json"):
        pytest.fail("the block ran")


def test_a_clear_sentence_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlapscope.capture.machine.find_spec", lambda name: None)
    with pytest.raises(CaptureError, match="needs torch: pip install torch"):
        record(tmp_path / "t.json", device="cpu").check()


def test_a_clear_sentence_while_another_profiler_records(tmp_path: Path) -> None:
    with (
        torch.profiler.profile(),
        pytest.raises(CaptureError, match="already recording in this program"),
        record(tmp_path / "t.json", device="cpu"),
    ):
        pytest.fail("the block ran")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", [torch.profiler.profile, torch.autograd.profiler.profile])
def test_a_profiler_of_the_program_inside_ours_is_refused_at_once(
    other: Callable[[], AbstractContextManager[object]], tmp_path: Path
) -> None:
    """Releases of torch differ in which of the two they let live; where the program goes on, ours does."""
    with record(tmp_path / "t.json", device="cpu"):
        with pytest.raises(CaptureError, match="switch that one off, or record a part"), other():
            pytest.fail("the block ran")
        torch.ones(3) + 1
    assert "aten::add" in (tmp_path / "t.json").read_text()
    with other():
        torch.ones(3) + 1


@pytest.mark.parametrize("target", ["none/t.json", "."], ids=["no folder", "a folder"])
def test_a_target_that_cannot_be_written_is_said_before_the_block_runs(target: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError), record(tmp_path / target, device="cpu"):
        pytest.fail("the block ran")


def test_a_full_disk_is_said_and_leaves_the_older_trace(tmp_path: Path) -> None:
    """The exporter of torch says nothing when its file ends early: a limit on file sizes makes it end early."""
    (tmp_path / "t.json.gz").write_text("older")
    code = (
        "import resource, signal, sys, torch\n"
        "from overlapscope import OverlapscopeError, record\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sys.dont_write_bytecode = True\n"
        "try:\n"
        "    with record(sys.argv[1], device='cpu'):\n"
        "        for _ in range(200): torch.ones(3) + 1\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "except OverlapscopeError as error:\n"
        "    print(error.code, error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "t.json.gz")], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("output ")
    assert "cannot be written" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["t.json.gz"]
    assert (tmp_path / "t.json.gz").read_text() == "older"


def refuse(path: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "export",
    [
        refuse,
        lambda path: None,
        lambda path: Path(path).touch(),
        lambda path: Path(path).write_text('{"traceEvents": [{'),
    ],
    ids=["raises", "leaves nothing", "leaves it empty", "leaves half of it"],
)
def test_a_full_disk_is_said_however_the_exporter_takes_it(export: Callable[[str], None], tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left"):
        kineto_file.save(export, tmp_path / "t.json", must_have_gpu=False)
    assert list(tmp_path.iterdir()) == []


def export_of(*events: make.Event, **header: Any) -> Any:
    return lambda path: make.write(Path(path), *events, **header)


def test_a_profiler_that_saw_no_gpu_is_said(tmp_path: Path) -> None:
    call = {"cat": "cuda_runtime", "ph": "X", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    kineto_file.save(export_of(call), tmp_path / "t.json", must_have_gpu=True)
    with pytest.raises(CaptureError, match="CUPTI serves one profiler at a time"):
        kineto_file.save(export_of(make.kernel(5, 5)), tmp_path / "u.json", must_have_gpu=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_a_saved_trace_names_neither_its_host_nor_its_own_path(tmp_path: Path) -> None:
    export = export_of(make.kernel(5, 5), host_name="secret", traceName=f"{tmp_path}/x.json")
    kineto_file.save(export, tmp_path / "t.json", must_have_gpu=False)
    text = (tmp_path / "t.json").read_text()
    assert "secret" not in text
    assert str(tmp_path) not in text
    assert len(open_trace(tmp_path / "t.json").kernels) == 1


def tensor(address: int, device: str = "cuda:0") -> SimpleNamespace:
    return SimpleNamespace(storage_data_ptr=address, device=torch.device(device))


def operator(name: str, start_ns: int, inputs: list[Any], *children: SimpleNamespace) -> SimpleNamespace:
    fields = SimpleNamespace(inputs=inputs)
    times = {"start_time_ns": start_ns, "end_time_ns": start_ns + 4}
    return SimpleNamespace(name=name, extra_fields=fields, children=list(children), **times)


def test_who_touches_a_copied_tensor_is_seen() -> None:
    """By its memory, in lists too; not what no copy brings, what lies on the host, or other people's operators."""
    host = tensor(100, "cpu")
    tree = [
        operator("step", 0, [], operator("aten::to", 5, [host], operator("aten::copy_", 10, [tensor(7), host, False]))),
        operator("aten::mm", 20, [tensor(8), tensor(9)]),
        operator("aten::cat", 30, [[tensor(8), tensor(7)], 1]),
        operator("aten::copy_", 40, [tensor(8), tensor(9), False]),
        operator("mine::fused", 50, [tensor(7)]),
        operator("aten::relu", 60, [tensor(7, "cuda:1"), None]),
        operator("aten::index", 65, [tensor(8), None]),
        SimpleNamespace(name="aten::odd", start_time_ns=70, extra_fields=SimpleNamespace(), children=[]),
    ]
    seen = copy_consumers(tree)
    assert seen.op_start_ns.tolist() == [10, 30, 65], "indices are not seen: it may be any"
    assert seen.tensor.tolist() == [0, 0, 0]


def test_who_first_reads_what_came_to_the_host_is_seen() -> None:
    """Not what goes to the GPU, what the copy itself does with it, or what a second copy has overwritten."""
    result, other = tensor(1, "cpu"), tensor(2, "cpu")
    tree = [
        operator("aten::to", 8, [tensor(7)], operator("aten::copy_", 10, [result, tensor(7), False])),
        operator("aten::detach", 12, [result]),
        operator("aten::copy_", 20, [tensor(7), other, False]),
        operator("aten::relu", 30, [tensor(7)]),
        operator("aten::resolve_neg", 40, [result]),
        operator("aten::neg", 50, [result]),
        operator("aten::copy_", 60, [result, tensor(7), False]),
        operator("aten::copy_", 70, [result, tensor(7), False]),
        operator("aten::cat", 80, [[other, result], 0]),
        operator("aten::neg", 90, [other]),
    ]
    seen = d2h_consumers(tree)
    assert (seen.copy_start_ns.tolist(), seen.op_start_ns.tolist()) == ([10, 70], [40, 80])


def test_the_arguments_of_a_recording_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In torch's own tree, at the times of the operators in the trace; here every tensor counts as copied on a GPU."""
    module = "overlapscope.capture.event_tree"
    monkeypatch.setattr(f"{module}.leaves_device", lambda node: True)
    every = lambda node, where: ((0, each.storage_data_ptr) for each in arguments(node))  # noqa: E731
    monkeypatch.setattr(f"{module}.memories_of", every)
    one, other = torch.ones(8, 8), torch.ones(8, 8)
    with record(tmp_path / "t.json", device="cpu"):
        other.copy_(one)
        other.neg_()
        one.neg_()
    trace = open_trace(tmp_path / "t.json")
    recording = trace.metadata.recording
    assert recording is not None
    consumers = recording.copy_consumers
    assert consumers is not None
    names = dict(zip(trace.cpu_ops.start_ns.tolist(), trace.names.decode(trace.cpu_ops.name_id), strict=True))
    seen = [names[start] for start in consumers.op_start_ns.tolist()]
    assert seen == ["aten::copy_", "aten::copy_", "aten::neg_", "aten::neg_"]
    first, second, third, fourth = consumers.tensor.tolist()
    assert {first, second} == {0, 1}
    assert third != fourth
    given = recording.d2h_consumers
    assert given is not None
    (copied,), (read,) = given.copy_start_ns.tolist(), given.op_start_ns.tolist()
    assert [names[copied], names[read]] == ["aten::copy_", "aten::neg_"]
    assert read == min(start for start, name in names.items() if name == "aten::neg_")


def test_allocations_are_left_out_of_the_file(tmp_path: Path) -> None:
    """As torch writes them, with their addresses; everything around them stays."""
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        torch.ones(8).add(1).sum()
    profiler.export_chrome_trace(str(tmp_path / "raw.json"))
    save(lambda path: shutil.copy(tmp_path / "raw.json", path), tmp_path / "t.json", must_have_gpu=False)
    raw, kept = (json.loads((tmp_path / name).read_text())["traceEvents"] for name in ("raw.json", "t.json"))
    assert any(event["name"] == "[memory]" for event in raw)
    left_out = [event["name"] for event in raw if event not in kept]
    assert set(left_out) == {"[memory]"}
    assert "Addr" not in (tmp_path / "t.json").read_text()


def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "from overlapscope import record\n"
        "with record(sys.argv[1], steps=1, device='cpu') as recording:\n"
        "    recording.run(lambda: torch.ones(3) + 1)\n"
    )
    target = tmp_path / "t.json.gz"
    environment = {**os.environ, "MY_TOKEN": "hunter2-in-the-environment"}
    command = [sys.executable, "-c", code, str(target), "--password=hunter2-in-argv"]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    text = gzip.decompress(target.read_bytes()).decode()
    machine = [name for name in (platform.node(), str(Path.home()), os.getcwd(), str(tmp_path)) if len(name) > 3]
    user = getpass.getuser()
    for secret in ("hunter2", "MY_TOKEN", *machine, f"/{user}/", f'"{user}"'):
        assert secret not in text


def test_under_another_tool_only_the_stretch_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under nsys: no trace of ours, cudaProfilerStart after the warm-up, cudaProfilerStop after the last step."""
    marks: list[str] = []
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/a/tool.so")
    marks_go_to(marks.append, monkeypatch)
    monkeypatch.setattr("overlapscope.capture.recorder.require_cuda", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    recording = record(tmp_path / "t.json", steps=2, unprofiled=1)
    with pytest.warns(UserWarning, match=r"CUDA_INJECTION64_PATH is set.*t\.json is not written"):
        recording.__enter__()
    recording.run(lambda: marks.append("step"))
    recording.__exit__(None, None, None)
    assert marks == ["step", "step", "step", "start", "step", "step", "stop"]
    assert not recording.saved
    assert list(tmp_path.iterdir()) == []


def test_a_recording_without_a_path_only_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a tool that is around the program, or is not: nothing is written, and what is known is told in marks."""
    told: list[Any] = []
    monkeypatch.chdir(tmp_path)
    for name in profilers.TOOL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    marks_go_to(told.append, monkeypatch)
    monkeypatch.setattr(profilers, "note", lambda calibration: told.append(calibration.unprofiled.count))
    monkeypatch.setattr("overlapscope.capture.recorder.require_cuda", lambda: None)
    monkeypatch.setattr("overlapscope.capture.recorder.devices", list)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with record(None, steps=1, unprofiled=3, calibrate=False) as recording:
        recording.run(lambda: None)
    assert told == ["start", 3, "stop"]
    assert not recording.saved
    assert list(tmp_path.iterdir()) == []


def test_other_tools_than_nsight_systems_are_shown_no_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel profiler would replay each of its kernels."""
    measured: list[str] = []
    for name in profilers.TOOL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    results = {
        "copy_times": (CopyTime("HtoD", "pinned", 1024, 900),),
        "duplex_times": (DuplexTime("HtoD", 600, 640),),
        "pack_times": Packing(start_ns=5),
        "issue_cost": IssueCost(3, 2, 1),
    }
    for name, result in results.items():
        monkeypatch.setattr(
            f"overlapscope.capture.calibrate.{name}",
            lambda *_, name=name, result=result: measured.append(name) or result,
        )
    monkeypatch.setattr("overlapscope.capture.calibrate.post_staging_times", tuple)
    without_gpu(monkeypatch)
    monkeypatch.setenv("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/ncu")
    assert noted(monkeypatch, unprofiled=0).copies == ()
    assert measured == []
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    known = noted(monkeypatch, unprofiled=0)
    assert measured == ["copy_times", "duplex_times", "pack_times", "issue_cost"] == list(results)
    assert [known.copies, known.duplex, known.packing, known.issue_unprofiled] == list(results.values())


def measures(monkeypatch: pytest.MonkeyPatch, *costs: IssueCost) -> None:
    """A machine on which issuing work takes these times, one after the other, and copies some."""
    times, copies = iter(costs), (CopyTime("HtoD", "pinned", 1024, 900),)
    results = {"copy_times": copies, "duplex_times": (), "pack_times": Packing(), "post_staging_times": STAGED}
    for name, result in results.items():
        monkeypatch.setattr(f"overlapscope.capture.calibrate.{name}", lambda *_, result=result: result)
    monkeypatch.setattr("overlapscope.capture.calibrate.issue_cost", lambda: next(times))
    without_gpu(monkeypatch)


STAGED = (PostStaging(1024, (3,), (2,)),)


def test_of_two_times_to_issue_work_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once while something else had the processor, before the steps or after them."""
    monkeypatch.setattr(profilers.TorchProfiler, "used", False)
    measures(monkeypatch, IssueCost(9, 3, 2), IssueCost(6, 4))
    assert noted(monkeypatch).issue_unprofiled == IssueCost(kernel_ns=6, copy_ns=3, call_ns=2)
    assert noted(monkeypatch, calibrate=False).issue_unprofiled is None, "nothing is timed where nothing was"


@pytest.mark.parametrize("path", ["t.json", None])
def test_issuing_after_staging_is_timed_whoever_records(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issuing under the profiler is not, where the profiler is another tool."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("overlapscope.capture.recorder.TorchProfiler", OnHost)
    monkeypatch.setattr(profilers.TorchProfiler, "used", True)
    measures(monkeypatch, IssueCost(3))
    known = noted(monkeypatch, path, unprofiled=0)
    assert known.post_staging == STAGED
    assert known.issue_profiled == (IssueCost(3) if path else None)


def test_issuing_is_timed_after_others_like_it_and_after_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of nine operators takes 10 ns, and 3 more in the first round after a copy that takes a second."""
    now, cold = [0], [False]

    def operator() -> None:
        now[0] += 13 if cold[0] else 10

    def copy() -> None:
        now[0] += 10**9
        cold[0] = True

    def last() -> None:
        operator()
        cold[0] = False

    monkeypatch.setattr(calibrate.time, "perf_counter_ns", lambda: now[0])
    assert after_staging(1024, [*[operator] * 8, last], copy) == PostStaging(
        size_bytes=1024, issue_ns=(2 * 13, 4 * 13, 8 * 13, 9 * 13), usual_ns=(20, 40, 80, 90)
    )


def test_packing_is_timed_by_the_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "registered", nullcontext)
    found = pack_times()
    assert [piece.size_bytes for piece in found.pieces] == list(PIECE_BYTES)
    assert all(min(astuple(piece)) > 0 for piece in found.pieces)
    assert found.pieces[-1].pack_ns > found.pieces[0].pack_ns
    assert found.start_ns is not None
    assert found.start_ns >= 0
    assert found.view_ns is not None
    assert found.view_ns > 0


@pytest.mark.parametrize("version", [None, "0.0"])
def test_without_the_runtime_library_no_call_is_timed(version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", version)
    assert copy_call_ns(torch.ones(4), torch.ones(4)) is None


def test_an_nsight_systems_trace_carries_what_its_program_noted() -> None:
    """Recorded on an H200: ``pinning_guide --variant list-to --bracket`` under nsys."""
    metadata = open_trace(DATA / "calibrated.sqlite.gz").metadata
    recording = metadata.recording
    assert recording is not None
    assert recording.recorded is not None
    assert recording.unprofiled is not None
    assert (recording.recorded.count, recording.unprofiled.count) == (1, 5)
    assert {(copy.direction, copy.host_memory) for copy in recording.copies} == {
        (direction, memory) for direction in ("HtoD", "DtoH") for memory in ("pageable", "pinned")
    }
    assert [piece.size_bytes for piece in recording.packing.pieces] == [1 << shift for shift in (10, 14, 16, 18, 22)]
    assert (metadata.devices[0].pcie_generation, metadata.devices[0].pcie_width) == (5, 16)


def test_without_such_a_tool_none_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in profilers.TOOL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert profilers.outside_tool() is None


def test_errors_of_recording_are_documented_ones() -> None:
    assert issubclass(CaptureError, OverlapscopeError)


def test_nvtx_ranges_of_the_block_are_recorded(tmp_path: Path) -> None:
    nvtx.push_range("open before")
    with record(tmp_path / "t.json", device="cpu"), nvtx.annotate("inside"):
        nvtx.push_range("pushed")
        nvtx.pop_range()
    with nvtx.annotate("after"):
        pass
    nvtx.pop_range()
    assert named(tmp_path / "t.json") == ["ProfilerStep#1", "inside", "pushed"]


def test_a_range_around_the_last_step_ends_with_it(tmp_path: Path) -> None:
    """Else the time in which the profiler collects its events would be a part of it."""
    with record(tmp_path / "t.json", steps=1, unprofiled=0, device="cpu") as recording:
        recording.step()
        with annotate("around"):
            recording.step()
    ranges = open_trace(tmp_path / "t.json").ranges
    assert named(tmp_path / "t.json") == ["ProfilerStep#1", "around"]
    assert len(set(ranges.end_ns.tolist())) == 1


def test_what_is_recorded_may_begin_again(tmp_path: Path) -> None:
    with record(tmp_path / "t.json", unprofiled=0, device="cpu") as recording:
        for number in range(6):
            if number == 2:
                recording.restart(2)
            with annotate(f"work {number}"):
                pass
            recording.step()
    assert [name for name in named(tmp_path / "t.json") if "work" in name] == ["work 3", "work 4"]
    assert recording.recorded_steps == 2


def test_a_recording_may_end_before_its_block(tmp_path: Path) -> None:
    with record(tmp_path / "t.json", device="cpu") as recording:
        with annotate("inside"):
            pass
        recording.end()
        assert recording.saved
        with annotate("after"):
            pass
        recording.restart()
    assert named(tmp_path / "t.json") == ["ProfilerStep#1", "inside"]
