"""Changes that would make a race: copies from and to one host tensor keep their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overlapscope import what_if
from tests import kineto_maker as make
from tests.notation import trace_of

ROUND_TRIP = """
    thread 1: launch 1-4 -> stream 7: 10-110
              op aten::copy_ 5-9 | copy 4MB pinned DtoH 6-8 -> stream 7: 111-211
              op aten::copy_ 15-19 | copy 5MB pinned HtoD 16-18 -> stream 7: 212-332
              launch 20-24 -> stream 7: 333-433 | sync 25-434
"""
REFILLED = """
    thread 1: op aten::copy_ 5-155 | memcpy 4MB pinned HtoD 6-154 -> stream 7: 12-152
              op aten::copy_ 160-170
              op aten::copy_ 180-330 | memcpy 4MB pinned HtoD 181-329 -> stream 7: 187-327 | sync 335-336
"""


def accesses(starts_us: list[int], kinds: list[int], *, known: bool) -> Any:
    tensors = [0] * len(kinds) if known else list(range(len(kinds)))
    columns = {"op_start_ns": [1000 * start for start in starts_us], "tensor": tensors, "access": kinds}
    return make.calibrated(host_accesses=columns)


@pytest.mark.parametrize("known", [True, False])
def test_a_moved_upload_stays_behind_the_download_into_its_buffer(known: bool, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, ROUND_TRIP, **accesses([5, 15], [0, 1], known=known))
    found = what_if(trace, ["side-stream"])
    down, up = sorted(range(2), key=lambda row: trace.copies.direction[row], reverse=True)
    assert bool(found.after.copies.start_ns[up] >= found.after.copies.end_ns[down]) is known
    assert any("same host tensor" in text for text in found.assumptions) is known


@pytest.mark.parametrize("known", [True, False])
def test_what_came_from_the_gpu_is_not_sent_back_a_step_earlier(known: bool, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, ROUND_TRIP, **accesses([5, 15], [0, 1], known=known))
    assert any("comes from the GPU first" in text for text in what_if(trace, ["prefetch=1"]).assumptions) is known


@pytest.mark.parametrize("known", [True, False])
def test_a_buffer_is_not_filled_before_its_copy_is_complete(known: bool, tmp_path: Path) -> None:
    """The call that follows the operator that fills it comes after the copy, where the host waits for it no longer."""
    trace = trace_of(tmp_path, REFILLED, **accesses([5, 160, 180], [1, 3, 1], known=known))
    after = what_if(trace, ["non-blocking"]).after
    assert bool(after.api_calls.start_ns[1] > after.copies.end_ns[0]) is known


READ = """
    thread 1: launch 1-4 -> stream 7: 10-110
              op aten::copy_ 5-9 | copy 4MB pinned DtoH 6-8 -> stream 7: 111-211
              event-sync 10-212 | op aten::sum 215-255 | launch 260-264 -> stream 7: 270-370 | {} 380-381
"""


@pytest.mark.parametrize("last", ["sync", "launch"])
def test_a_wait_that_is_taken_out_is_named_where_nobody_knows_who_reads(last: str, tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, READ.format(last)), ["no-scalar-sync"])
    until = "cudaDeviceSynchronize has waited" if last == "sync" else "they are complete; no call waits for them"
    text = f"assumes that the host does not read the destination of 1 copy to the host (3.81 MiB) before {until}"
    assert found.granted == (text,)
    assert text in found.to_dict()["assumptions"]
    assert not what_if(found.trace, ["side-stream"]).granted, "the host waits right after"


def test_a_recorded_read_is_waited_for_by_whatever_change(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, READ.format("sync"), **accesses([5, 215], [0, 2], known=True))
    found = what_if(trace, ["no-scalar-sync"])
    assert found.after.api_calls.start_ns[3] > found.after.copies.end_ns[0]
    assert not found.granted


SENT = """
    thread 1: op aten::copy_ 5-160 | copy 4MB {} HtoD 6-60 -> stream 7: 12-152 | stream-sync 62-153 -> stream 7 |
              launch 170-174 -> stream 7: 180-280 | sync 285-286
"""


@pytest.mark.parametrize(
    ("memory", "changes", "granted"),
    [
        ("pinned", ["non-blocking"], True),
        ("pageable", ["pin"], False),  # the operator's own wait stays
        ("pageable", ["pin", "non-blocking"], True),
    ],
)
def test_what_the_host_may_overwrite_early(memory: str, changes: list[str], granted: bool, tmp_path: Path) -> None:
    found = what_if(trace_of(tmp_path, SENT.format(memory)), changes)
    text = "assumes that the host does not overwrite the source of 1 copy to the GPU (3.81 MiB) before "
    assert [each.startswith(text) for each in found.granted] == [True] * granted


def test_what_was_staged_is_waited_for_once_it_is_pinned(tmp_path: Path) -> None:
    """The driver had its own copy of the buffer before the host filled it again, the GPU had not."""
    trace = trace_of(
        tmp_path,
        """thread 1: launch 0-1 -> stream 7: 2-490
                     op aten::copy_ 9-34 | copy 1MB pageable HtoD 10-33 -> stream 7: 500-600
                     op aten::fill_ 40-60
                     op aten::copy_ 62-95 | copy 1MB pageable HtoD 63-93 -> stream 7: 610-700 | sync 900-901""",
        **accesses([9, 40, 62], [1, 3, 1], known=True),
    )
    for change, waits in (("pin", True), ("faster-link=50", False)):
        after = what_if(trace, [change]).after
        assert bool(after.api_calls.start_ns[2] > after.copies.end_ns[0]) is waits


@pytest.mark.parametrize("filling", [("copy 1KB pinned DtoH 11-14 -> stream 7: 1101-1105", 0), ("range fill 11-14", 3)])
@pytest.mark.parametrize("known", [True, False])
def test_a_copy_is_not_issued_before_its_host_tensor_is_filled(
    filling: tuple[str, int], known: bool, tmp_path: Path
) -> None:
    what, access = filling
    text = f"""thread 1: launch 0-1 -> stream 7: 2-90
        op aten::copy_ 4-9 | copy 400MB pinned HtoD 5-8 -> stream 7: 100-1100
        op aten::copy_ 10-15 | {what} | op aten::copy_ 20-25 | copy 1KB pinned HtoD 21-24 -> stream 7: 1110-1112
        launch 30-31 -> stream 7: 1113-1120 | sync 1200-1201"""
    trace = trace_of(tmp_path, text, **accesses([10, 20], [access, 1], known=known))
    found = what_if(trace, ["copy-first"])
    assert any("stay where they are" in text for text in found.assumptions) is known
    assert any("is ready" in text for text in found.granted) is not known


@pytest.mark.parametrize(("memory", "said"), [("pinned", True), ("pageable", False)])
def test_an_allocation_may_be_what_waited_for_copies(memory: str, said: bool, tmp_path: Path) -> None:
    text = f"""thread 1: launch 0-1 -> stream 7: 2-490
        op aten::copy_ 9-13 | copy 4MB {memory} DtoH 10-12 -> stream 7: 500-600
        cudaFreeHost 14-610 | op aten::sum 615-640 | launch 650-651 -> stream 7: 652-700 | sync 701-702"""
    found = what_if(trace_of(tmp_path, text), ["preallocate"])
    assert any("no allocation waits for them any more" in each for each in found.granted) is said
    assert found.predicted_ns < found.simulated_ns


def test_copies_that_are_sent_as_one_have_one_buffer(tmp_path: Path) -> None:
    each = (f"copy 4KB pinned HtoD {at}-{at + 2} -> stream 7: {at + 3}-{at + 5}" for at in range(10, 50, 10))
    trace = trace_of(tmp_path, f"thread 1: {' | '.join(each)} | launch 60-61 -> stream 7: 62-90 | sync 91-92")
    assert any("before it is filled again" in text for text in what_if(trace, ["batch-copies"]).granted)
