"""Synchronisations that nothing in the trace needs are taken out, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.model.enums import ApiKind
from tests.notation import trace_of


def steps(count: int, between: str = "", stream: int = 7) -> str:
    """Kernels of 100 us, a synchronisation after each, and 100 us of host time before the next launch."""
    lines = []
    for number in range(count):
        at = 220 * number
        lines.append(f"launch {at}-{at + 5} -> stream 7: {at + 10}-{at + 110} | sync {at + 7}-{at + 115}")
        lines.append(between and f"{between.format(at + 120, at + 125, at + 126, at + 130)}")
    return "thread 1: " + " | ".join(line for line in lines if line)


def test_only_the_last_synchronisation_stays(tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, steps(10)), ["no-device-sync"])
    assert found.predicted_ns == pytest.approx(10 * 105_000 + 130_000, rel=0.1)
    assert "no-device-sync: 1 of 10 synchronisations stay" in found.assumptions


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        ("copy 4KiB pinned DtoH {0}-{1} -> stream 7: {2}-{3}", True),
        ("copy 4KiB pinned HtoD {0}-{1} -> stream 7: {2}-{3}", True),
        ("copy 4KiB pinned DtoH {0}-{1} -> stream 7: {0}-{1}", False),
        ("launch {0}-{1} -> stream 9: {2}-{3}", True),
        ("launch {0}-{1} -> stream 7: {2}-{3}", False),
    ],
    ids=["read by the host", "written by the host", "copied when its call returns", "two streams", "one stream"],
)
def test_what_may_be_needed_stays(between: str, kept: bool, tmp_path: Path) -> None:
    """What is issued between two synchronisations decides about the second one."""
    found = what_if(trace_of(tmp_path, steps(10, between)), ["no-device-sync"])
    calls = found.after.api_calls
    waits = calls.duration_ns[calls.kind == ApiKind.DEVICE_SYNC][1:-1]
    assert set(waits > 0) == {kept}


def test_a_synchronisation_after_each_kernel_has_this_change(tmp_path: Path) -> None:
    """It saves what the host's time after each of them costs."""
    (finding,) = (each for each in diagnose(trace_of(tmp_path, steps(40))).findings if each.code == "OVL004")
    assert finding.change == "no-device-sync"
    assert finding.saving_ns == pytest.approx(finding.idle_ns, rel=0.1)


def test_it_is_said_where_all_of_them_may_be_needed(tmp_path: Path) -> None:
    """A second stream, on which nothing but one short kernel runs, may need the order that they make."""
    several = steps(40) + " | launch 8_790-8_792 -> stream 9: 8_795-8_799"
    for text, needed in ((steps(40), False), (several, True)):
        (finding,) = (each for each in diagnose(trace_of(tmp_path, text)).findings if each.code == "OVL004")
        assert ("They may be needed" in finding.message) is needed
        assert finding.offered is not needed
