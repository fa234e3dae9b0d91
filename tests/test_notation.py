"""The notation in which tests write traces down says what the events say."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope.model.enums import ApiKind, Direction, MemoryKind, SyncKind
from tests import kineto_maker as make
from tests.notation import events, trace_of


def test_a_text_is_as_good_as_its_events() -> None:
    text = """
        thread 1: launch gemm 0-5 -> stream 7: 10-110 of 132 blocks | sync 112-115
                  memcpy 4KiB pinned DtoH 120-130 -> gpu 1 stream 9: 122.5-129
        thread 2: copy 64MB pageable HtoD 1_020-1_320 -> stream 13: 1_025-1_318 | op aten::add 1_400-1_401
                  range my step 0-2_000 | overhead 5-6 | cudaMalloc 1_500-1_502
    """
    assert events(text) == [
        make.call(0, 5, correlation=1),
        make.kernel(10, 100, name="gemm", correlation=1, grid=[132, 1, 1]),
        make.call(112, 3, name="cudaDeviceSynchronize", correlation=2),
        make.call(120, 10, name="cudaMemcpy", correlation=3),
        make.copy(122.5, 6.5, kinds="DtoH (Device -> Pinned)", size=4096, stream=9, device=1, correlation=3),
        make.call(1020, 300, name="cudaMemcpyAsync", tid=2, correlation=4),
        make.copy(1025, 293, size=64_000_000, correlation=4),
        make.cpu_op("aten::add", 1400, 1, tid=2),
        make.annotation("my step", 0, 2000, tid=2),
        make.overhead(5, 1),
        make.call(1500, 2, name="cudaMalloc", tid=2, correlation=5),
    ]


def test_a_trace_knows_events_synchronisations_and_copies_between_gpus(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        """
        thread 1: record A 0-1 -> stream 20 | wait A 2-3 -> gpu 1 stream 7 | wait 4-5 -> stream 8
                  stream-sync 6-7 -> stream 7 | peer-copy 1MiB 0 to 1 8-9 -> gpu 1 stream 9: 10-20
        """,
    )
    assert trace.api_calls.kind.tolist() == [
        ApiKind.EVENT_RECORD,
        ApiKind.WAIT_EVENT,
        ApiKind.WAIT_EVENT,
        ApiKind.STREAM_SYNC,
        ApiKind.COPY,
    ]
    assert trace.syncs.kind.tolist() == [*[SyncKind.STREAM_WAIT_EVENT] * 2, SyncKind.STREAM]
    assert trace.syncs.source_stream.tolist()[0] == 20
    assert trace.syncs.device.tolist() == [1, 0, 0]
    copies = trace.copies
    assert (copies.direction.tolist(), copies.size_bytes.tolist()) == ([Direction.PTOP], [1 << 20])
    assert (copies.source_device.tolist(), copies.target_device.tolist()) == ([0], [1])
    assert copies.source_kind.tolist() == [MemoryKind.DEVICE]


@pytest.mark.parametrize("text", ["launch", "launch 0-5 -> 10-20", "copy 64 pinned HtoD 0-5 -> stream 7: 6-7"])
def test_what_is_not_of_the_form_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match=r"of the form|no size"):
        events(text)
