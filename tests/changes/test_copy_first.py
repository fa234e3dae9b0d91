"""A small copy goes before the long ones that its thread issued in front of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from overlapscope import what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.simulate import has_cycle
from overlapscope.whatif.catalogue import changed, understood
from overlapscope.whatif.changes import NAMES
from tests.notation import trace_of

LOOP = """
thread 1: launch 0-5 -> stream 7: 10-100 | copy 64MB pinned HtoD 20-25 -> stream 20: 30-1230 {between}
          copy 64MB pinned HtoD 126-130 -> stream 20: 1231-2431
          copy 64KB pinned HtoD 140-145 -> stream {own}: 2432-2436 | record B 146-147 -> stream {own}
          wait B 150-151 -> stream 7 | launch 155-160 -> stream 7: 2437-6000 | sync 161-6002
"""


@pytest.mark.parametrize("own", [13, 20], ids=["another stream", "the same stream"])
def test_the_kernel_starts_when_the_small_copy_is_there(own: int, tmp_path: Path) -> None:
    """Issued at 20 us, it takes 4; then the kernel waits for its own launch, at 160, and for some latency."""
    found = what_if(trace_of(tmp_path, LOOP.format(own=own, between="|")), "copy-first")
    assert found.saving_ns == pytest.approx(2_437_000 - 160_000, rel=0.05)
    assert any("is ready" in text for text in found.assumptions)


def test_copies_from_before_the_last_synchronisation_stay_in_front(tmp_path: Path) -> None:
    """The host synchronises with another stream between the two long ones: the first stays."""
    text = LOOP.format(own=13, between="| stream-sync 26-125 -> stream 7 |")
    assert what_if(trace_of(tmp_path, text), "copy-first").saving_ns == pytest.approx(1_200_000, abs=10_000)


def test_nothing_is_first_where_nothing_is_in_front(tmp_path: Path) -> None:
    text = "thread 1: copy 64KB pinned HtoD 0-5 -> stream 7: 10-15 | launch 20-25 -> stream 7: 30-100"
    found = what_if(trace_of(tmp_path, text), "copy-first")
    assert found.saving_ns == 0
    assert any("no copy is queued" in text for text in found.assumptions)


def test_the_finding_offers_it(tmp_path: Path) -> None:
    (finding,) = (
        entry
        for entry in diagnose(trace_of(tmp_path, LOOP.format(own=13, between="|"))).findings
        if entry.code == "OVL019"
    )
    assert finding.change == "copy-first"
    assert finding.saving_ns is not None
    assert finding.saving_ns > 0.9 * finding.idle_ns


@pytest.mark.parametrize("other", [name for name in NAMES if name not in {"copy-first", "faster-link"}])
@pytest.mark.parametrize("own", [13, 20], ids=["another stream", "the same stream"])
def test_with_any_other_change_nothing_waits_for_itself(own: int, other: str, tmp_path: Path) -> None:
    """Three rounds, whose copies other changes move too."""
    rounds = [LOOP.format(own=own, between="|")] * 3
    trace = trace_of(tmp_path, "\n".join(later(text, 7000 * number) for number, text in enumerate(rounds)))
    assert not has_cycle(changed(build_graph(trace), understood(["copy-first", other])).graph)
    together = what_if(trace, ["copy-first", other])
    assert together.low_ns <= together.predicted_ns <= together.high_ns


def later(text: str, us: int) -> str:
    """The same some time later."""
    return re.sub(r"(\d+)-(\d+)", lambda found: f"{int(found[1]) + us}-{int(found[2]) + us}", text)


def test_work_after_a_passed_copy_waits_for_what_was_before_it(tmp_path: Path) -> None:
    """The small upload passes the download in its stream; the last kernel still comes after the first one."""
    text = """
    thread 1: copy 64MB pinned HtoD 0-5 -> stream 20: 10-1210 | launch 6-10 -> stream 7: 11-1111
              copy 64KB pinned DtoH 11-15 -> stream 7: 1111-1115 | copy 64KB pinned HtoD 16-20 -> stream 7: 1210-1214
              launch 21-25 -> stream 7: 1215-2215 | sync 26-2217
    """
    trace = trace_of(tmp_path, text)
    assert what_if(trace, "copy-first").predicted_ns == pytest.approx(2_217_000 - 100_000, rel=0.03)
