"""The rule OVL010, many-small-copies."""

from __future__ import annotations

from pathlib import Path

from tests import kineto_maker as make
from tests.rules import RuleTests, codes, program
from tests.rules.traces import TWO_KERNELS, copies_in_a_row, findings_of


class TestOvl010(RuleTests):
    code = "OVL010"
    reports = ("many_small_copies", "pinning_guide-list-to")
    silent = ("small_copies_hidden",)


def test_small_copies_of_another_thread_and_far_apart_are_no_burst(tmp_path: Path) -> None:
    events = []
    for number in range(40):
        at, last = 1000 * number, 10 * number
        events += [
            make.call(at, 5, correlation=last + 1),
            make.kernel(at + 6, 300, correlation=last + 1),
            make.call(at + 100, 5, name="cudaMemcpyAsync", correlation=last + 2, tid=2),
            make.copy(at + 320, 3, kinds="HtoD (Pinned -> Device)", size=100_000, correlation=last + 2),
        ]
    assert codes(program(*events)(tmp_path)) == {"OVL008"}


def test_copies_that_are_small_beside_their_calls_are_many_small_copies(tmp_path: Path) -> None:
    text = TWO_KERNELS + copies_in_a_row(100, 1, "4KiB") + " | launch 2300-2305 -> stream 7: 2310-9000"
    codes = findings_of(tmp_path, text)
    assert "OVL010" in codes
    assert "OVL020" not in codes
