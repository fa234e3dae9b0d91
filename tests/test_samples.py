"""The sample traces: one program, many variants, two profilers, and what really happened without a profiler."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit
from overlapscope.report.data import Audit
from overlapscope.workloads.gemm_copy import Variant, variants
from tests.conftest import CASES, SAMPLES

ALL = list(variants())
TRUTH = json.loads((SAMPLES / "truth.json").read_text())["unprofiled_wall"]


def audited(variant: Variant, suffix: str = "json.gz") -> Audit:
    return audit(open_trace(SAMPLES / f"gemm_copy-{variant.name}.{suffix}"), "gemm_copy")


@pytest.mark.parametrize("variant", ALL, ids=lambda variant: variant.name)
def test_kineto_samples_show_what_their_program_did(variant: Variant) -> None:
    result = audited(variant)
    (device,) = result.devices
    assert not list(result.trace.health)
    (group,) = device.memory
    assert group.key["direction"] == "HtoD"
    assert group.key["memory"] == variant.memory
    assert (group.count, group.size_bytes) == (6, 6 * 64 * 2**20)
    streams = {row.stream: (row.kernels, row.copies) for row in device.streams}
    assert sorted(streams.values()) == ([(12, 6)] if variant.stream == "same" else [(0, 6), (12, 0)])
    if variant.stream == "same":
        assert device.activity.overlap.total_ns == 0
    assert {copy.range for copy in result.costly} <= {"copy"}


@pytest.mark.parametrize("variant", ALL, ids=lambda variant: variant.name)
def test_the_recorded_wall_is_near_the_unprofiled_one(variant: Variant) -> None:
    truth = TRUTH[f"gemm_copy-{variant.name}"]
    assert truth["repeats"] >= 7
    assert truth["min_ms"] <= truth["median_ms"] <= truth["max_ms"]
    # One recorded pass against a median: the profiler adds a few percent, a pageable pass scatters as much.
    assert audited(variant).window.wall_ns / 1e6 == pytest.approx(truth["median_ms"], rel=0.15)


@pytest.mark.parametrize("variant", ALL, ids=lambda variant: variant.name)
def test_both_profilers_tell_the_same_story(variant: Variant) -> None:
    kineto, nsys = audited(variant), audited(variant, "sqlite.gz")
    for result in (kineto, nsys):
        assert result.trace.metadata.device_name(0) == "NVIDIA H200"
    (one,), (other,) = kineto.devices, nsys.devices
    story = [
        [(group.key["direction"], group.key["memory"], group.count, group.size_bytes) for group in device.memory]
        for device in (one, other)
    ]
    assert story[0] == story[1]
    counted = [
        [(row.stream, row.kernels, row.copies, row.memsets) for row in device.streams] for device in (one, other)
    ]
    assert counted[0] == counted[1]
    # A pageable copy's speed scatters from run to run, and with it the hidden share; the time that a copy and
    # a kernel run at once is set by the kernels.
    first, second = (device.activity.overlap.total_ns for device in (one, other))
    assert first == pytest.approx(second, rel=0.05), "one run against another"
    names = [{trace.names[number] for number in trace.ranges.name_id} for trace in (kineto.trace, nsys.trace)]
    assert {"gemm_copy", "round", "copy", "matmul"} <= names[0] & names[1]


def test_held_host_time_follows_the_memory_kind() -> None:
    """Pageable copies hold the host for as long as they take; pinned ones do not."""
    for variant in ALL:
        (device,) = audited(variant).devices
        (group,) = device.directions
        if variant.memory == "pageable":
            assert group.held_ns > 0.8 * group.total_ns
        else:
            assert group.held_ns < 0.05 * group.total_ns


@pytest.mark.parametrize("path", [*SAMPLES.glob("*.gz"), *CASES.glob("*.gz")], ids=lambda path: path.name)
def test_nothing_private_in_what_is_published(path: Path) -> None:
    import gzip

    data = gzip.decompress(path.read_bytes())
    assert not re.search(rb"/(?:home|root|tmp|work)/|hostname|HOSTNAME|TOKEN|PASSWORD|@[a-z]+\.(com|org)", data)


def test_samples_are_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 600_000
