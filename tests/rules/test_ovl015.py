"""The rule OVL015, device-full."""

from __future__ import annotations

from tests.rules import RuleTests


class TestOvl015(RuleTests):
    code = "OVL015"
    reports = ("full_device",)
    silent = ("compute_alone",)
