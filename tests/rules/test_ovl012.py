"""The rule OVL012, blocking-launches."""

from __future__ import annotations

from pathlib import Path

from overlapscope.analysis.analysis import diagnose
from tests.notation import trace_of
from tests.rules import RuleTests
from tests.rules.traces import repeated, shifted


class TestOvl012(RuleTests):
    code = "OVL012"
    reports = ("blocking_launches",)
    silent = ("non_blocking_external_stream",)


def blocking(tmp_path: Path, kernel_us: int, call_us: int) -> bool:
    """Whether launches are said to block, of short kernels and of others, all over when their call returns."""
    period = call_us + 100
    short = f"thread 1: launch 0-{min(call_us, 60)} -> stream 7: {min(call_us, 60) - 8}-{min(call_us, 60) - 4}"
    other = f"thread 1: launch 0-{call_us} -> stream 7: {call_us - kernel_us - 2}-{call_us - 2}"
    text = repeated(40, short, 200), repeated(40, shifted(other, 10_000), period)
    return any(entry.code == "OVL012" for entry in diagnose(trace_of(tmp_path, *text)).findings)


def test_launches_that_last_as_long_as_their_kernels_block(tmp_path: Path) -> None:
    assert blocking(tmp_path, kernel_us=500, call_us=510)


def test_a_slow_host_is_no_blocking_launch(tmp_path: Path) -> None:
    """Every launch takes 60 us, whatever its kernel; kernels of 45 us are over when it returns."""
    assert not blocking(tmp_path, kernel_us=45, call_us=60)
