"""annotate, the scrubber, and the workload, all without a GPU."""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from overlapscope.capture.annotate import annotate
from overlapscope.capture.recorder import record_pass
from overlapscope.capture.scrub import scrub_kineto, scrub_nsys
from overlapscope.errors import CaptureError
from overlapscope.read.opening import open_trace
from overlapscope.workloads.gemm_copy import Sizes, app, build, measure, variants
from tests import kineto_maker as make
from tests import nsys_maker

SMALL = Sizes(rounds=2, matmuls=1, width=8, copy_mib=1)


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

    for function in (coroutine, generator):
        with pytest.raises(TypeError, match="with annotate"):
            annotate("x")(function)


def test_one_annotation_serves_several_threads() -> None:
    shared, barrier = annotate("shared"), threading.Barrier(2)

    def work() -> None:
        with shared:
            barrier.wait()
            assert len(shared._stack()) == 1

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work) for _ in range(2)]:
            future.result()


def test_without_nvtx_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(CaptureError, match="capture"), annotate("x"):
        pass


def test_sixteen_variants_with_names_of_their_own() -> None:
    assert len({variant.name for variant in variants()}) == 16


@pytest.mark.parametrize("variant", list(variants()), ids=lambda variant: variant.name)
def test_every_variant_runs_without_a_gpu(variant, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    one_pass = build(variant, SMALL, "cpu")
    with torch.profiler.profile() as profiler:
        one_pass()
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    names = profiled_names(tmp_path / "t.json")
    assert [names.count(name) for name in ("gemm_copy", "round", "copy", "matmul")] == [1, 2, 2, 2]
    first = names.index("copy") < names.index("matmul")
    assert first == (variant.order == "copy-first")


def test_measure_counts_only_what_it_says() -> None:
    calls = []
    figures = measure(lambda: calls.append(1), repeats=4, warmup=2)
    assert len(calls) == 6
    assert figures["repeats"] == 4
    assert figures["min_ms"] <= figures["median_ms"] <= figures["max_ms"]


def test_the_command_prints_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--device", "cpu", "--repeats", "2"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["variant"] == "pageable-copy-first-non-blocking-side"


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_clear_sentence_without_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no CUDA device"):
        record_pass(lambda: None, tmp_path / "t.json")
    result = CliRunner().invoke(app, ["--repeats", "1"])
    assert result.exit_code == 2
    assert "no CUDA device" in result.stderr


def test_scrubbing_kineto_keeps_events_and_drops_the_rest(tmp_path: Path) -> None:
    source = make.write(tmp_path / "in.json", make.kernel(5, 5), host_name="secret", environment={"TOKEN": "secret"})
    scrub_kineto(source, tmp_path / "out.json.gz")
    assert b"secret" not in gzip.decompress((tmp_path / "out.json.gz").read_bytes())
    assert len(open_trace(tmp_path / "out.json.gz").kernels) == 1


def test_scrubbing_nsys_keeps_what_is_read_and_drops_the_rest(tmp_path: Path) -> None:
    source = nsys_maker.write(
        tmp_path / "in.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(5, 9, demangledName=3)],
            "TARGET_INFO_SYSTEM_ENV": [{"name": "TOKEN", "value": "secret"}],
            "META_DATA_EXPORT": [
                {"name": "EXPORT_USER", "value": "secret"},
                {"name": "EXPORT_PRODUCT_VERSION", "value": "1.2"},
            ],
            "TARGET_INFO_GPU": [{"id": 0, "name": "Test GPU", "uuid": "secret"}],
        },
        {3: "gemm", 4: "secret"},
    )
    scrub_nsys(source, tmp_path / "out.sqlite.gz")
    data = gzip.decompress((tmp_path / "out.sqlite.gz").read_bytes())
    assert b"secret" not in data
    trace = open_trace(tmp_path / "out.sqlite.gz")
    assert trace.names.decode(trace.kernels.name_id) == ["gemm"]
    assert trace.metadata.tool == "Nsight Systems 1.2"
    with sqlite3.connect(source) as untouched:
        assert untouched.execute("SELECT COUNT(*) FROM TARGET_INFO_SYSTEM_ENV").fetchone() == (1,)
    untouched.close()
