"""The rule OVL002, one-stream."""

from __future__ import annotations

from tests.rules import RuleTests


class TestOvl002(RuleTests):
    code = "OVL002"
    reports = ("one_stream", "graph_one_branch", "pin_in_loop")
    silent = ("graph_parallel_branch", "non_blocking_external_stream")
