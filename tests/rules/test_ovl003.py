"""The rule OVL003, default-stream."""

from __future__ import annotations

from tests.rules import RuleTests


class TestOvl003(RuleTests):
    code = "OVL003"
    reports = ("blocking_external_stream",)
    silent = ("non_blocking_external_stream",)
