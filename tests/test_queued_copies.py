"""Copies stuck behind others on their engine, and threads that do nothing but issue them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overlapscope import diagnose
from overlapscope.diagnosis.finding import Finding
from overlapscope.measure.queue_depth import copies_before
from overlapscope.model.trace import Trace
from tests import kineto_maker as make
from tests.notation import trace_of

BEHIND = """
thread 1: launch 0-5 -> stream 7: 10-100
          copy 64MB pinned HtoD 20-25 -> stream 20: 30-1230 | copy 64MB pinned HtoD 26-30 -> stream 20: 1231-2431
          {between} copy {ids} pinned HtoD 40-45 -> stream 13: 2432-{arrived} | record B 46-47 -> stream 13
          wait B 50-51 -> stream 7 | {wait} launch 55-60 -> stream 7: {start}-6000 | sync 61-6002
"""
"""Two large copies on stream 20, then one that the kernel waits for, on a stream of its own."""


def found(tmp_path: Path, text: str) -> dict[str, Finding]:
    return {finding.code: finding for finding in diagnose(trace_of(tmp_path, text)).findings}


USUAL = {"between": "", "ids": "64KB", "arrived": "2436", "wait": "", "start": "2437"}


def stuck_copy(tmp_path: Path) -> Trace:
    return trace_of(tmp_path, BEHIND.format(**USUAL))


def behind(tmp_path: Path, **change: str) -> dict[str, Finding]:
    return found(tmp_path, BEHIND.format(**USUAL | change))


def test_a_small_copy_behind_large_ones_is_head_of_line(tmp_path: Path) -> None:
    finding = behind(tmp_path)["OVL019"]
    assert finding.idle_ns == pytest.approx(2_332_000, abs=4_000)
    assert len(finding.copies) == 1
    assert {key: finding.evidence[key] for key in ("copies", "copies_in_front", "size_in_front_bytes")} == {
        "copies": 1,
        "copies_in_front": 2,
        "size_in_front_bytes": 128_000_000,
    }


def test_a_large_copy_behind_large_ones_is_not(tmp_path: Path) -> None:
    """It takes as long as they do: the engine is busy, whatever the order."""
    codes = behind(tmp_path, ids="64MB", arrived="3632", start="3633")
    assert "OVL019" not in codes
    assert "OVL007" in codes


def test_copies_that_the_kernel_waits_for_too_are_not_in_the_way(tmp_path: Path) -> None:
    codes = behind(tmp_path, between="record A 35-36 -> stream 20 |", wait="wait A 52-53 -> stream 7 |")
    assert "OVL019" not in codes


def test_of_one_stream_only_an_event_between_tells_what_is_asked_for(tmp_path: Path) -> None:
    """The copies in front are of the same stream; a later kernel waits for an event after them, or none does."""
    one = BEHIND.replace("stream 20", "stream 13")
    between = "record A 35-36 -> stream 13 |"
    later = "\nthread 1: wait A 6003-6004 -> stream 7 | launch 6005-6009 -> stream 7: 6012-7000"
    assert "OVL019" in found(tmp_path, one.format(**USUAL | {"between": between}) + later)
    assert "OVL019" not in found(tmp_path, one.format(**USUAL) + later.replace("wait A", "wait B"))


def test_a_host_that_waits_for_a_small_result_behind_large_ones(tmp_path: Path) -> None:
    """It synchronises with the stream of the result; large ones go to the host on another stream."""
    text = """
    thread 1: launch 0-5 -> stream 7: 10-100 | copy 64MB pinned DtoH 6-10 -> stream 20: 101-1301
              copy 4KiB pinned DtoH 20-25 -> stream 13: 1302-1304 | stream-sync 30-1310 -> stream 13
              launch 1320-1325 -> stream 7: 1330-4000
    """
    finding = found(tmp_path, text)["OVL019"]
    assert finding.evidence["copies_in_front"] == 1
    assert finding.idle_ns == pytest.approx(1_200_000, abs=20_000)
    assert "OVL019" not in found(tmp_path, text.replace("stream-sync 30-1310 -> stream 13", "sync 30-1310"))


def copies(count: int, copy_us: int, size: str = "1MB") -> str:
    """Pinned copies in a row, a call of 20 us every 21 us, and each copy soon after its call."""
    return "thread 1: " + " | ".join(
        f"copy {size} pinned HtoD {at}-{at + 20} -> stream 13: {at + 22}-{at + 22 + copy_us}"
        for at in range(100, 100 + 21 * count, 21)
    )


FIRST = "thread 1: launch 0-5 -> stream 7: 10-105 | launch 20-25 -> stream 9: 30-90\n"


def issuing(tmp_path: Path) -> Trace:
    """A hundred copies, as long as their calls; the kernel after them does not wait for them."""
    return trace_of(tmp_path, FIRST + copies(100, 20) + " | launch 2300-2305 -> stream 7: 2310-9000")


def test_a_thread_that_issues_copies_launches_late(tmp_path: Path) -> None:
    (finding,) = (entry for entry in diagnose(issuing(tmp_path)).findings if entry.code == "OVL020")
    assert finding.idle_ns == pytest.approx(2_100_000, rel=0.05)
    assert (finding.evidence["copies"], finding.evidence["call_ns"]) == (100, 2_000_000)


def test_calls_that_wait_for_room_are_told_from_small_copies(tmp_path: Path) -> None:
    """The copies wait for a long kernel. Sixty-four calls take 2 us; the rest take 50, with a full queue."""
    short = [(100 + 3 * number, 102 + 3 * number) for number in range(64)]
    long = [(300 + 51 * number, 350 + 51 * number) for number in range(80)]
    issued = " | ".join(
        f"copy 4KiB pinned HtoD {begin}-{end} -> stream 13: {4500 + 2 * number}-{4501 + 2 * number}"
        for number, (begin, end) in enumerate(short + long)
    )
    text = FIRST + "thread 1: " + issued + " | launch 4400-4405 -> stream 7: 4410-9000"
    finding = found(tmp_path, text)["OVL020"]
    assert finding.evidence["most_queued"] == 143
    assert finding.evidence["many_queued_call_ns"] == 50_000
    assert "instead of" in finding.message
    few = text.replace("pinned", "pageable")
    assert "OVL020" not in found(tmp_path, few)


@pytest.mark.parametrize(("name", "full"), [("Command Buffer Full", True), ("Activity Buffer Request", False)])
def test_the_profiler_records_a_wait_for_room(name: str, full: bool, tmp_path: Path) -> None:
    """Other work fills the queue: few copies are in it when a call waits."""
    text = """
    thread 1: launch 0-5 -> stream 13: 10-4050 | copy 4KiB pinned HtoD 20-4000 -> stream 13: 4051-4053
              op aten::mm 4010-6000 | launch 5990-5995 -> stream 7: 6000-9000
    """
    trace = trace_of(tmp_path, text, make.overhead(30, 3900, name))
    codes = {finding.code for finding in diagnose(trace).findings}
    assert ("OVL020" in codes) is full


def test_copies_that_are_small_beside_their_calls_are_many_small_copies(tmp_path: Path) -> None:
    text = FIRST + copies(100, 1, "4KiB") + " | launch 2300-2305 -> stream 7: 2310-9000"
    codes = found(tmp_path, text)
    assert "OVL010" in codes
    assert "OVL020" not in codes


def test_the_copies_before_a_copy_are_those_of_its_gpu_that_are_not_complete(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: copy 1MB pinned HtoD 0-5 -> stream 7: 10-30 | copy 1MB pinned HtoD 6-9 -> stream 7: 31-50
                  copy 1MB pinned HtoD 35-38 -> stream 7: 51-70 | copy 1MB pinned HtoD 36-39 -> gpu 1 stream 7: 45-60
        """,
    )
    here = trace.copies.device == 0
    assert copies_before(trace)[here].tolist() == [0, 1, 1]
    assert copies_before(trace)[np.flatnonzero(~here)].tolist() == [0]
