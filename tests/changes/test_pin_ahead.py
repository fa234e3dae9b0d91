"""``pin_memory()`` in the loop takes no time when somebody pins ahead."""

from __future__ import annotations

from pathlib import Path

from overlapscope import what_if
from overlapscope.analysis.analysis import diagnose
from tests import kineto_maker as make
from tests.notation import trace_of

STEP = """
    thread 1: op aten::pin_memory {0}000-{0}400 | cudaHostAlloc {0}100-{0}150
              op aten::copy_ {0}410-{0}420 | copy 4MB pinned HtoD {0}412-{0}416 -> stream 7: {0}420-{0}500
              launch {0}425-{0}430 -> stream 7: {0}502-{0}602
              sync {0}435-{0}605
"""
LOOP = "\n".join(STEP.replace("{0}", str(number)) for number in range(1, 6))


def test_the_time_of_pinning_is_gone(tmp_path: Path) -> None:
    """400 us in each of five steps, but for the first: that is before the first work."""
    found = what_if(trace_of(tmp_path, LOOP), "pin-ahead")
    assert found.saving_ns == 4 * 400_000


def test_copies_of_fresh_data_are_as_fast_as_others(tmp_path: Path) -> None:
    """80 us each, of data that the processor has just written, where the calibration measured 50."""
    pinned = {"direction": "HtoD", "host_memory": "pinned", "size_bytes": 4_000_000, "copy_ns": 50_000}
    found = what_if(trace_of(tmp_path, LOOP, **make.calibrated(copies=[pinned])), "pin-ahead")
    copies = found.after.copies
    assert (copies.duration_ns == 50_000).all()
    assert any("pinned ahead" in text for text in found.assumptions)


def test_without_pinning_it_says_so(tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, LOOP.replace("aten::pin_memory", "aten::sort")), "pin-ahead")
    assert found.saving_ns == 0
    assert any("no pin_memory()" in text for text in found.assumptions)


def test_the_finding_of_a_loop_that_pins_offers_it(tmp_path: Path) -> None:
    found = diagnose(trace_of(tmp_path, LOOP))
    finding = next(entry for entry in found.findings if entry.code == "OVL018")
    assert (finding.change, finding.waited_for) == ("pin-ahead", "pin_memory()")
    assert "is_pinned()" in finding.fix
    assert found.plan is not None
    assert found.plan.steps[0].changes == ("pin-ahead",)


def test_packing_pieces_takes_their_pinning_out_too(tmp_path: Path) -> None:
    """Twenty pieces, each pinned and sent by itself."""
    pieces = "\n".join(
        f"thread 1: op aten::pin_memory {at}-{at + 50} | copy 4KiB pinned HtoD {at + 55}-{at + 60} "
        f"-> stream 7: {at + 62}-{at + 64}"
        for at in range(1000, 3000, 100)
    )
    end = "thread 1: launch 3100-3105 -> stream 7: 3110-3120"
    found = what_if(trace_of(tmp_path, pieces, end), "batch-copies")
    assert found.saving_ns > 19 * 50_000
