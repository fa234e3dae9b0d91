"""Truncated traces: the window of an analysis ends where operators, calls and GPU work are all there."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from overlapscope import Trace, analyse, audit, open_trace
from overlapscope.measure.truncation import complete_until
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Health, HealthSeverity, HealthWarning
from tests.conftest import SAMPLES
from tests.opened import swept, trace_at

EVERY = sorted(SAMPLES.glob("*.json.gz"))
LOOPS = [path for path in EVERY if not path.name.startswith("pinning_guide-concurrent")]
"""Without programs that do each thing once: that an operator launches is not seen where its only launch is cut off."""
KEPT = (0.35, 0.5, 0.65, 0.8, 0.95)
"""Shares of the text that are kept."""


def truncated(path: Path, kept: float, to: Path) -> Trace:
    text = gzip.decompress(path.read_bytes())
    file = to / f"{kept}.json"
    file.write_bytes(text[: round(kept * len(text))])
    return open_trace(file)


@pytest.mark.parametrize("path", swept(LOOPS))
def test_what_is_judged_of_a_truncated_trace_is_as_in_the_whole(path: Path, tmp_path: Path) -> None:
    whole = trace_at(path)
    for kept in KEPT:
        trace = truncated(path, kept, tmp_path)
        found = analyse(trace)
        window = Window.between(found.window.first_ns, found.window.last_ns)
        same = {active.key: active for active in analyse(whole, window=window).activities}
        for active in found.activities:
            of_whole = same[active.key]
            for name in ("kernels", "copies", "busy"):
                lost = getattr(of_whole, name).total_ns - getattr(active, name).total_ns
                assert 0 <= lost <= 0.01 * window.wall_ns


@pytest.mark.parametrize("path", swept(EVERY))
def test_a_whole_trace_is_complete_up_to_its_last_work(path: Path) -> None:
    """What ends a truncated trace happens in none that is whole."""
    trace = trace_at(path)
    assert complete_until(trace) == trace.end_ns
    flag = HealthWarning("truncated", HealthSeverity.DAMAGE, 1, None, "the file is truncated")
    last = max(int(table.end_ns.max()) for table in trace.device_work if len(table))
    assert complete_until(replace(trace, health=Health((flag,)))) == last


def test_an_audit_says_up_to_when_a_truncated_trace_is_complete(tmp_path: Path) -> None:
    found = audit(truncated(SAMPLES / "scalar_reads-item.json.gz", 0.6, tmp_path), plan=False)
    end_ms = (found.window.last_ns - found.trace.start_ns) / 1e6
    assert found.window.last_ns < found.trace.end_ns
    assert f"complete up to {end_ms:.3f} ms" in found.fit.statement


def test_a_trace_without_any_complete_part_is_not_judged(tmp_path: Path) -> None:
    found = audit(truncated(SAMPLES / "prefetcher-prefetcher.json.gz", 0.6, tmp_path), plan=False)
    assert len(found.trace.kernels)
    assert "cannot be judged" in found.fit.statement
    assert not found.headline
    assert not found.diagnosis.findings


def test_a_file_cut_off_before_any_gpu_work_is_no_program_without_a_gpu(tmp_path: Path) -> None:
    found = audit(truncated(SAMPLES / "ddp_pageable" / "rank0.json.gz", 0.4, tmp_path))
    assert "truncated" in found.verdict
    assert "used no GPU" not in found.verdict
