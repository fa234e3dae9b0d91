"""The rule OVL006, no-prefetch-distance."""

from __future__ import annotations

from tests.rules import RuleTests, loop


class TestOvl006(RuleTests):
    code = "OVL006"
    reports = ("no_prefetch_distance", "self_wait-read-ordered")
    silent = ("prefetched",)


def test_copies_that_wait_for_kernels_are_told_from_those_that_are_only_late() -> None:
    """In one case the side stream waits for the kernels before each copy."""
    waiting = loop("no_prefetch_distance").findings[0].evidence
    assert waiting["copies_delayed_by_kernels"] == 3, "all but the first"
