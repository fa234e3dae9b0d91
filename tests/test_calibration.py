"""What a recording notes of machine and profiler: written, read again, damaged, published, carried in NVTX marks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from overlapscope.calibration.data import from_json, from_marks, published, to_json, to_marks
from overlapscope.calibration.schema import (
    Calibration,
    CopyConsumers,
    CopyTime,
    D2HConsumers,
    DuplexTime,
    Gpu,
    HostAccesses,
    IssueCost,
    Loader,
    Packing,
    PackTime,
    PcieLink,
    PostStaging,
    ReusedBlocks,
    SampledPlace,
    Sampling,
    TimedSteps,
)
from overlapscope.read.opening import open_trace
from overlapscope.report.tables import tables
from tests import kineto_maker as make
from tests.conftest import SAMPLES
from tests.opened import audit_of, swept

WHOLE = Calibration(
    versions=MappingProxyType({"torch": "2.11"}),
    devices=(Gpu(0, "Test GPU", 1 << 30, 132, "9.0", 3, PcieLink(5, 16, 5, 16)), Gpu(1)),
    copies=(CopyTime("HtoD", "pinned", 1024, 900, device=0),),
    duplex=(DuplexTime("HtoD", 600, 640),),
    packing=Packing((PackTime(4096, 700, 900, 500, 600), PackTime(8192, 800)), start_ns=5_000, view_ns=0),
    post_staging=(PostStaging(1024, (30, 50), (20, 30)), PostStaging(2048, (30,), (20,))),
    issue_unprofiled=IssueCost(6_000, 4_000),
    issue_profiled=IssueCost(call_ns=1_500),
    recorded=TimedSteps(2, 300, (100, 100)),
    unprofiled=TimedSteps(4, 400, (90, 110, 100, 100)),
    loaders=(Loader("a.py:3", 2, True, 4, False, "dict", "Mine", 9, 500, 70, True, (0, 2)), Loader("b.py:1")),
    copy_consumers=CopyConsumers(np.array([4, 9]), np.array([1, 0])),
    d2h_consumers=D2HConsumers(np.array([], np.int64), np.array([], np.int64)),
    host_accesses=HostAccesses(np.array([3, 8]), np.array([0, 0]), np.array([0, 1])),
    reused_blocks=ReusedBlocks(np.array([5]), np.array([7])),
    sampling=Sampling(2_000_000, 50, 900, 100_000),
    unprofiled_samples=(SampledPlace("collate (loader.py:41)", 7), SampledPlace("step (train.py:3)", 2)),
)
VERSION_1 = {
    "schema": "overlapscope.recording/1",
    "versions": {"torch": "2.11"},
    "devices": [{"number": 0, "copy_engines": 3, "link": {"pcie_generation": 5, "pcie_width": 16}}],
    "copies": [
        {"direction": "HtoD", "host_memory": "pinned", "size_bytes": 1024, "copy_ns": 900},
        {"size_bytes": -1},
    ],
    "gathers": [
        {"size_bytes": 4096, "gather_ns": 700, "ragged_ns": 900},
        {"size_bytes": 8192, "gather_ns": 700, "warm_gather_ns": 500, "warm_ragged_ns": 600},
        {"size_bytes": 0, "gather_ns": 1},
        None,
    ],
    "gather_start_ns": 5000,
    "view_ns": -1,
    "after_copies": [
        {"size_bytes": 1024, "issue_ns": 30, "usual_ns": 20},
        {"size_bytes": 2048, "issue_ns": [30, 50], "usual_ns": [20, 30]},
        {"size_bytes": 1024, "issue_ns": 3},
        {"size_bytes": 1024, "issue_ns": [30, 50], "usual_ns": 20},
        {"size_bytes": 1024, "issue_ns": [50, 30], "usual_ns": [20, 30]},
        {"size_bytes": 1024, "issue_ns": [], "usual_ns": []},
        {"size_bytes": 1024, "issue_ns": [30, "x"], "usual_ns": [20, 30]},
        None,
    ],
    "both_ways": [{"direction": "HtoD", "alone_ns": 600, "beside_ns": 640}, {"direction": "DtoH", "alone_ns": 0}],
    "issue": {"unprofiled": {"kernel_ns": 6000, "copy_ns": 4000}, "profiled": {"call_ns": 1500}},
    "steps": {"recorded": {"steps": 2, "wall_ns": 300}, "unprofiled": {"steps": 4, "wall_ns": 400}},
    "touches": {"op_start_ns": [9, 4], "tensor": [0, 1]},
    "reads": {"copy_start_ns": [], "op_start_ns": []},
}


def in_a_trace(about: Any, folder: Path) -> Calibration | None:
    return open_trace(make.write(folder / "t.json", make.kernel(5, 5), overlapscope=about)).metadata.recording


def test_what_is_written_is_read_again() -> None:
    data = json.loads(json.dumps(to_json(WHOLE)))
    found = from_json(data)
    assert found is not None
    assert to_json(found) == data
    assert repr(found) == repr(WHOLE)


def test_what_was_not_measured_stays_so() -> None:
    found = from_json(json.loads(json.dumps(to_json(Calibration()))))
    assert found == Calibration()


def test_the_calibration_of_a_trace_is_read(tmp_path: Path) -> None:
    """Of the first version, with rows that are damaged."""
    devices = [{"id": 0, "name": "Test GPU"}]
    source = make.write(tmp_path / "t.json", make.kernel(5, 5), overlapscope=VERSION_1, deviceProperties=devices)
    metadata = open_trace(source).metadata
    (device,) = metadata.devices
    assert (device.copy_engines, device.pcie_generation, device.pcie_width) == (3, 5, 16)
    recording = metadata.recording
    assert recording is not None
    assert recording.copies == (CopyTime("HtoD", "pinned", 1024, 900),)
    assert recording.packing.pieces == (PackTime(4096, 700, 900), PackTime(8192, 700, None, 500, 600))
    assert (recording.packing.start_ns, recording.packing.view_ns) == (5000, None)
    assert recording.post_staging == (PostStaging(1024, (30,), (20,)), PostStaging(2048, (30, 50), (20, 30)))
    assert recording.duplex == (DuplexTime("HtoD", 600, 640),)
    assert recording.issue_unprofiled == IssueCost(6000, 4000)
    assert recording.issue_profiled == IssueCost(None, None, 1500)
    assert recording.profiler_factor == 1.5
    assert recording.copy_consumers is not None
    assert recording.copy_consumers.op_start_ns.tolist() == [4, 9]
    assert recording.copy_consumers.tensor.tolist() == [1, 0]
    assert recording.d2h_consumers is not None
    assert len(recording.d2h_consumers.op_start_ns) == 0


@pytest.mark.parametrize("schema", ["overlapscope.recording/1", "overlapscope.calibration/2"])
@pytest.mark.parametrize(
    "damaged",
    [3, {}, {"op_start_ns": [1]}, {"op_start_ns": [1], "tensor": [-1]}, {"op_start_ns": [2**70], "tensor": [0]}],
)
def test_damaged_consumers_count_as_none(damaged: Any, schema: str, tmp_path: Path) -> None:
    key = "touches" if schema.endswith("/1") else "copy_consumers"
    recording = in_a_trace({"schema": schema, key: damaged}, tmp_path)
    assert recording is not None
    assert recording.copy_consumers is None or not len(recording.copy_consumers.tensor)


@pytest.mark.parametrize(
    "damaged",
    [
        3,
        [None],
        [{"size_bytes": 1024, "issue_ns": 30, "usual_ns": 20}],
        [{"size_bytes": 0, "issue_ns": [30], "usual_ns": [20]}],
        [{"size_bytes": 1024, "issue_ns": [30, 50], "usual_ns": [20]}],
        [{"size_bytes": 1024, "issue_ns": [30, 30], "usual_ns": [20, 30]}],
        [{"size_bytes": 1024, "issue_ns": [30], "usual_ns": [2**70]}],
    ],
)
def test_damaged_times_after_staging_count_as_none(damaged: Any, tmp_path: Path) -> None:
    recording = in_a_trace({"schema": "overlapscope.calibration/2", "post_staging": damaged}, tmp_path)
    assert recording == Calibration()


@pytest.mark.parametrize(
    "about",
    [
        None,
        1,
        [],
        {},
        {"schema": "other"},
        {"schema": []},
        {"schema": "overlapscope.recording/1", "steps": 3, "copies": 4},
        {"schema": "overlapscope.recording/1", "steps": {"recorded": {"steps": 0, "wall_ns": 5}}, "issue": [1]},
        {"schema": "overlapscope.calibration/2", "recorded": 3, "copies": 4, "packing": 5, "versions": 6},
    ],
)
def test_a_malformed_calibration_counts_as_none(about: Any, tmp_path: Path) -> None:
    recording = in_a_trace(about, tmp_path)
    assert recording is None or (recording.recorded, recording.copies) == (None, ())


def scattered(count: int) -> TimedSteps:
    """Steps of which pairs lie evenly around 20 000 ns, the middle half of them within 27 % of that."""
    pairs = count // 2
    sums = [20_000 + 2 * 0.27 * 20_000 * (index / (pairs - 1) - 0.5) for index in range(pairs)]
    return TimedSteps(count, 1_000, tuple(half for each in sums for half in (round(each) - 7_000, 7_000)))


def test_steps_that_scatter_are_surer_the_more_there_are() -> None:
    """Pairs of steps, that is."""
    few, many = (scattered(count) for count in (8, 32))
    assert (few.scatter, many.scatter) == (pytest.approx(0.27), pytest.approx(0.27))
    assert Calibration(unprofiled=few).unsure == pytest.approx(0.1)
    assert Calibration(unprofiled=many).unsure == pytest.approx(0.05)
    assert Calibration().unsure == 0
    assert TimedSteps(3, 1_000, (1, 2, 900)).scatter == 0, "too few to tell"


def test_only_what_is_understood_is_published() -> None:
    secret = {"env": {"A": "secret"}, "argv": ["secret"]}
    data = to_json(WHOLE) | secret | {"host": "secret"}
    data["devices"][0] |= secret
    data["copies"] += [secret, {"size_bytes": 1, "copy_ns": 1, "direction": secret}]
    data["recorded"]["host_ns"].append("secret")
    data["versions"]["python"] = secret
    assert "secret" not in json.dumps(published(data))
    assert published({"schema": "other", "secret": 1}) is None
    known = published(VERSION_1)
    assert known is not None
    assert published(known) == known
    assert repr(from_json(known)) == repr(from_json(VERSION_1))


def test_a_sample_says_the_same_once_it_is_published() -> None:
    recording = open_trace(SAMPLES / "pinning_guide-to.json.gz").metadata.recording
    assert recording is not None
    assert recording.copy_consumers is not None
    assert repr(from_json(published(to_json(recording)))) == repr(recording)


def test_marks_carry_a_calibration_in_pieces() -> None:
    data = to_json(WHOLE) | {"versions": {"torch": '2.11 "quoted" é' * 99}}
    marks = to_marks(data)
    assert len(marks) > 3
    assert max(map(len, marks)) < 550, "tools cut long texts"
    assert from_marks(["another", *reversed(marks)]) == data
    assert from_marks(marks[:-1]) is None
    assert from_marks([*marks[:-1], marks[-1] + "}"]) is None


def test_a_program_that_is_recorded_imports_no_more_than_it_did() -> None:
    code = (
        "import sys\n"
        "sys.modules['numpy'] = sys.modules['torch'] = None\n"
        "from overlapscope.calibration.schema import Calibration\n"
        "from overlapscope.calibration import data\n"
        "print(data.to_marks(data.to_json(Calibration())))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "overlapscope.calibration/2" in result.stdout


@pytest.mark.parametrize("path", swept(sorted(SAMPLES.glob("*pageable*.json.gz"))))
def test_what_staging_cost_is_known_from_the_calibration(path: Path) -> None:
    """Pageable copies take longer than pinned ones would by what the calibration measured, of which the audit tells."""
    found = audit_of(path)
    rows = [row for device in found.devices for row in device.staging if row.size_bytes]
    assert rows
    for row in rows:
        assert row.compared_count == row.count
        assert row.staging_cost_ns is not None
        assert row.staging_cost_ns < row.total_ns
    (copies,) = (table for table in tables(found) if table.title == "Copies")
    assert any(column.heading.startswith("staging") for column in copies.columns)
