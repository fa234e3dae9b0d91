"""The sample traces: all programs and variants, two profilers, and what really happened without a profiler."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.trace import HealthSeverity, Trace
from overlapscope.report.data import Audit, DeviceAudit
from overlapscope.workloads.gemm_copy import WORKLOAD as GEMM, Choices
from overlapscope.workloads.harness import Variant, workloads
from overlapscope.workloads.streams import CopyStream, Memory
from sample_traces.make import TIMES_ONLY
from tests.conftest import CASES, SAMPLES
from tests.opened import audit_of, swept, trace_at

TRUTH = json.loads((SAMPLES / "truth.json").read_text())
WALLS: dict[str, dict[str, Any]] = TRUTH["unprofiled_wall"]
NOT_YET = {"host_round_trip", "staging_buffer", "freed_memory"}
"""Workloads that were not yet run on a GPU."""
TIMED = [
    f"{workload.name}-{variant.name}"
    for workload in workloads()
    if workload.name not in NOT_YET
    for variant in workload.variants
]
ALL = [name for name in TIMED if name not in TIMES_ONLY]
KINETO, NSYS = "json.gz", "sqlite.gz"


def sample(name: str, suffix: str = KINETO) -> Trace:
    return trace_at(SAMPLES / f"{name}.{suffix}")


def audited(name: str, suffix: str = KINETO) -> Audit:
    return audit_of(SAMPLES / f"{name}.{suffix}", name.partition("-")[0])


def device(name: str, suffix: str = KINETO) -> DeviceAudit:
    (only,) = audited(name, suffix).devices
    return only


def copied(name: str, suffix: str = KINETO) -> dict[tuple[str, str], tuple[int, int | None]]:
    """Copies and bytes by direction and kind of host memory."""
    return {
        (group.key["direction"], group.key["memory"]): (group.count, group.size_bytes)
        for group in device(name, suffix).memory
    }


def held_share(name: str, direction: str) -> float:
    """Host time held by the copies of a direction, over the time that they took."""
    (group,) = [group for group in device(name).directions if group.key["direction"] == direction]
    return group.blocked_ns / group.total_ns


def wall(name: str) -> float:
    return float(WALLS[name]["median_ms"])


# All samples


def test_there_is_a_time_for_every_variant_and_a_sample_of_most() -> None:
    assert sorted(WALLS) == sorted(TIMED)
    assert sorted(path.name for path in SAMPLES.glob(f"*.{KINETO}")) == sorted(f"{name}.{KINETO}" for name in ALL)
    assert {"versions", "devices"} <= TRUTH["machine"].keys()


@pytest.mark.parametrize("name", ALL)
def test_a_sample_is_whole_and_carries_its_calibration(name: str) -> None:
    trace = sample(name)
    assert {warning.severity for warning in trace.health} <= {HealthSeverity.INFO}
    result = audited(name)
    assert len(result.window.start_ns) == 1
    recording = trace.metadata.recording
    assert recording is not None
    assert {(copy.direction, copy.host_memory) for copy in recording.copies} == {
        (direction, memory) for direction in ("HtoD", "DtoH") for memory in ("pageable", "pinned")
    }
    assert recording.unprofiled is not None
    assert recording.unprofiled.count == 5
    assert trace.metadata.devices[0].copy_engines == 3


@pytest.mark.parametrize("name", ALL)
def test_the_recorded_pass_is_the_pass_that_was_timed(name: str) -> None:
    """The profiler makes a pass longer, by up to its cost per call; a pageable pass scatters as much."""
    truth, recorded_ms = WALLS[name], audited(name).window.wall_ns / 1e6
    assert truth["repeats"] >= 7
    assert truth["min_ms"] <= truth["median_ms"] <= truth["max_ms"]
    calls_us = 20 * len(sample(name).api_calls)
    assert 0.8 * truth["min_ms"] <= recorded_ms <= 1.5 * truth["max_ms"] + calls_us / 1e3


@pytest.mark.parametrize("path", swept(SAMPLES.glob(f"*.{NSYS}")))
def test_both_profilers_tell_the_same_story(path: Path) -> None:
    name = path.name.removesuffix(f".{NSYS}")
    assert sample(name, NSYS).metadata.device_name(0) == sample(name).metadata.device_name(0) == "NVIDIA H200"
    assert copied(name) == copied(name, NSYS)
    story = [
        sorted((row.stream, row.kernels, row.copies) for row in device(name, suffix).streams)
        for suffix in (KINETO, NSYS)
    ]
    assert [row[1:] for row in story[0]] == [row[1:] for row in story[1]]


@pytest.mark.parametrize("path", swept(SAMPLES.glob(f"*.{NSYS}")))
def test_ranges_have_the_same_names_and_nesting_for_both_profilers(path: Path) -> None:
    name = path.name.removesuffix(f".{NSYS}")
    kineto, nsys = (sorted(nesting(sample(name, suffix))) for suffix in (KINETO, NSYS))
    assert any(name.partition("-")[0] in thread.splitlines() for thread in nsys)
    assert kineto == nsys


FOREIGN = re.compile(r"ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)|cub::")
"""Ranges of torch, which never reach NVTX, and of CUDA libraries, which reach nothing else."""


def nesting(trace: Trace) -> Iterator[str]:
    """For each thread, its ranges as text: names in the order of their beginning, indented by depth."""
    ranges = trace.ranges
    for thread in np.unique(ranges.thread):
        rows = [
            row
            for row in np.flatnonzero(ranges.thread == thread)
            if not FOREIGN.match(ranges.names[ranges.name_id[row]])
        ]
        rows.sort(key=lambda row: (ranges.start_ns[row], -ranges.end_ns[row]))
        lines, open_until = [], []
        for row in rows:
            while open_until and open_until[-1] <= ranges.start_ns[row]:
                open_until.pop()
            lines.append(" " * len(open_until) + ranges.names[ranges.name_id[row]])
            open_until.append(ranges.end_ns[row])
        if lines:
            yield "\n".join(lines)


# What each program did


@pytest.mark.parametrize("variant", GEMM.variants, ids=lambda variant: variant.name)
def test_gemm_copy_did_what_its_choices_say(variant: Variant[Choices]) -> None:
    name, choices = f"gemm_copy-{variant.name}", variant.choices
    assert copied(name) == {("HtoD", str(choices.memory)): (6, 6 * 64 * 2**20)}
    streams = sorted((row.kernels, row.copies) for row in device(name).streams)
    assert streams == ([(12, 6)] if choices.stream is CopyStream.SAME else [(0, 6), (12, 0)])
    if choices.stream is CopyStream.SAME:
        assert device(name).activity.overlap.total_ns == 0
    assert {copy.range for copy in audited(name).costly} <= {"copy"}
    if choices.memory is Memory.PAGEABLE:
        assert held_share(name, "HtoD") > 0.8
    else:
        assert held_share(name, "HtoD") < 0.05


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith("gemm_copy")])
def test_a_copy_and_a_kernel_run_at_once_as_long_for_both_profilers(name: str) -> None:
    # A pageable copy's speed scatters from run to run, and with it the hidden share; the time that a copy and
    # a kernel run at once is set by the kernels, or by pinned copies, which scatter less.
    first, second = (device(name, suffix).activity.overlap.total_ns for suffix in (KINETO, NSYS))
    assert first == pytest.approx(second, rel=0.15), "one run against another"


def host_waits(name: str) -> int:
    """Synchronisations of streams while the pass ran; the device is synchronised once, at its end."""
    trace = sample(name)
    names = [trace.names[number] for number in trace.api_calls.name_id]
    (window,) = zip(audited(name).window.start_ns, audited(name).window.end_ns, strict=True)
    inside = (trace.api_calls.start_ns >= window[0]) & (trace.api_calls.end_ns <= window[1])
    return sum(names[row] == "cudaStreamSynchronize" for row in np.flatnonzero(inside))


def test_moe_prefetch_loses_one_obstacle_after_the_other() -> None:
    def experts(variant: str) -> set[str]:
        copies = sample(f"moe_prefetch-{variant}").copies
        large = (copies.direction == Direction.HTOD) & (copies.size_bytes > 2**20)
        return {MemoryKind(kind).label for kind in copies.source_kind[large]}

    assert experts("pageable") == experts("pageable-non-blocking") == {"pageable"}
    assert experts("pinned") == experts("pinned-non-blocking") == experts("no-host-routing") == {"pinned"}
    assert held_share("moe_prefetch-pageable", "HtoD") > 0.8
    assert held_share("moe_prefetch-pinned-non-blocking", "HtoD") < 0.05
    assert host_waits("moe_prefetch-pinned") > host_waits("moe_prefetch-pinned-non-blocking") > 0
    assert host_waits("moe_prefetch-no-host-routing") == host_waits("moe_prefetch-ahead") == 0
    assert wall("moe_prefetch-pageable") > wall("moe_prefetch-pinned") > wall("moe_prefetch-pinned-non-blocking")
    assert wall("moe_prefetch-pinned-non-blocking") > wall("moe_prefetch-ahead")


def test_moe_sparse_reads_the_gpu_for_each_expert_and_sends_few() -> None:
    copies = sample("moe_sparse-as-asked").copies
    experts = (copies.direction == Direction.HTOD) & (copies.size_bytes > 2**20)
    assert {MemoryKind(kind).label for kind in copies.source_kind[experts]} == {"pageable"}
    assert np.count_nonzero(copies.direction == Direction.DTOH) > np.count_nonzero(experts) > 0
    assert host_waits("moe_sparse-as-asked") > 300
    assert wall("moe_sparse-as-asked") > 2 * wall("moe_sparse-pinned") > 3 * wall("moe_sparse-one-read")
    assert wall("moe_sparse-one-read") > 0.98 * wall("moe_sparse-ahead")


def test_pinning_guide_sent_what_it_says() -> None:
    large, small = (6, 6 * 64 * 2**20), (600, 600 * 64 * 2**10)
    for variant in ("to", "to-non-blocking"):
        assert copied(f"pinning_guide-{variant}") == {("HtoD", "pageable"): large}
    for variant in ("pin-then-to", "pinned-ahead", "pin-then-blocking", "pinned-blocking"):
        assert copied(f"pinning_guide-{variant}") == {("HtoD", "pinned"): large}
    for variant in ("list-to", "list-to-non-blocking", "tensordict-to"):
        assert copied(f"pinning_guide-{variant}") == {("HtoD", "pageable"): small}
    for variant in ("list-pinned-ahead", "tensordict-pin-then-to"):
        assert copied(f"pinning_guide-{variant}") == {("HtoD", "pinned"): small}
    assert copied("pinning_guide-coalesced") == {("HtoD", "pinned"): (1, small[1])}


def test_each_broken_requirement_shows() -> None:
    def activity(variant: str) -> Any:
        return device(f"pinning_guide-{variant}").activity

    assert activity("concurrent").hidden_fraction > 0.9
    assert activity("concurrent-one-stream").hidden_fraction < 0.02  # the last of the other copies may end late
    assert held_share("pinning_guide-concurrent-pageable", "HtoD") > 0.8
    assert held_share("pinning_guide-concurrent-busy-engine", "HtoD") < 0.05
    # Two streams, one engine: never two copies at once, whatever the streams hoped for.
    assert activity("concurrent-busy-engine").copy_concurrency.total_ns == 0
    assert len(device("pinning_guide-concurrent-busy-engine").streams) == 3


def test_reading_too_early_is_wrong_every_time() -> None:
    early, late = WALLS["pinning_guide-read-early"], WALLS["pinning_guide-read-after-wait"]
    assert early["checksums_wrong"] == early["checksums_read"] > 0
    written = WALLS["pinning_guide-read-as-written"]
    assert written["checksums_read"] >= written["checksums_wrong"] > 0.9 * written["checksums_read"]
    assert late["checksums_wrong"] == 0 < late["checksums_read"]


@pytest.mark.parametrize(
    ("variant", "memory"),
    [
        ("pageable-blocking", "pageable"),
        ("pageable-non-blocking", "pageable"),
        ("pinned-blocking", "pinned"),
        ("pinned-non-blocking", "pinned"),
        ("custom-not-pinned", "pageable"),
        ("custom-pinned", "pinned"),
        ("pinned-item", "pinned"),
        ("article-loop", "pinned"),
    ],
)
def test_dataloader_train_copied_from(variant: str, memory: str) -> None:
    copies = sample(f"dataloader_train-{variant}").copies
    images = (copies.direction == Direction.HTOD) & (copies.size_bytes > 2**20)
    assert {MemoryKind(kind).label for kind in copies.source_kind[images]} == {memory}
    assert np.count_nonzero(images) == 10
    assert WALLS[f"dataloader_train-{variant}"]["transfer_ms"] > 0


def test_a_forward_pass_is_no_synchronisation() -> None:
    """The host is through with ``model(images)`` before the device is; and nothing in the loop waits for it."""
    for variant in ("non-blocking", "prefetcher"):
        truth = WALLS[f"prefetcher-{variant}"]
        assert truth["forward_host_ms"] < truth["forward_device_ms"]
        assert host_waits(f"prefetcher-{variant}") == 0


def test_a_prefetcher_hides_what_one_stream_cannot() -> None:
    assert device("prefetcher-non-blocking").activity.hidden_fraction < 0.01
    assert device("prefetcher-prefetcher").activity.hidden_fraction > 0.5
    assert held_share("prefetcher-prefetcher-pageable", "HtoD") > 0.8
    assert wall("prefetcher-prefetcher") < wall("prefetcher-non-blocking") < wall("prefetcher-prefetcher-pageable")


def test_offload_goes_both_ways() -> None:
    bytes_each = 4096 * 4096 * 4
    for variant, memory in (("pageable-same", "pageable"), ("pinned-same", "pinned"), ("pinned-side", "pinned")):
        found = copied(f"offload-{variant}")
        assert found["DtoH", memory] == found["HtoD", memory] == (6, 6 * bytes_each)
    assert device("offload-pinned-same").activity.overlap.total_ns == 0
    assert device("offload-pinned-side").activity.hidden_fraction > 0.8
    assert wall("offload-pinned-side") < wall("offload-pinned-same") < wall("offload-pageable-same")


@pytest.mark.parametrize(("variant", "reads"), [("item", 20), ("cpu", 20), ("item-deferred", 1), ("cpu-deferred", 20)])
def test_scalar_reads_are_small_and_many(variant: str, reads: int) -> None:
    copies = sample(f"scalar_reads-{variant}").copies
    assert np.count_nonzero(copies.direction == Direction.DTOH) == reads
    assert copies.size_bytes.max() <= 8


@pytest.mark.parametrize("read", ["item", "cpu", "nonzero"])
def test_a_read_that_waits_costs_more_than_one_that_does_not(read: str) -> None:
    assert host_waits(f"scalar_reads-{read}") >= 20
    assert host_waits(f"scalar_reads-{read}-deferred") <= 1
    assert wall(f"scalar_reads-{read}") > wall(f"scalar_reads-{read}-deferred")


def test_a_kernel_that_reads_host_memory_needs_no_copy_and_more_time() -> None:
    assert copied("zero_copy-mapped") == {}
    assert copied("zero_copy-copied") == {("HtoD", "pinned"): (6, 6 * 64 * 2**20)}
    assert device("zero_copy-copied").activity.hidden_fraction > 0.8
    assert wall("zero_copy-mapped") > wall("zero_copy-copied")


def test_a_wait_inside_leaves_sums_wrong() -> None:
    inside, outside = WALLS["self_wait-read-unordered"], WALLS["self_wait-read-ordered"]
    assert 0 < inside["sums_wrong"] <= inside["sums_read"] == outside["sums_read"]
    assert outside["sums_wrong"] == 0
    assert device("self_wait-read-unordered").activity.hidden_fraction > 0.8
    assert device("self_wait-read-ordered").activity.hidden_fraction < 0.01


def test_page_locking_in_the_loop_costs_more_than_the_copies() -> None:
    def locking(variant: str) -> int:
        names = sample(f"page_locking-{variant}").api_calls
        table = sample(f"page_locking-{variant}").names
        return sum(table[number] in {"cudaHostRegister", "cudaHostUnregister"} for number in names.name_id)

    assert (locking("each-step"), locking("once")) == (12, 0)
    assert copied("page_locking-each-step") == copied("page_locking-once") == {("HtoD", "pinned"): (6, 6 * 64 * 2**20)}
    assert wall("page_locking-each-step") > wall("page_locking-once")


# The files


@pytest.mark.parametrize("path", swept(SAMPLES.glob(f"*.{KINETO}")))
def test_a_sample_keeps_to_the_rules_of_the_trace_event_format(path: Path) -> None:
    """What Perfetto and chrome://tracing ask of JSON: complete events with numbers, flows that end."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    ends: dict[str, set[Any]] = {"s": set(), "f": set()}
    for event in events:
        assert {"ph", "name", "pid", "tid", "ts"} <= event.keys()
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] in ends:
            ends[event["ph"]].add((event["cat"], event["id"]))
    assert ends["s"] <= ends["f"]


@pytest.mark.parametrize("path", [*SAMPLES.glob("*.gz"), *CASES.glob("*.gz")], ids=lambda path: path.name)
def test_nothing_private_in_what_is_published(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    assert not re.search(rb"/(?:home|root|tmp|work)/|hostname|HOSTNAME|TOKEN|PASSWORD|@[a-z]+\.(com|org)", data)


def test_samples_are_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 20_000_000
