"""The rule OVL011, nothing-to-hide-behind."""

from __future__ import annotations

from tests.rules import RuleTests


class TestOvl011(RuleTests):
    code = "OVL011"
    reports = ("upload_phase", "pinning_guide-read-after-wait")
    silent = ("compute_alone", "prefetched")
