"""The rule OVL013, slow-link."""

from __future__ import annotations

from pathlib import Path

from tests import kineto_maker as make
from tests.rules import RuleTests, codes, program


def uploads(*lengths_us: int) -> list[make.Event]:
    """Copies of 10 MB on the kernels' stream, which take so long, each with a kernel after it."""
    events, at = [], 0
    for number, length in enumerate(lengths_us):
        kinds = "HtoD (Pinned -> Device)"
        events += [
            make.call(10 * number, 5, name="cudaMemcpyAsync", correlation=2 * number + 1),
            make.copy(at + 100, length, kinds=kinds, size=10_000_000, stream=7, correlation=2 * number + 1),
            make.call(10 * number + 5, 5, correlation=2 * number + 2),
            make.kernel(at + 101 + length, 600, correlation=2 * number + 2),
        ]
        at += length + 610
    return events


class TestOvl013(RuleTests):
    code = "OVL013"
    reports = (program(*uploads(200, 200, 200, 2000, 200, 200)),)
    silent = (program(*uploads(200, 200, 200, 200, 200, 200)),)


def test_a_slow_pinned_copy_is_seen_against_the_faster_ones(tmp_path: Path) -> None:
    """Five copies take 200 us, one takes 2 ms."""
    events = uploads(200, 200, 200, 2000, 200, 200)
    found = program(*events)(tmp_path)
    slow = next(finding for finding in found.findings if finding.code == "OVL013")
    assert (slow.idle_ns, slow.copies) == (2_000_000, (3,))
    assert (slow.evidence["reached_gb_s"], slow.evidence["expected_gb_s"]) == (5.0, 50.0)
    even = [event for event in events if event["dur"] != 2000]
    assert "OVL013" not in codes(program(*even)(tmp_path))
