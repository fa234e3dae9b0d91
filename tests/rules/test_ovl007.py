"""The rule OVL007, engine-busy."""

from __future__ import annotations

import overlapscope
from tests.conftest import CASES, SAMPLES
from tests.rules import RuleTests


class TestOvl007(RuleTests):
    code = "OVL007"
    reports = ("two_copy_streams", "pinning_guide-concurrent-busy-engine")
    silent = ("both_directions", "pinning_guide-concurrent")


def test_an_order_is_advised_only_where_the_engine_has_time_left() -> None:
    """Where the copies take all the time, the verdict says that no overlap helps, and so does the fix."""
    full = overlapscope.analyse(SAMPLES / "pinning_guide-concurrent-busy-engine.json.gz").audit()
    (finding,) = (each for each in full.diagnosis.findings if each.code == "OVL007")
    assert "only fewer bytes" in full.verdict
    assert "no order helps" in finding.fix
    other = overlapscope.analyse(CASES / "two_copy_streams.json.gz").audit()
    (finding,) = (each for each in other.diagnosis.findings if each.code == "OVL007")
    assert "before the bulk copies" in finding.fix
