"""The rule OVL019, head-of-line."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.diagnosis.finding import Finding
from tests.rules import RuleTests
from tests.rules.traces import BEHIND, STUCK, findings_of


class TestOvl019(RuleTests):
    code = "OVL019"
    reports = ("copy_order-weights-first",)
    silent = ("copy_order-ids-first",)


def behind(tmp_path: Path, **change: str) -> dict[str, Finding]:
    return findings_of(tmp_path, BEHIND.format(**STUCK | change))


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
    assert "OVL019" in findings_of(tmp_path, one.format(**STUCK | {"between": between}) + later)
    assert "OVL019" not in findings_of(tmp_path, one.format(**STUCK) + later.replace("wait A", "wait B"))


def test_a_host_that_waits_for_a_small_result_behind_large_ones(tmp_path: Path) -> None:
    """It synchronises with the stream of the result; large ones go to the host on another stream."""
    text = """
    thread 1: launch 0-5 -> stream 7: 10-100 | copy 64MB pinned DtoH 6-10 -> stream 20: 101-1301
              copy 4KiB pinned DtoH 20-25 -> stream 13: 1302-1304 | stream-sync 30-1310 -> stream 13
              launch 1320-1325 -> stream 7: 1330-4000
    """
    finding = findings_of(tmp_path, text)["OVL019"]
    assert finding.evidence["copies_in_front"] == 1
    assert finding.idle_ns == pytest.approx(1_200_000, abs=20_000)
    assert "OVL019" not in findings_of(tmp_path, text.replace("stream-sync 30-1310 -> stream 13", "sync 30-1310"))
