"""What a trace does not say makes intervals wider, never narrower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from overlapscope import Prediction, Trace, open_trace, what_if
from overlapscope.whatif.sources import Estimate, Reason
from tests import kineto_maker as make
from tests.conftest import SAMPLES
from tests.notation import trace_of

PAIRS = SAMPLES.parent / "benchmarks" / "pairs"
ROUNDING = 0.005


def without_sizes(trace: Trace) -> Trace:
    return replace(trace, copies=replace(trace.copies, size_bytes=np.full(len(trace.copies), -1)))


def on_both_bases(found: Prediction) -> tuple[Estimate, Estimate]:
    return found.estimate, found.unprofiled.estimate


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("pinning_guide-to", ("pin", "non-blocking")),
        ("moe_prefetch-pageable", ("pin", "non-blocking")),
        ("offload-pageable-same", ("pin", "non-blocking", "side-stream")),
        ("dataloader_train-pageable-blocking", ("pin",)),
        ("pinning_guide-list-to", ("batch-copies",)),
        ("pinning_guide-tensordict-to", ("batch-copies",)),
        ("image_validation-faulty-plain", ("pin", "non-blocking")),
        ("gradient_offload-faulty-plain", ("pin",)),
    ],
)
def test_without_sizes_copies_may_be_as_short_as_they_can(name: str, changes: tuple[str, ...]) -> None:
    folder = SAMPLES if (SAMPLES / f"{name}.json.gz").exists() else PAIRS
    trace = open_trace(folder / f"{name}.json.gz")
    known, unknown = (on_both_bases(what_if(each, changes)) for each in (trace, without_sizes(trace)))
    for sized, unsized in zip(known, unknown, strict=True):
        assert unsized.low_ns <= sized.low_ns + ROUNDING * sized.predicted_ns
        assert unsized.low_ns <= unsized.predicted_ns <= unsized.high_ns


@pytest.mark.parametrize("name", ["up_and_down-faulty", "kv_round_trip-faulty"])
def test_without_sizes_what_goes_up_may_be_what_came_down(name: str) -> None:
    trace = open_trace(PAIRS / f"{name}.json.gz")
    known, unknown = (what_if(each, "side-stream") for each in (trace, without_sizes(trace)))
    assert unknown.high_ns >= known.high_ns * (1 - ROUNDING)


def test_a_copy_without_a_size_may_be_tiny_and_the_engine_as_little_busy(tmp_path: Path) -> None:
    """It takes 10 ms as it is, and pinned 1.5 us at least: low is what else there is, less what varies."""
    text = "copy 100MiB pageable HtoD 0-10_000 -> stream 7: 5-10_000 | launch 10_004-10_008 -> stream 7: 10_020-10_040"
    trace = trace_of(tmp_path, text, **make.H200)
    found = what_if(without_sizes(trace), "pin")
    assert found.low_ns < 100_000 < what_if(trace, "pin").low_ns
    assert found.predicted_ns > 9_000_000, "no other duration is known"
    assert found.estimate.widest is Reason.SIZE
    assert found.narrowed_by == "a recording that has the sizes of copies"
