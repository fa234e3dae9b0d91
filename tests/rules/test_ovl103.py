"""The rule OVL103, unsafe-read."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.dependencies.build import build_graph
from overlapscope.diagnosis.finding import Confidence, Severity
from overlapscope.ordering.accesses import early_reads
from overlapscope.ordering.order import Order
from tests import kineto_maker as make
from tests.notation import trace_of
from tests.rules import NSYS, RuleTests, codes, loop, program, top
from tests.rules.traces import BUSY, columns, reported


class TestOvl103(RuleTests):
    code = "OVL103"
    reports = ("read_too_early", "pinning_guide-read-early")
    silent = ("read_after_event", "read_after_synchronise", "pinning_guide-read-after-wait")


def test_a_read_that_is_too_early_is_found_where_operators_are_recorded() -> None:
    """Nsight Systems shows nothing of the read, and so short a silence of the host says nothing."""
    finding = loop("read_too_early").findings[0]
    assert (finding.code, finding.severity, finding.confidence) == ("OVL103", Severity.HAZARD, Confidence.MEDIUM)
    assert len(finding.copies) == finding.evidence["read_by_operator"] == 3
    assert top(loop("read_too_early", NSYS)) == "OVL002"


PINNED_DOWN = {"kinds": "DtoH (Device -> Pinned)", "size": 10_000_000, "stream": 7}


def unsafe(tmp_path: Path, *after: make.Event) -> set[str]:
    """Codes for a copy to pinned memory that arrives at 1200 us, and what follows its call."""
    return codes(
        program(
            make.call(0, 4, correlation=1),
            make.kernel(5, 1000, correlation=1),
            make.call(10, 5, name="cudaMemcpyAsync", correlation=2),
            make.copy(1006, 194, correlation=2, **PINNED_DOWN),
            *after,
        )(tmp_path)
    )


END = make.call(2000, 5, name="cudaDeviceSynchronize", correlation=9)


def test_an_operator_of_the_host_reads_too_early_and_one_of_the_device_does_not(tmp_path: Path) -> None:
    on_device = (make.call(35, 4, correlation=3), make.kernel(1210, 5, correlation=3), END)
    assert "OVL103" in unsafe(tmp_path, make.cpu_op("aten::sum", 30, 10), END)
    assert "OVL103" not in unsafe(tmp_path, make.cpu_op("aten::sum", 30, 10), *on_device)
    assert "OVL103" not in unsafe(tmp_path, make.cpu_op("aten::sum", 1300, 10), END), "it has arrived"


def test_an_event_alone_does_not_make_a_read_safe_but_waiting_does(tmp_path: Path) -> None:
    record = make.call(20, 2, name="cudaEventRecord", correlation=4)
    wait = make.call(24, 1180, name="cudaEventSynchronize", correlation=5)
    assert "OVL103" in unsafe(tmp_path, record, make.cpu_op("aten::sum", 30, 10), END)
    assert "OVL103" not in unsafe(tmp_path, record, wait, make.cpu_op("aten::sum", 1210, 10), END)


def test_the_end_of_a_trace_and_another_thread_s_wait_are_no_hazard(tmp_path: Path) -> None:
    assert "OVL103" not in unsafe(tmp_path)
    waits = make.call(30, 1200, name="cudaDeviceSynchronize", correlation=6, tid=2)
    assert "OVL103" not in unsafe(tmp_path, waits, make.cpu_op("aten::sum", 1250, 10), END)


def test_a_read_is_certain_where_the_recording_knows_the_tensor(tmp_path: Path) -> None:
    text = f"{BUSY} | op aten::copy_ 9-13 | copy 4MB pinned DtoH 10-12 -> stream 7: 500-600"
    early = f"{text} | op aten::sum 30-50 | sync 55-650"
    read = {"host_accesses": columns(op_start_ns=[9, 30], tensor=[0, 0], access=[0, 2])}
    finding, guess = reported(tmp_path, "OVL103", early, **read), reported(tmp_path, "OVL103", early)
    assert finding is not None
    assert guess is not None
    assert (finding.confidence, guess.confidence) == (Confidence.HIGH, Confidence.MEDIUM)
    assert (finding.message.startswith("Suspected: "), guess.message.startswith("Suspected: ")) == (False, True)
    late = f"{text} | sync 55-650 | op aten::sum 660-670 | launch 680-681 -> stream 7: 690-700"
    read["host_accesses"]["op_start_ns"] = [9_000, 660_000]
    assert reported(tmp_path, "OVL103", late, **read) is None
    meanwhile = early + " | op aten::sum 660-670"
    assert reported(tmp_path, "OVL103", meanwhile) is not None
    assert reported(tmp_path, "OVL103", meanwhile, **read) is None, "it reads other data first"


@pytest.mark.parametrize("end", [50, 620])
def test_an_operator_that_changes_a_tensor_uses_it_too(end: int, tmp_path: Path) -> None:
    """As ``add_`` does, once or twice."""
    text = f"{BUSY} | op aten::copy_ 9-13 | copy 4MB pinned DtoH 10-12 -> stream 7: 500-600"
    late = f"{text} | op aten::add_ {end - 10}-{end} | op aten::sum {end + 2}-{end + 4} |"
    late += "launch 680-681 -> stream 7: 690-700"
    notes = columns(op_start_ns=[9, end - 10, end + 2], tensor=[0, 0, 0], access=[0, 3, 2])
    finding = reported(tmp_path, "OVL103", late, host_accesses=notes)
    assert finding is not None
    assert finding.confidence is (Confidence.HIGH if end == 50 else Confidence.MEDIUM)
    assert finding.message.startswith("Nothing waits for 1 D2H copy before the host uses the tensor.")
    if end == 620:
        waits = late.replace("| op aten::add_", "| stream-sync 14-605 -> stream 7 | op aten::add_")
        assert reported(tmp_path, "OVL103", waits, host_accesses=notes) is None


def test_a_pause_after_the_last_copy_alone_is_no_sign_of_a_read(tmp_path: Path) -> None:
    def loop(pauses: int) -> str:
        """Four copies to the host; after so many of them the host does something before it synchronises."""
        steps = [f"copy 4MB pinned DtoH {t}001-{t}002 -> stream 7: {t}100-{t}600" for t in range(1, 5)]
        waits = [f" | sync {t}500-{t}610" if t > 4 - pauses else "" for t in range(1, 5)]
        return "thread 1: launch 0-1 -> stream 7: 2-3 | " + " | ".join(map("".join, zip(steps, waits, strict=True)))

    assert reported(tmp_path, "OVL103", loop(4)) is not None
    assert reported(tmp_path, "OVL103", loop(1)) is None


@pytest.mark.parametrize(
    ("wait", "confidence"),
    [
        ("stream-sync 14-600 -> stream 7", None),
        ("record A 13-14 -> stream 7 | event-sync A 14-600 -> stream 7", None),
        ("sync 14-600", None),
        ("stream-sync 14-600 -> stream 20", Confidence.HIGH),
    ],
)
def test_a_synchronisation_is_right_where_the_clock_of_the_gpu_is_not(
    wait: str, confidence: Confidence | None, tmp_path: Path
) -> None:
    """The copy seems to end after the call that waited for it; that with another stream did not wait."""
    text = (
        f"{BUSY} | launch 1-2 -> stream 20: 3-9 | op aten::copy_ 9-13 | copy 4MB pinned DtoH 10-12 -> stream 7: 500-630"
    )
    read = columns(op_start_ns=[9, 605], tensor=[0, 0], access=[0, 2])
    finding = reported(tmp_path, "OVL103", f"{text} | {wait} | op aten::sum 605-620 | sync 900-901", host_accesses=read)
    assert (None if finding is None else finding.confidence) is confidence


@pytest.mark.parametrize(("device", "end", "late"), [(0, 600, True), (1, 600, False)])
def test_a_synchronisation_of_another_gpu_is_none(device: int, end: int, late: bool, tmp_path: Path) -> None:
    """Which one it was is in its record."""
    text = f"{BUSY} | launch 2-3 -> gpu 1 stream 7: 4-490 | op aten::copy_ 9-13 |"
    text += f"copy 4MB pinned DtoH 10-12 -> gpu 1 stream 7: 500-{end + 20} | sync 14-{end} | op aten::sum 640-660"
    record = make.sync("Context Sync", 14, end - 14, stream=-1, correlation=4)
    record["args"]["device"] = device
    read = make.calibrated(host_accesses=columns(op_start_ns=[9, 640], tensor=[0, 0], access=[0, 2]))
    order = Order(build_graph(trace_of(tmp_path, text, record, **read)))
    assert (len(early_reads(order)) > 0) == late


@pytest.mark.parametrize(("memory", "reports"), [("pinned", True), ("pageable", False), ("unknown", False)])
def test_pageable_memory_may_be_read_when_the_call_returns(memory: str, reports: bool, tmp_path: Path) -> None:
    text = (
        f"{BUSY} | op aten::copy_ 9-15 | copy 64KB {memory} DtoH 10-600 -> stream 7: 500-630 | op aten::sum 605-620 |"
    )
    text += "launch 900-901 -> stream 7: 902-910"
    accesses = columns(op_start_ns=[9, 605], tensor=[0, 0], access=[0, 2])
    assert (reported(tmp_path, "OVL103", text, host_accesses=accesses) is not None) == reports
