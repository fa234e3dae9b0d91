"""Fixes fit the place that a finding names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from overlapscope import diagnose, open_trace
from overlapscope.calibration.schema import MODULE, Calibration, Loader
from overlapscope.diagnosis.catalogue import RULES, rule
from overlapscope.diagnosis.finding import Place
from overlapscope.diagnosis.rule import Report, Rule
from tests import kineto_maker as make
from tests import nsys_maker
from tests.notation import trace_of


def place(op: str | None = None, api: str | None = None, around: str | None = None) -> Place:
    return Place(around, None, op, api, 1, 1, 0, 7)


@pytest.mark.parametrize(
    ("code", "where", "words"),
    [
        ("OVL005", place("aten::nonzero", "cudaMemcpyAsync"), "torch.where(mask"),
        ("OVL005", place("aten::_local_scalar_dense", "cudaMemcpyAsync"), "total.item() once"),
        ("OVL005", place("aten::_to_copy", "cudaMemcpyAsync"), "instead of value.cpu()"),
        ("OVL005", place(None, "cudaMemcpyFromSymbol"), "cudaMemcpyAsync to pinned"),
        ("OVL004", place("aten::index", "cudaStreamSynchronize"), "torch.where(mask"),
        ("OVL004", place(None, "cudaDeviceSynchronize"), "no torch.cuda.synchronize()"),
        ("OVL004", place("aten::copy_", "cudaStreamSynchronize"), "non_blocking=True"),
        ("OVL009", place("aten::cudnn_convolution", "cudaFree"), "cudnn.benchmark"),
        ("OVL009", place("aten::empty", "cudaMalloc"), "expandable_segments"),
        ("OVL009", place(None, "cudaMalloc"), "cudaMallocAsync"),
        ("OVL018", place("aten::pin_memory", "cudaHostAlloc"), "pin_memory=True"),
        ("OVL018", place("aten::empty", "cudaHostAlloc"), "reuse it when"),
        ("OVL018", place(None, "cudaHostRegister"), "all of it, once"),
        ("OVL001", place("aten::copy_", "cudaMemcpyAsync", "forward / load expert 3"), "weight.pin_memory()"),
        ("OVL001", place("aten::copy_", "cudaMemcpyAsync", "train_step"), "tensor.pin_memory()"),
    ],
)
def test_the_fix_of_a_rule_fits_the_place(code: str, where: Place, words: str) -> None:
    assert words in rule(code).fix_for(where)


def test_a_rule_has_a_fix_for_any_place() -> None:
    assert all(entry.fix_for(place()) for entry in RULES)


@pytest.mark.parametrize("entry", [each for each in RULES if each.code < "OVL100"], ids=lambda each: each.code)
def test_a_program_without_pytorch_gets_no_pytorch(entry: Rule) -> None:
    """For any place, and whatever a report says for PyTorch."""
    report = Report("found", {}, fix="loss.item()")
    for where in (place(), place("aten::copy_", "cudaMemcpyAsync", "load weight")):
        fix = entry.fix_of(report, where, pytorch=False)
        assert not re.search(r"torch|\.py\b|item\(\)|non_blocking|DataLoader|with_stack|batch", fix)
    assert entry.fix_of(report, place(), pytorch=True) == "loss.item()"


def test_kinds_of_a_late_host_have_cuda_fixes(tmp_path: Path) -> None:
    """A CUDA C++ program, by Nsight Systems: no name of PyTorch in it; the host makes no call for 5 ms in each step."""
    calls = [nsys_maker.call(10_000_000 * n, 10_000_000 * n + 5_000, 2, correlation=n) for n in range(1, 9)]
    kernels = [nsys_maker.work(10_000_000 * n + 8_000, 10_000_000 * n + 5_000_000, correlation=n) for n in range(1, 9)]
    tables = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": [row | {"shortName": 3} for row in kernels],
    }
    strings = {2: "cudaLaunchKernel_v7000", 3: "saxpy"}
    trace = open_trace(nsys_maker.write(tmp_path / "t.sqlite", tables, strings))
    (finding,) = diagnose(trace).findings
    assert finding.kind == "not-recorded"
    assert finding.fix.startswith("nsys profile")
    assert "overlapscope.record" not in finding.confirm_with


@pytest.mark.parametrize(
    ("name", "kernel", "words"),
    [
        ("DistributedDataParallel.forward", "AllReduce", "bucket_cap_mb"),
        ("FSDP::all_gather", "AllGather", "fully_shard"),
        ("DistributedDataParallel.forward", "SendRecv", "async_op=True"),
        ("model.forward", "AllReduce", "async_op=True"),
        ("DistributedDataParallel.forward", "OneShot", "async_op=True"),
        ("MulBackward0", "AllReduce", "DistributedDataParallel(model)"),
    ],
)
def test_a_collective_s_fix_knows_how_the_program_is_parallel(
    name: str, kernel: str, words: str, tmp_path: Path
) -> None:
    """DDP is not advised to who has it, nor to who does not train; where the kind is not known, what fits all is."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: op {name} 0-30 | launch gemm 31-35 -> stream 7: 40-100
                  launch ncclDevKernel_{kernel} 36-39 -> stream 20: 100-400
        """,
    )
    (finding,) = (entry for entry in diagnose(trace).findings if entry.code == "OVL016")
    assert words in finding.fix


@pytest.mark.parametrize(
    ("name", "words"), [("enumerate(DataLoader)#_Iter.__next__", "is_pinned()"), ("mm", "tensor =")]
)
def test_a_loader_s_pageable_batches_are_of_a_custom_class(name: str, words: str, tmp_path: Path) -> None:
    """``pin_memory=True`` is no help to one who has it."""
    trace = trace_of(
        tmp_path,
        f"""
        thread 1: launch 0-5 -> stream 7: 10-20 | op {name} 21-25
                  copy 64MB pageable HtoD 30-930 -> stream 7: 35-925 | launch 935-940 -> stream 7: 945-1000
        """,
    )
    (finding,) = (entry for entry in diagnose(trace).findings if entry.code == "OVL001")
    assert words in finding.fix
    assert finding.fix.startswith("loader") == name.startswith("enumerate")


UNPINNED = "# DataLoader(num_workers=4, pin_memory=True) at train.py:31, but its batches have no pin_memory(): "


@pytest.mark.parametrize(
    ("loaders", "first", "words"),
    [
        (
            (Loader("train.py:31", 4, pin_memory=False),),
            "# DataLoader(num_workers=4, pin_memory=False) at train.py:31",
            "loader = DataLoader(num_workers=4, pin_memory=True)",
        ),
        (
            (Loader("train.py:31", 4, pin_memory=True, unpinnable="MyBatch"),),
            UNPINNED,
            "a method of MyBatch",
        ),
        (
            (Loader("train.py:31", 4, pin_memory=True), Loader("eval.py:7", 0, pin_memory=False)),
            "# DataLoader(num_workers=0, pin_memory=False) at eval.py:7",
            "pin_memory=True",
        ),
        ((Loader("train.py:31", 4, pin_memory=True),), "batch = batch.pin_memory()", "ahead of time"),
    ],
)
def test_the_fix_names_the_loader_that_does_not_pin(
    loaders: tuple[Loader, ...], first: str, words: str, tmp_path: Path
) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-5 -> stream 7: 10-20
                  copy 64MB pageable HtoD 30-930 -> stream 7: 35-925 | launch 935-940 -> stream 7: 945-1000
        """,
    )
    trace = replace(trace, metadata=replace(trace.metadata, recording=Calibration(loaders=loaders)))
    (finding,) = (entry for entry in diagnose(trace).findings if entry.code == "OVL001")
    assert finding.fix.startswith(first)
    assert words in finding.fix


@pytest.mark.parametrize(("recorded", "words"), [(None, "overlapscope.record"), (Calibration(), "--unprofiled 5")])
def test_what_would_confirm_late_launches(recorded: Calibration | None, words: str, tmp_path: Path) -> None:
    text = "thread 1: launch 0-5 -> stream 7: 10-20 | op aten::sort 21-900 | launch 935-940 -> stream 7: 945-1000"
    trace = trace_of(tmp_path, text)
    trace = replace(trace, metadata=replace(trace.metadata, recording=recorded))
    (finding,) = (entry for entry in diagnose(trace).findings if entry.code == "OVL008")
    assert words in finding.confirm_with


def test_what_a_module_copies_is_no_batch_of_a_loader(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-5 -> stream 7: 10-20
                  copy 64MB pageable HtoD 30-930 -> stream 7: 35-925 | launch 935-940 -> stream 7: 945-1000
        """,
        make.cpu_op(f"{MODULE}mlp", 25, 907, tid=1),
    )
    loaders = Calibration(loaders=(Loader("train.py:31", 4, pin_memory=False),))
    trace = replace(trace, metadata=replace(trace.metadata, recording=loaders))
    (finding,) = (entry for entry in diagnose(trace).findings if entry.code == "OVL001")
    assert "train.py" not in finding.fix
    assert finding.where.range == "mlp"


@pytest.mark.parametrize(
    ("loaders", "fix"),
    [
        ((), "loader = DataLoader(dataset, num_workers=8"),
        ((Loader("a.py:1", 0, pin_memory=True),), "# DataLoader(num_workers=0, pin_memory=True) at a.py:1\n"),
        ((Loader("a.py:1", 4, pin_memory=True, prefetch_factor=2),), "num_workers=8, prefetch_factor=4)"),
        ((Loader("a.py\nimport b", 4, pin_memory=True),), " at a.py?import b\n"),
    ],
)
def test_the_fix_names_the_loader_that_is_late(loaders: tuple[Loader, ...], fix: str, tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-5 -> stream 7: 10-20 | op enumerate(DataLoader)#_Iter.__next__ 21-900
                  launch 935-940 -> stream 7: 945-1000
        """,
    )
    trace = replace(trace, metadata=replace(trace.metadata, recording=Calibration(loaders=loaders)))
    (finding,) = (entry for entry in diagnose(trace).findings if entry.kind == "data-loading")
    assert fix in finding.fix
