"""The rule OVL000, insufficient-data."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

from overlapscope import open_trace
from overlapscope.analysis.analysis import diagnose
from tests import kineto_maker as make
from tests.conftest import CASES
from tests.notation import trace_of
from tests.rules import KINETO, NSYS, RuleTests, codes, program, top, without


class TestOvl000(RuleTests):
    code = "OVL000"
    reports = (program(make.call(0, 1), make.kernel(5, 5), make.kernel(100, 5)),)
    silent = ("one_stream", "prefetched")


def test_copies_that_go_nobody_knows_where_are_no_work_of_the_device(tmp_path: Path) -> None:
    found = without(
        tmp_path,
        CASES / f"one_stream.{KINETO}",
        lambda event: event | {"name": "Memcpy"} if event.get("cat") == "gpu_memcpy" else event,
    )
    assert top(found) == "OVL000"


def test_graphs_traced_whole_leave_nothing_to_be_said(tmp_path: Path) -> None:
    """Kernels in graphs are not in the file, so that time without a kernel may be none."""
    path = tmp_path / "t.sqlite"
    path.write_bytes(gzip.decompress((CASES / f"one_stream.{NSYS}").read_bytes()))
    with sqlite3.connect(path) as file:
        file.execute("create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start int, end int, deviceId int, graphId int)")
        file.execute("insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (1, 2, 0, 1)")
    found = diagnose(open_trace(path), "pass")
    assert found.trace.health.has("whole-graph-trace")
    assert codes(found) == {"OVL000"}
    assert "whole" in found.findings[0].message


def test_of_a_wait_that_is_not_recorded_the_call_is_named_that_waited_too(tmp_path: Path) -> None:
    """A kernel starts 50 ms after its launch, and nothing says why; a copy of its result blocks the host meanwhile."""
    found = program(
        make.call(0, 5, correlation=1),
        make.kernel(8, 100, correlation=1),
        make.call(200, 5, correlation=2),
        make.call(210, 50_100, name="cudaMemcpyAsync", correlation=3),
        make.kernel(50_200, 50, correlation=2),
        make.copy(50_260, 20, kinds="DtoH (Device -> Pageable)", size=4, correlation=3),
    )(tmp_path)
    (finding,) = (each for each in found.findings if each.code == "OVL000")
    assert "Meanwhile the host was blocked for 50 ms in 1 call of cudaMemcpyAsync (DtoH)" in finding.message


def test_what_rocm_does_not_record_is_not_asked_for(tmp_path: Path) -> None:
    """A wait that CUDA would record is missing: on CUDA a new recording is advised, on ROCm the program is."""
    for launch, copying, advised in (
        ("cudaLaunchKernel", "cudaMemcpyAsync", True),
        ("hipLaunchKernel", "hipMemcpyAsync", False),
    ):
        found = program(
            make.call(0, 5, name=launch, correlation=1),
            make.kernel(8, 100, correlation=1),
            make.call(200, 5, name=launch, correlation=2),
            make.call(210, 50_100, name=copying, correlation=3),
            make.kernel(50_200, 50, correlation=2),
            make.copy(50_260, 20, kinds="DtoH (Device -> Pageable)", size=4, correlation=3),
        )(tmp_path)
        (finding,) = (each for each in found.findings if each.code == "OVL000")
        assert ("overlapscope.record" in finding.fix) == advised
        assert ("recording" in finding.confirm_with) == advised
        assert str(finding.confidence) == "low"


def test_kernels_that_torch_does_not_launch_are_for_nsight_systems(tmp_path: Path) -> None:
    """JAX under torch's profiler: kernels, and neither calls nor operators; with operators a recording helps."""
    kernels = [make.kernel(1000 * number, 100) for number in range(6)]
    for events, tool in (
        (kernels, "nsys profile"),
        ([*kernels, make.cpu_op("aten::mm", 0, 9)], "overlapscope.record"),
    ):
        (finding,) = (each for each in diagnose(trace_of(tmp_path, *events)).findings if each.code == "OVL000")
        assert tool in finding.fix
