"""Every public trace: it opens or is refused with a clear sentence, and its figures are those of brute force."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from overlapscope.errors import UnknownTraceFormat
from overlapscope.measure.definitions import their_overlap
from overlapscope.measure.devices import without_kernels
from overlapscope.read.opening import open_trace
from tests import oracle
from tests.conftest import REFUSED, audited, manifest, opened, trace_id

NOTHING_ON_A_GPU = {
    "hta-mtia-inference", "dtu-win-cpu", "hta-cpu-only", "hta-no-distinfo", "hta-rank-not-found", "hta-rank-non-gpu",
    "pt-cpu", "zoology-lost-gpu", "nsys-gtls-nocuda", "nsys-lt-empty",
}  # fmt: skip


def test_opens_or_is_refused(corpus_file: Path) -> None:
    if trace_id(corpus_file) in REFUSED:
        with pytest.raises(UnknownTraceFormat) as refusal:
            open_trace(corpus_file)
        assert str(corpus_file) in str(refusal.value)
        assert len(str(refusal.value).removeprefix(str(corpus_file))) > 20
        return
    trace = opened(corpus_file)
    assert trace.health.events_read >= trace.health.events_kept > 0
    on_gpu = len(trace.kernels) + len(trace.copies) + len(trace.memsets)
    assert (on_gpu == 0) == (trace_id(corpus_file) in NOTHING_ON_A_GPU)
    codes = ("no-device-work", "device-work-lost", "unknown-device-work")
    assert (on_gpu == 0) == any(trace.health.has(code) for code in codes)


def test_figures_are_those_of_brute_force(corpus_trace: Path) -> None:
    trace = opened(corpus_trace)
    expected = oracle.figures(corpus_trace)
    result = audited(corpus_trace)
    for number in expected:
        mine = [device for device in result.devices if device.key.device == number]
        assert mine, f"device {number} is missing"
        truth = expected[number]
        # Brute force knows device numbers only; where processes share one, compare what adds up.
        assert sum(len(trace.copies.take(device.key.rows(trace.copies))) for device in mine) == len(truth.copies)
        assert sum(group.size_bytes or 0 for device in mine for group in device.directions) == truth.copy_bytes
        if len(mine) == 1:
            activity = mine[0].activity
            assert activity.kernels.total_ns == truth.kernel_busy
            assert activity.copies.total_ns == truth.copy_busy
            assert activity.overlap.total_ns == truth.overlap
            assert activity.idle.total_ns == truth.idle
            assert mine[0].idle.total_ns == truth.idle
            if len(truth.copies) < 300:  # quadratic
                assert sum(group.hidden_ns for group in mine[0].directions) == truth.hidden
    assert len(result.devices) >= len(expected)


def test_figures_are_those_of_the_manifest(corpus_trace: Path) -> None:
    trace = opened(corpus_trace)
    stats = manifest()[trace_id(corpus_trace)]["stats"]
    by_device = {device.key.device: device.activity for device in audited(corpus_trace).devices}
    for number, truth in (stats.get("copy_kernel_overlap") or {}).items():
        activity = by_device[int(number)]
        # The manifest adds up floats of 1e12 us, which hold no nanoseconds.
        assert activity.copies.total_ns == pytest.approx(truth["copy_us"] * 1000, abs=50)
        assert activity.kernels.total_ns == pytest.approx(truth["kernel_us"] * 1000, abs=50)
        assert activity.overlap.total_ns == pytest.approx(truth["overlap_us"] * 1000, abs=50)
    copies = stats.get("gpu_memcpy") or {}
    assert len(trace.copies) == sum(entry["n"] for entry in copies.values())
    if stats.get("gpu_events_linked"):
        linked = int(stats["gpu_events_linked"].split("/")[0])
        work = (trace.kernels, trace.copies, trace.memsets)
        assert sum(int((table.call >= 0).sum()) for table in work) == pytest.approx(linked, abs=2)


def test_nothing_is_counted_twice(corpus_trace: Path) -> None:
    for device in audited(corpus_trace).devices:
        activity = device.activity
        assert 0 <= activity.overlap.total_ns <= min(activity.kernels.total_ns, activity.copies.total_ns)
        assert activity.busy.total_ns + activity.idle.total_ns == activity.span_ns
        assert min(device.idle.to_dict().values()) >= 0
        assert min(device.kernel_gaps.to_dict().values()) >= 0
        assert device.kernel_gaps.total_ns == without_kernels(activity).total_ns
        for group in device.memory:
            assert group.hidden_ns + group.exposed_ns == group.total_ns
            assert group.busy_ns <= group.total_ns


def test_hta_gives_the_same_under_its_own_definition(corpus: Path) -> None:
    reference = json.loads((Path(__file__).parent / "data" / "hta_reference.json").read_text())
    for entry in reference["figures"]:
        (path,) = corpus.glob(f"{entry['trace']}__*")
        (mine,) = their_overlap(open_trace(path), "hta", last_step=entry["include_last_profiler_step"])
        assert round(100 * (mine.overlap_fraction or 0), 2) == entry["comp_comm_overlap_pctg"], entry
        assert mine.computation_ns == entry["compute_us"] * 1000, entry
        assert mine.busy_ns - mine.computation_ns == entry["non_compute_us"] * 1000, entry
        assert mine.idle_ns == entry["idle_us"] * 1000, entry


def test_tracelens_gives_the_same_under_its_own_definition(corpus: Path) -> None:
    checked = 0
    for table in corpus.glob("*/*.gpu_timeline.csv"):
        path = table.with_name(table.name.replace(".gpu_timeline.csv", ".json.gz"))
        if not path.exists() or trace_id(path) == "tl-mi300-norm":
            continue  # that reference was made by a version that leaves memsets out altogether
        reference = {row["type"]: float(row["time ms"]) for row in csv.DictReader(table.read_text().splitlines())}
        (mine,) = their_overlap(open_trace(path), "tracelens")
        pairs = {
            "computation_time": mine.computation_ns,
            "exposed_comm_time": mine.exposed_communication_ns,
            "exposed_memcpy_time": mine.exposed_memory_ns,
            "busy_time": mine.busy_ns,
            "idle_time": mine.idle_ns,
            "total_time": mine.total_ns,
            "total_comm_time": mine.communication_ns,
            "total_memcpy_time": mine.memory_ns,
        }
        for name, value in pairs.items():
            # Their sums are of floats of 1e12 us, each off by up to a tenth of a microsecond.
            assert value / 1e6 == pytest.approx(reference[name], abs=1e-4), (path.name, name)
        checked += 1
    assert checked >= 9
