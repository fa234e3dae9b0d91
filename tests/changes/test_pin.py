"""Pageable memory is pinned ahead of time: faster copies, calls that return at once, and readers that still wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from overlapscope import what_if
from overlapscope.model.enums import ApiKind, MemoryKind
from tests import kineto_maker as make
from tests.bounds import by_order_ns
from tests.notation import trace_of


def test_pinning_frees_the_host_and_shortens_the_copy(tmp_path: Path) -> None:
    """A 55 MB pageable copy blocks its call for 5 ms; pinned, it takes 1 ms, and the kernel runs beside it."""
    trace = trace_of(
        tmp_path,
        """
        thread 1: launch 0-4 -> stream 7: 5-505 | copy 55MB pageable HtoD 10-5_010 -> stream 13: 12-5_008
                  launch 5_020-5_024 -> stream 7: 5_025-5_525
        """,
        **make.H200,
    )
    found = what_if(trace, ["pin"])
    assert found.simulated_ns == 5_520_000
    assert found.predicted_ns == pytest.approx(1_020_000, rel=0.02), "the copy ends last"
    assert found.after.copies.source_kind.tolist() == [MemoryKind.PINNED]
    assert any("PCIe 5" in text for text in found.assumptions)


def test_a_call_that_blocks_by_name_blocks_from_pinned_memory_too(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: memcpy 55MB pageable HtoD 0-5_005 -> stream 13: 4-5_004 | launch 5_015-5_019 -> stream 9: 5_025-6_025
        """,
        **make.H200,
    )
    pinned = what_if(trace, ["pin"])
    assert pinned.predicted_ns == pytest.approx(2_020_000, rel=0.02)
    assert what_if(trace, ["pin", "non-blocking"]).predicted_ns == pytest.approx(1_020_000, rel=0.05)


@pytest.mark.parametrize(("issue", "call_us"), [({"call_ns": 2_000}, 2), ({"copy_ns": 3_000}, 3), ({}, 9)])
def test_a_pinned_copy_s_call_takes_what_the_calibration_says(
    issue: dict[str, int], call_us: float, tmp_path: Path
) -> None:
    """No pinned copy is in the trace; without a calibration its call takes as long as a launch, 9 us."""
    events = []
    for index in range(10):
        begin = 100 * index
        events += [
            make.call(begin, 9, correlation=2 * index + 1),
            make.kernel(begin + 12, 1, correlation=2 * index + 1),
            make.call(begin + 20, 40, name="cudaMemcpyAsync", correlation=2 * index + 2),
            make.copy(begin + 30, 25, size=4096, correlation=2 * index + 2),
        ]
    about = make.calibrated(issue_unprofiled={"copy_ns": 4_000} if issue else {}, issue_profiled=issue)
    after = what_if(trace_of(tmp_path, *events, **about, **make.H200), ["pin"]).after
    copies = after.api_calls.take(after.api_calls.kind == ApiKind.COPY)
    wanted = 4_000 if issue == {"copy_ns": 3_000} else 1_000 * call_us
    assert np.median(copies.end_ns - copies.start_ns) == wanted, "what issuing takes bounds it where no call was timed"


RESULT = "op aten::copy_ 20-2_032 | copy 1KB pageable DtoH 22-2_031 -> stream 13: 30-2_030"


def test_a_pinned_result_is_still_waited_for_before_it_is_read(tmp_path: Path) -> None:
    """It came by an asynchronous copy to pageable memory, whose call was the wait."""
    text = f"{RESULT} | op aten::sum 2_040-2_042 | launch 2_052-2_056 -> stream 7: 2_057-2_067"
    reads = {"copy_start_ns": [20_000], "op_start_ns": [2_040_000]}
    known = what_if(trace_of(tmp_path, text, **make.calibrated(d2h_consumers=reads)), ["pin"])
    assert known.after.api_calls.start_ns[1] >= known.after.copies.end_ns[0]
    assert by_order_ns(known.estimate)[1] == known.predicted_ns
    unknown = what_if(trace_of(tmp_path, text), ["pin"])
    assert by_order_ns(unknown.estimate)[1] > unknown.predicted_ns + 20_000, "it may be read after the call, as it was"


@pytest.mark.parametrize("changes", [["pin"], ["pin", "non-blocking"]])
@pytest.mark.parametrize("making", [("aten::to", "aten::_to_copy"), ("aten::to",), ("aten::copy_",), ()])
def test_a_new_tensor_on_the_host_is_read_at_once(making: tuple[str, ...], changes: list[str], tmp_path: Path) -> None:
    """As ``.cpu()`` makes one; what goes to a buffer that was there may be read later. The other way is a bound."""
    around = [make.cpu_op(name, 10 + at, 2_040 - 2 * at) for at, name in enumerate(making)]
    trace = trace_of(
        tmp_path,
        """
        thread 1: op aten::copy_ 20-2_032 | copy 100MiB pageable DtoH 22-2_031 -> stream 7: 30-2_030
                  stream-sync 2_034-2_040 -> stream 7 | launch 2_052-2_056 -> stream 7: 2_057-2_067
                  launch 2_070-2_074 -> stream 9: 2_080-4_080
        """,
        *around,
        **make.H200,
    )
    found = what_if(trace, changes)
    calls, copies = found.after.api_calls, found.after.copies
    waited = calls.start_ns[-1] >= copies.end_ns[0]
    at_once = making[:1] == ("aten::to",)
    assert waited == (at_once or changes == ["pin"]), "the synchronisation is there for pinned memory too"
    assert any("read at once" in text for text in found.assumptions) == at_once
    if changes == ["pin"]:
        return
    assert (by_order_ns(found.estimate)[0] < found.predicted_ns - 500_000) == at_once
    assert (by_order_ns(found.estimate)[1] > found.predicted_ns + 500_000) != at_once


def test_a_copy_without_a_size_keeps_its_duration(tmp_path: Path) -> None:
    text = "thread 1: copy 4MB pageable HtoD 0-300 -> stream 7: 5-300 | sync 301-302"
    known = trace_of(tmp_path, text, **make.H200)
    unknown = replace(known, copies=replace(known.copies, size_bytes=np.array([-1])))
    first, second = (what_if(trace, ["pin"]) for trace in (known, unknown))
    (shorter,), (same,) = (found.after.copies.duration_ns for found in (first, second))
    assert shorter < same == known.copies.duration_ns[0]
    assert "pin: HtoD: 1 copy without a size: no other duration is known" in second.assumptions
