"""annotate as an NVTX tool hears it: a real one, compiled here and loaded by the NVTX code of each program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from overlapscope.calibration.data import from_marks, to_json
from overlapscope.calibration.schema import Calibration, CopyTime

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests" / "nvtx_listener.c"

Nesting = list[Any]
"""Ranges side by side, each as ``[name, *ranges inside]``."""


class Event(NamedTuple):
    """A line of the listener's log."""

    kind: str
    domain: str
    thread: int
    message: str | None
    color: str | None


Listen = Callable[..., list[Event]]


@pytest.fixture(scope="session")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.fail("there is no C compiler: the NVTX tests compile a listener and need cc or gcc on the PATH")
    library = tmp_path_factory.mktemp("nvtx") / "listener.so"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", SOURCE, "-o", library]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return library


@pytest.fixture
def listen(listener: Path, tmp_path: Path) -> Listen:
    """Run ``python *arguments`` and return what it said in our domain; other libraries may have domains too."""

    def run(*arguments: str | Path, library: Path | None = listener) -> list[Event]:
        log = tmp_path / "nvtx.jsonl"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NVTX_")}
        injection = {} if library is None else {"NVTX_INJECTION64_PATH": str(library)}
        environment = {**inherited, **injection, "NVTX_LISTENER_LOG": str(log), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, *arguments]
        result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        if library is None:
            assert not log.exists()
            return []
        events = [Event(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]
        return [event for event in events if event.domain == "overlapscope"]

    return run


def program(text: str, first: str = "") -> tuple[str, str]:
    return "-c", f"{first}\nfrom overlapscope import annotate\n{dedent(text)}"


def nesting_by_thread(events: list[Event]) -> dict[int, Nesting]:
    """What each thread pushed and popped; whatever is pushed must be popped, and nothing else may be said."""
    assert [event.kind for event in events[:1]] == ["domain"], "nothing was said in the domain"
    stacks: dict[int, list[Nesting]] = {}
    for event in events[1:]:
        stack = stacks.setdefault(event.thread, [[]])
        if event.kind == "push":
            stack[-1].append([event.message])
            stack.append(stack[-1][-1])
        else:
            assert event.kind == "pop"
            assert len(stack) > 1, "popped without a push"
            stack.pop()
    assert all(len(stack) == 1 for stack in stacks.values()), "a range was left open"
    return {thread: stack[0] for thread, stack in stacks.items()}


def nesting(events: list[Event]) -> Nesting:
    [only_thread] = nesting_by_thread(events).values()
    return only_thread


def nesting_in_trace(path: Path) -> dict[int, Nesting]:
    """The same of a Kineto trace's annotations, by their times."""
    stacks: dict[int, list[tuple[float, Nesting]]] = {}
    trace = json.loads(path.read_text(encoding="utf-8"))
    annotations = [event for event in trace["traceEvents"] if event.get("cat") == "user_annotation"]
    for event in sorted(annotations, key=lambda event: (event["ts"], -event["dur"])):
        stack = stacks.setdefault(event["tid"], [(inf, [])])
        while stack[-1][0] <= event["ts"]:
            stack.pop()
        inside = [event["name"]]
        stack[-1][1].append(inside)
        end = event["ts"] + event["dur"]
        assert end <= stack[-1][0], "ranges cross"
        stack.append((end, inside))
    return {thread: stack[0][1] for thread, stack in stacks.items()}


def test_ranges_nest_as_the_code_does_in_the_colours_asked_for(listen: Listen) -> None:
    events = listen(
        *program("""
            @annotate("step", color="green")
            def step():
                with annotate("load", color="orange"):
                    pass
                with annotate("compute"):
                    pass

            with annotate("epoch", color=0xFF123456):
                step()
                step()
        """)
    )
    step = ["step", ["load"], ["compute"]]
    assert nesting(events) == [["epoch", step, step]]
    colors = {event.message: event.color for event in events if event.kind == "push"}
    assert colors == {"epoch": "ff123456", "step": "ff008000", "load": "ffffa500", "compute": "ff0000ff"}


def test_nvtx_and_the_torch_profiler_tell_the_same(listen: Listen, tmp_path: Path) -> None:
    text = """
        import sys
        import torch

        @annotate("recursive")
        def descend(depth):
            if depth:
                descend(depth - 1)
                descend(depth - 1)

        with torch.profiler.profile() as profiler:
            with annotate("outer"):
                descend(2)
                with annotate("matmul"):
                    torch.mm(torch.ones(8, 8), torch.ones(8, 8))
            try:
                with annotate("fails"), annotate("inside"):
                    raise ValueError
            except ValueError:
                descend(0)
        profiler.export_chrome_trace(sys.argv[1])
    """
    heard = nesting_by_thread(listen(*program(text), tmp_path / "trace.json"))
    leaf = ["recursive"]
    branch = ["recursive", leaf, leaf]
    outer = ["outer", ["recursive", branch, branch], ["matmul"]]
    assert list(heard.values()) == [[outer, ["fails", ["inside"]], leaf]]
    assert nesting_in_trace(tmp_path / "trace.json") == heard


def test_without_torch_nvtx_alone_is_told(listen: Listen) -> None:
    events = listen(*program("with annotate('alone'): pass", first="import sys; sys.modules['torch'] = None"))
    assert nesting(events) == [["alone"]]


def test_annotating_imports_no_torch(listen: Listen) -> None:
    listen(*program("import sys\nwith annotate('x'): pass\nassert 'torch' not in sys.modules"))


def test_an_error_closes_the_ranges_it_leaves(listen: Listen) -> None:
    events = listen(
        *program("""
            @annotate("decorated")
            def fail():
                with annotate("inside"):
                    raise ValueError

            try:
                with annotate("outer"):
                    fail()
            except ValueError:
                with annotate("after"):
                    pass
        """)
    )
    assert nesting(events) == [["outer", ["decorated", ["inside"]]], ["after"]]


def test_threads_balance_each_on_its_own(listen: Listen) -> None:
    events = listen(
        *program("""
            from threading import Barrier, Thread

            together, shared = Barrier(2), annotate("shared")

            @annotate("recursive")
            def descend(depth):
                together.wait()
                if depth:
                    descend(depth - 1)

            def work(name):
                with annotate(name), shared:
                    descend(2)

            threads = [Thread(target=work, args=(name,)) for name in ("first", "second")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """)
    )
    inside = ["shared", ["recursive", ["recursive", ["recursive"]]]]
    assert sorted(nesting_by_thread(events).values()) == [[["first", inside]], [["second", inside]]]
    kinds = [event.kind for event in events[1:]]
    assert kinds == ["push"] * 10 + ["pop"] * 10, "the threads were to be in their ranges at once"


def test_without_a_tool_the_program_runs_and_nothing_is_told(listen: Listen, tmp_path: Path) -> None:
    text = """
        import sys
        from pathlib import Path

        @annotate("step", color="green")
        def step():
            with annotate("load"):
                return "done"

        Path(sys.argv[1]).write_text(step())
    """
    assert listen(*program(text), tmp_path / "result", library=None) == []
    assert (tmp_path / "result").read_text() == "done"
    assert nesting(listen(*program(text), tmp_path / "result")) == [["step", ["load"]]]


def test_names_arrive_as_utf8(listen: Listen) -> None:
    # In NVTX only: torch 2.13 writes "unknown" for such a name, and a trace that is no JSON for one with a quote.
    events = listen(*program("with annotate('Übergabe → GPU 🚚 \"quoted\"'): pass"))
    assert nesting(events) == [['Übergabe → GPU 🚚 "quoted"']]


def test_the_workload_names_its_passes_rounds_copies_and_products(listen: Listen) -> None:
    events = listen("-m", "overlapscope.workloads.gemm_copy", "--device", "cpu", "--repeats", "1")
    warmup, repeats, rounds = 3, 1, 6
    one_pass = ["gemm_copy", *[["round", ["copy"], ["matmul"]]] * rounds]
    assert nesting(events) == [one_pass] * (warmup + repeats)
    colors = {event.message: event.color for event in events if event.kind == "push"}
    assert (colors["copy"], colors["matmul"]) == ("ffffa500", "ff008000")


def test_a_calibration_is_told_in_marks_and_put_together_again(listen: Listen) -> None:
    calibration = Calibration({"torch": '2.11 "quoted" é'}, copies=(CopyTime("HtoD", "pinned", 1, 1),) * 20)
    about = to_json(calibration)
    names = "from overlapscope.calibration.schema import Calibration, CopyTime, Packing"
    events = listen("-c", f"{names}\nfrom overlapscope.capture.profilers import note\nnote({calibration!r})")
    marks = [event.message or "" for event in events if event.kind == "mark"]
    assert len(marks) > 1
    assert from_marks(marks) == from_marks(reversed(marks)) == about
    assert from_marks([*marks, *(mark.replace("schema", "other") for mark in marks)]) == about, "the first process's"
    assert from_marks(marks[1:]) is None
    assert from_marks([*marks[:-1], marks[-1] + "}"]) is None
    assert from_marks(["a mark of somebody else"]) is None
