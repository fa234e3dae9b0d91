"""Names of torch modules in recordings, and in the places of what is found."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from overlapscope.calibration.schema import MODULE
from overlapscope.capture.modules import watch_modules
from overlapscope.capture.recorder import record
from overlapscope.diagnosis.places import Moments, places
from overlapscope.read.opening import open_trace
from tests import kineto_maker as make


class Mlp(nn.Module):
    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.fails = fails

    def forward(self, x: Tensor) -> Tensor:
        if self.fails:
            raise ValueError("no")
        return self.first(x).relu()  # type: ignore[no-any-return]


class Net(nn.Module):
    def __init__(self, **settings: bool) -> None:
        super().__init__()
        self.h = nn.ModuleList([Mlp(**settings) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for each in self.h:
            x = each(x)
        return x


IN_NET = ["Net", "h.0", "h.0.first", "h.1", "h.1.first"]
X = torch.ones(1, 2)


class Range:
    """A range that notes its name while it is open."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name.removeprefix(MODULE), log

    def __enter__(self) -> None:
        self.log.append(self.name)

    def __exit__(self, *_: object) -> None:
        self.log.append(f"-{self.name}")


def called(work: Callable[[], object]) -> list[str]:
    log: list[str] = []
    with watch_modules(lambda name: Range(name, log)):
        work()
    return log


def begun(work: Callable[[], object]) -> list[str]:
    return [name for name in called(work) if not name.startswith("-")]


def test_modules_have_the_names_that_the_outermost_has_for_them() -> None:
    net, loss = Net(), nn.MSELoss()
    assert begun(lambda: loss(net(X), X)) == [*IN_NET, "MSELoss"]
    assert begun(lambda: net.h[1](X)) == ["Mlp", "first"]
    assert begun(lambda: net(X)) == IN_NET


def test_ranges_close_in_the_reverse_order_also_on_errors() -> None:
    def work() -> None:
        with pytest.raises(ValueError, match="no"):
            Net(fails=True)(X)
        Mlp()(X)

    assert called(work) == ["Net", "h.0", "-h.0", "-Net", "Mlp", "first", "-first", "-Mlp"]


def test_what_torch_wraps_around_modules_is_no_part_of_a_name() -> None:
    net = Net()
    net.h[0] = checkpoint_wrapper(net.h[0])
    assert begun(lambda: net(X)) == ["Net", "h.0", *IN_NET[1:]]


def test_a_compiled_module_has_no_ranges_inside_and_is_compiled_once() -> None:
    compiled = torch.compile(Net(), backend="eager", fullgraph=True)
    torch._dynamo.utils.counters.clear()
    before = compiled(X)
    assert "h.0" not in begun(lambda: torch.testing.assert_close(compiled(X), before))
    compiled(X)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@torch.no_grad()
def test_a_module_can_be_compiled_meanwhile() -> None:
    torch._dynamo.utils.counters.clear()
    compiled, inside = torch.compile(Net(), backend="eager", fullgraph=True), Net()
    inside.h[1].compile(backend="eager", fullgraph=True)  # type: ignore[operator]
    assert "h.0" not in begun(lambda: compiled(X))
    assert begun(lambda: inside(X)) == ["Net", "h.0", "h.0.first", "h.1"]
    compiled(X)
    inside(X)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


def test_a_module_that_takes_another_s_place_has_a_name_of_its_own() -> None:
    net = Net()
    assert begun(lambda: net(X)) == IN_NET
    net.h[0] = copy.deepcopy(nn.Identity())
    with_names = begun(lambda: net(X))
    assert with_names == ["Net", "h.0", "h.1", "h.1.first"]


def test_threads_have_outermost_modules_of_their_own() -> None:
    net, inside, log = Net(), threading.Barrier(2), []

    class Waits(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            inside.wait()
            inside.wait()
            return x

    def work() -> None:
        thread = threading.Thread(target=lambda: Waits()(X))
        thread.start()
        inside.wait()
        log.extend(begun(lambda: net(X)))
        inside.wait()
        thread.join()

    called(work)
    assert log == IN_NET


def test_modules_are_left_as_they_were() -> None:
    before = nn.Module.__call__
    begun(lambda: Net()(X))
    assert nn.Module.__call__ is before


@pytest.mark.parametrize("modules", [True, False])
def test_recordings_have_modules_in_a_table_of_their_own(tmp_path: Path, modules: bool) -> None:
    net = Net()
    with record(tmp_path / "t.json", device="cpu", modules=modules), torch.profiler.record_function("step"):
        net(X)
    net(X)
    trace = open_trace(tmp_path / "t.json")
    assert trace.names.decode(trace.modules.name_id) == (IN_NET if modules else [])
    assert trace.names.decode(trace.ranges.name_id) == ["ProfilerStep#1", "step"]
    assert not any(name.startswith(MODULE) for name in trace.names.decode(trace.cpu_ops.name_id))
    assert (np.diff(trace.modules.start_ns) > 0).all()


def test_only_what_is_recorded_costs_the_ranges_of_modules(tmp_path: Path) -> None:
    patched = []
    plain = nn.Module.__call__
    with record(tmp_path / "t.json", steps=1, warmup=1, unprofiled=1, device="cpu") as recording:
        for _ in range(5):
            patched.append(nn.Module.__call__ is not plain)
            recording.step()
    assert patched == [False, False, True, True, False]


def paths(path: Path, *times_us: float) -> list[str | None]:
    trace = open_trace(path)
    moments = np.array([round(1000 * each) for each in times_us], np.int64)
    same = np.full(len(moments), trace.modules.process[0]), np.full(len(moments), trace.modules.thread[0])
    nothing = np.full(len(moments), -1, np.int64)
    return [
        place.range for place in places(trace, Moments(*same, moments, np.zeros_like(moments), nothing, nothing), 0)
    ]


def test_a_place_is_the_path_of_ranges_and_the_innermost_module(tmp_path: Path) -> None:
    step, attention = (
        make.cpu_op("x", *times) | {"cat": "user_annotation", "name": name}
        for name, times in (
            ("step", (0, 100)),
            ("attention", (25, 5)),
        )
    )
    modules = [
        make.cpu_op(f"{MODULE}{name}", *times)
        for name, times in (
            ("Net", (10, 80)),
            ("h.3", (20, 60)),
            ("h.3.mlp", (40, 10)),
            ("h.3.act", (26, 2)),
        )
    ]
    path = make.write(tmp_path / "t.json", step, attention, *modules)
    assert paths(path, 5, 15, 22, 25.5, 27, 45, 85) == [
        "step",
        "step / Net",
        "step / h.3",
        "step / h.3 / attention",
        "step / attention / h.3.act",
        "step / h.3.mlp",
        "step / Net",
    ]


def test_ranges_that_cross_are_not_around_each_other(tmp_path: Path) -> None:
    """As where a step ends with its optimizer, inside a range of the program."""
    ranges = [
        make.cpu_op("x", *times) | {"cat": "user_annotation", "name": name}
        for name, times in (
            ("ProfilerStep#1", (0, 90)),
            ("step", (10, 90)),
            ("ProfilerStep#2", (90, 100)),
            ("step", (110, 90)),
            ("epoch", (205, 100)),
            ("last", (210, 96)),
        )
    ]
    path = make.write(tmp_path / "t.json", *ranges, make.cpu_op(f"{MODULE}mlp", 120, 10))
    assert paths(path, 5, 50, 95, 105, 115, 125, 195, 220) == [
        "ProfilerStep#1",
        "step",
        "ProfilerStep#2",
        "ProfilerStep#2",
        "step",
        "step / mlp",
        "step",
        "epoch / last",
    ]


def test_names_of_modules_are_scrubbed(tmp_path: Path) -> None:
    from overlapscope.scrub.kineto import scrub_kineto
    from overlapscope.scrub.texts import Hiding

    path = make.write(tmp_path / "t.json", make.cpu_op(f"{MODULE}secret.mlp", 0, 5))
    scrub_kineto(path, tmp_path / "clean.json", Hiding.of(["secret"]))
    trace = open_trace(tmp_path / "clean.json")
    assert trace.names.decode(trace.modules.name_id) == ["***.mlp"]
    assert "secret" not in json.dumps((tmp_path / "clean.json").read_text())
