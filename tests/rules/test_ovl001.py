"""The rule OVL001, pageable-copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from overlapscope.analysis.analysis import diagnose
from overlapscope.calibration.schema import MODULE, Calibration, Loader
from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.finding import Diagnosis, Place
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules import RuleTests, place, program, top


@pytest.mark.parametrize(("operators", "line"), [
    ("op aten::copy_ 0-40", "target.copy_(host, non_blocking=True)"),
    ("op aten::to 0-40 | op aten::copy_ 1-39", "x = host.to(device, non_blocking=True)"),
])  # fmt: skip
def test_the_fix_is_the_call_that_the_program_makes(operators: str, line: str, tmp_path: Path) -> None:
    work = "copy 4MiB pageable HtoD 2-38 -> stream 7: 5-36 | launch 50-55 -> stream 7: 60-70"
    finding = diagnose(trace_of(tmp_path, f"thread 1: {operators} | {work}", **make.H200), plan=False).findings[0]
    assert finding.code == "OVL001"
    assert finding.fix.splitlines()[1] == line


class TestOvl001(RuleTests):
    code = "OVL001"
    reports = ("pageable_own_thread", "strided_view", "large_read")
    silent = ("pageable_nothing_waits", "one_stream")


def losses_of(diagnosis: Diagnosis) -> list[tuple[str, str | None, int]]:
    """Cause, code and length in us of each lost stretch."""
    (device,) = diagnosis.devices
    codes = [None if number < 0 else device.codes[number] for number in device.reason.tolist()]
    rows = zip(device.idle.cause.tolist(), codes, device.idle.duration_ns.tolist(), strict=True)
    return [(Cause(cause).name, code, length // 1000) for cause, code, length in rows]


def test_late_time_is_laid_to_the_call_that_took_the_lead(tmp_path: Path) -> None:
    """The copy call holds the thread over [10, 1010) while a kernel runs; the next one is 500 us late by host work."""
    found = program(
        make.call(0, 4, correlation=1),
        make.kernel(5, 1000, correlation=1),
        make.call(10, 1000, name="cudaMemcpyAsync", correlation=2),
        make.copy(12, 996, correlation=2),
        make.call(1500, 4, correlation=3),
        make.kernel(1505, 100, correlation=3),
    )(tmp_path)
    assert losses_of(found) == [
        ("COPY_CALL", "OVL001", 5),
        ("HOST_NOT_RECORDED", "OVL001", 490),
        ("API_CALL", "OVL001", 4),
        ("LAUNCH_LATENCY", "OVL008", 1),
    ]
    assert found.findings[0].code == "OVL001"
    assert found.hidden_ns > 0.9 * found.copy_ns


def test_a_call_is_not_blamed_for_more_than_it_held(tmp_path: Path) -> None:
    """100 us held, 5 ms late: the rest is the host's own."""
    found = program(
        make.call(0, 4, correlation=1),
        make.kernel(5, 1000, correlation=1),
        make.call(10, 104, name="cudaMemcpyAsync", correlation=2),
        make.copy(12, 100, correlation=2),
        make.call(6000, 4, correlation=3),
        make.kernel(6005, 100, correlation=3),
    )(tmp_path)
    (device,) = found.devices
    assert device.idle_ns("OVL001") == 100_000
    assert device.idle_ns("OVL008") == 5_000_000 - 100_000
    assert top(found) == "OVL008"


@pytest.mark.parametrize(("name", "words"), [("enumerate(DataLoader)#_Iter.__next__", "is_pinned()"), ("mm", "host =")])
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
    ("where", "words"),
    [
        (place("aten::copy_", "cudaMemcpyAsync", "forward / load expert 3"), "weight.pin_memory()"),
        (place("aten::copy_", "cudaMemcpyAsync", "train_step"), "host.pin_memory()"),
    ],
)
def test_the_fix_fits_the_place(where: Place, words: str) -> None:
    assert words in rule("OVL001").fix_for(where)
