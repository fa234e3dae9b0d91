"""annotate as torch's profiler hears it; test_nvtx.py has what NVTX hears."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import sleep
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from overlapscope.capture.annotate import annotate
from overlapscope.errors import CaptureError
from overlapscope.read.opening import open_trace


def profiled_names(path: Path) -> list[str]:
    return [
        event["name"] for event in json.loads(path.read_text())["traceEvents"] if event.get("cat") == "user_annotation"
    ]


def test_annotate_reaches_the_torch_profiler(tmp_path: Path) -> None:
    @annotate("decorated")
    def work(depth: int) -> None:
        if depth:
            work(depth - 1)

    with torch.profiler.profile() as profiler, annotate("outer"):
        work(2)
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    assert profiled_names(tmp_path / "t.json") == ["outer", "decorated", "decorated", "decorated"]


def test_annotate_closes_its_range_on_errors(tmp_path: Path) -> None:
    with torch.profiler.profile() as profiler:
        with pytest.raises(ZeroDivisionError), annotate("fails"):
            _ = 1 / 0
        with annotate("after"):
            pass
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    ranges = open_trace(tmp_path / "t.json").ranges
    assert ranges.end_ns[0] <= ranges.start_ns[1]


def test_annotate_refuses_what_leaves_its_range_open() -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    async def both() -> AsyncIterator[int]:
        yield 1

    class Callable:
        async def __call__(self) -> None: ...

    for function in (coroutine, generator, both, Callable(), partial(generator)):
        with pytest.raises(TypeError, match="open while other code runs"):
            annotate("x")(function)


def test_one_annotation_serves_several_threads() -> None:
    """Each closes the range that it has opened itself, and no other."""
    shared, barrier = annotate("shared"), threading.Barrier(2)

    def work() -> None:
        with shared:
            barrier.wait()

    def leave() -> None:
        with pytest.raises(RuntimeError, match="not opened on this thread"):
            shared.__exit__(None, None, None)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work) for _ in range(2)]:
            future.result()
        with shared:
            pool.submit(leave).result()


def test_without_nvtx_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(CaptureError, match="pip install nvtx"), annotate("x"):
        pass


def test_while_another_thread_imports_torch_there_is_only_nvtx(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.profiler.profile() as profile:
        with annotate("after"):
            pass
        with monkeypatch.context() as importing:
            importing.setitem(sys.modules, "torch", ModuleType("torch"))  # as far as the import has come
            with annotate("meanwhile"):
                pass
    assert {"after", "meanwhile"} & {event.name for event in profile.events()} == {"after"}


def test_leaving_a_range_that_this_thread_did_not_open_is_said() -> None:
    with pytest.raises(RuntimeError, match="not opened on this thread"):
        annotate("x").__exit__(None, None, None)


def test_an_annotation_can_be_copied() -> None:
    assert copy.deepcopy(annotate("x", color="red")).name == "x"


def test_a_colour_that_there_is_not_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no colour 'mauve'; there are blue"):
        annotate("x", color="mauve")


def test_bare_decoration_is_refused() -> None:
    with pytest.raises(TypeError, match="annotate takes a name"):
        annotate(lambda: None)  # type: ignore[arg-type]


def test_any_name_leaves_the_trace_readable(tmp_path: Path) -> None:
    with torch.profiler.profile() as profiler, annotate('say "über"\\\n'):
        pass
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    assert profiled_names(tmp_path / "t.json") == ["say '?ber'/?"]


def test_threads_that_open_their_first_ranges_at_once_share_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nvtx package makes it with the first range, and is asked for one range at a time."""
    inside: list[str] = []

    def first_range(message: str, **_: Any) -> Any:
        inside.append(message)
        sleep(0.01)
        assert inside == [message]
        inside.pop()
        return contextlib.nullcontext()

    def work(number: int) -> None:
        with annotate(f"first range {number}"):
            pass

    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(annotate=first_range))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
