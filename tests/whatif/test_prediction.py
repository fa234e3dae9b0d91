"""Predictions: what they say, what they promise as data, and that no damaged calibration ends them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from overlapscope import open_trace, what_if
from overlapscope.dependencies.build import build_graph
from overlapscope.measure.windows import of_range, whole
from overlapscope.whatif.baseline import Baseline
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES
from tests.notation import trace_of


@pytest.mark.parametrize(
    ("faulty", "fixed"),
    [
        ("one_stream", "non_blocking_external_stream"),
        ("blocking_external_stream", "non_blocking_external_stream"),
        ("graph_one_branch", "graph_parallel_branch"),
    ],
)
@pytest.mark.parametrize("suffix", ["json.gz", "sqlite.gz"])
def test_what_really_happened_lies_between_the_bounds(faulty: str, fixed: str, suffix: str) -> None:
    """Recorded pairs whose kernels do not read what is copied, which a trace cannot show where streams are shared."""
    found = what_if(open_trace(CASES / f"{faulty}.{suffix}"), ["side-stream"], "pass")
    real = of_range(open_trace(CASES / f"{fixed}.{suffix}"), "pass").wall_ns
    assert 0.95 * found.low_ns < real < 1.05 * found.high_ns
    assert found.low_ns <= found.predicted_ns <= found.high_ns


HUGE = 10**400
COSTLY = (("issue_unprofiled", 1), ("issue_profiled", 10**17))
DAMAGED = {
    "sizes": {"copies": [{"direction": "DtoH", "host_memory": "pinned", "size_bytes": HUGE, "copy_ns": 1}]},
    "times": {"copies": [{"direction": "DtoH", "host_memory": "pinned", "size_bytes": 1, "copy_ns": 10**18}]},
    "pieces": {"packing": {"pieces": [{"size_bytes": 1, "pack_ns": HUGE}]}},
    "packing": {"packing": {"pieces": [{"size_bytes": 1, "pack_ns": 1}], "start_ns": 2**63 - 1, "view_ns": 2**63 - 1}},
    "slow pieces": {"packing": {"pieces": [{"size_bytes": 1, "pack_ns": 2**63 - 1}]}},
    "costly events": {name: {"kernel_ns": at, "copy_ns": at} for name, at in COSTLY},
    "issue": {"issue_unprofiled": {"kernel_ns": HUGE, "copy_ns": 1}, "issue_profiled": {"kernel_ns": 2, "copy_ns": 2}},
    "steps": {name: {"count": HUGE, "wall_ns": HUGE} for name in ("recorded", "unprofiled")},
    "host": {"unprofiled": {"count": 5, "wall_ns": 5, "host_ns": [HUGE] * 5}},
    "lanes": {"devices": [{"number": 0, "link": {"pcie_generation": 5, "pcie_width": HUGE}}]},
    "read before": {"d2h_consumers": {"copy_start_ns": [20_000], "op_start_ns": [0]}},
    "read of nothing": {"d2h_consumers": {"copy_start_ns": [20_000], "op_start_ns": [5]}},
}


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_damaged_calibration_neither_ends_a_prediction_nor_makes_it_absurd(damaged: str, tmp_path: Path) -> None:
    text = """
        thread 1: launch 2-6 -> stream 7: 8-12 | op aten::copy_ 20-2_032
                  copy 1KB pageable DtoH 22-2_031 -> stream 13: 30-2_030 | launch 2_052-2_056 -> stream 7: 2_057-2_067
    """
    trace = trace_of(tmp_path, text, **make.calibrated(**DAMAGED[damaged]), **make.H200)
    for changes in (["pin"], ["pin", "non-blocking"], ["batch-copies"], []):
        found = what_if(trace, changes)
        assert 0 < found.low_ns <= found.predicted_ns <= found.simulated_ns
        assert found.predicted_ns <= found.high_ns <= 1.5 * found.simulated_ns
        assert (found.after.copies.duration_ns >= 0).all()


SIDE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"


def test_json_has_what_is_promised() -> None:
    found = json.loads(json.dumps(what_if(open_trace(SIDE), ["pin"], "gemm_copy").to_dict(), allow_nan=False))
    assert found["schema"] == "overlapscope.what-if/2"
    assert found["window"]["range"] == "gemm_copy"
    assert found["changes"] == ["pin"]
    assert found["low_ns"] <= found["predicted_ns"] <= found["high_ns"] < found["simulated_ns"]
    times = {"simulated_ns", "predicted_ns", "low_ns", "high_ns"}
    assert found["unprofiled"].keys() == times | {"cost", "uncertainty"}
    for basis in (found, found["unprofiled"]):
        assert basis["low_ns"] < basis["predicted_ns"] < basis["high_ns"]
        assert {part["reason"] for part in basis["uncertainty"]} >= {"host", "device"}


def test_a_frame_has_a_row_for_each_basis() -> None:
    found = what_if(open_trace(SIDE), ["pin"], "gemm_copy")
    frame = found.to_pandas()
    assert found.unprofiled is not None
    assert frame.index.tolist() == ["recorded", "unprofiled"]
    assert frame.loc["unprofiled", "predicted_ns"] == found.unprofiled.predicted_ns
    assert frame.loc["recorded", "predicted_ns"] == found.predicted_ns == found.simulated_ns - found.saving_ns


def test_a_sentence_says_what_changes_and_by_how_much() -> None:
    trace = open_trace(SIDE)
    found, same = (what_if(trace, some, "gemm_copy") for some in ("pin", []))
    assert found.sentence.startswith("pin: ")
    assert " % less; without the profiler " in found.sentence
    assert same.sentence.startswith("nothing changed: ")
    assert repr(found) == f"<Prediction: {found.sentence}>"


def test_several_predictions_of_one_trace_have_their_baseline_in_common() -> None:
    """Without bounds, low and high are as predicted."""
    trace = open_trace(CASES / "one_stream.json.gz")
    baseline = Baseline.of(build_graph(trace), whole(trace))
    changes = what_if(trace, "side-stream").changes
    bounded, by_itself = baseline.predict(changes), baseline.predict(changes, bounds=False)
    assert bounded.predicted_ns == by_itself.predicted_ns == what_if(trace, "side-stream").predicted_ns
    assert bounded.low_ns < by_itself.low_ns == by_itself.predicted_ns == by_itself.high_ns
    assert bounded.before is by_itself.before
    assert np.array_equal(bounded.simulation.time_ns, by_itself.simulation.time_ns)
