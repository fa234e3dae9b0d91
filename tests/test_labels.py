"""Names of calls and labels of kinds, as profilers of several makers and years write them."""

from __future__ import annotations

import pytest

from overlapscope.model.enums import ApiKind, Direction, MemoryKind, StreamKind, SyncKind
from overlapscope.read.labels import api_kind, api_name, direction, memory_kind, stream_kind, sync_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", ApiKind.LAUNCH), ("cudaLaunchKernelExC_v11060", ApiKind.LAUNCH),
        ("cuLaunchKernel", ApiKind.LAUNCH), ("cuLaunchKernelEx", ApiKind.LAUNCH), ("hipLaunchKernel", ApiKind.LAUNCH),
        ("hipModuleLaunchKernel", ApiKind.LAUNCH), ("hipExtModuleLaunchKernel", ApiKind.LAUNCH),
        ("cudaLaunchCooperativeKernel", ApiKind.LAUNCH), ("cudaGraphLaunch_v10000", ApiKind.GRAPH_LAUNCH),
        ("cuGraphLaunch", ApiKind.GRAPH_LAUNCH), ("hipGraphLaunch", ApiKind.GRAPH_LAUNCH),
        ("cudaMemcpyAsync_ptsz_v7000", ApiKind.COPY), ("cudaMemcpy", ApiKind.COPY),
        ("cuMemcpyHtoDAsync_v2", ApiKind.COPY),
        ("cudaMemcpyFromSymbol_v3020", ApiKind.COPY), ("cudaMemcpyPeerAsync", ApiKind.COPY),
        ("hipMemcpyWithStream", ApiKind.COPY), ("cudaMemcpy2DAsync", ApiKind.COPY),
        ("cudaMemsetAsync", ApiKind.MEMSET), ("cuMemsetD8Async", ApiKind.MEMSET), ("hipMemsetAsync", ApiKind.MEMSET),
        ("cudaStreamSynchronize", ApiKind.STREAM_SYNC), ("cuStreamSynchronize", ApiKind.STREAM_SYNC),
        ("cudaEventSynchronize", ApiKind.EVENT_SYNC), ("cudaDeviceSynchronize_v3020", ApiKind.DEVICE_SYNC),
        ("cuCtxSynchronize", ApiKind.DEVICE_SYNC), ("hipDeviceSynchronize", ApiKind.DEVICE_SYNC),
        ("cudaStreamWaitEvent", ApiKind.WAIT_EVENT), ("cudaEventRecordWithFlags_v11010", ApiKind.EVENT_RECORD),
        ("cudaEventQuery", ApiKind.QUERY), ("cudaStreamQuery", ApiKind.QUERY),
        ("cudaMalloc", ApiKind.DEVICE_ALLOC), ("cuMemAlloc_v2", ApiKind.DEVICE_ALLOC),
        ("hipMalloc", ApiKind.DEVICE_ALLOC),
        ("cudaMallocHost", ApiKind.HOST_ALLOC), ("cudaHostAlloc", ApiKind.HOST_ALLOC),
        ("cuMemHostAlloc", ApiKind.HOST_ALLOC), ("cudaHostRegister", ApiKind.HOST_ALLOC),
        ("cudaFree", ApiKind.DEVICE_FREE), ("cuMemFree_v2", ApiKind.DEVICE_FREE), ("cudaFreeHost", ApiKind.HOST_FREE),
        ("cudaGetDevice", ApiKind.OTHER), ("cudaStreamIsCapturing", ApiKind.OTHER),
        ("cuGetProcAddress_v2", ApiKind.OTHER),
        ("cudaFuncGetAttributes", ApiKind.OTHER), ("cudaEventCreateWithFlags", ApiKind.OTHER),
    ],
)  # fmt: skip
def test_api_kinds(name: str, kind: ApiKind) -> None:
    assert api_kind(name) is kind


def test_names_keep_their_meaningful_end() -> None:
    assert api_name("cudaMemcpyAsync_ptsz_v7000") == "cudaMemcpyAsync"
    assert api_name("my_v2_kernel") == "my_v2_kernel"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Host-to-Device", Direction.HTOD), ("HtoD", Direction.HTOD), ("Device-to-Host", Direction.DTOH),
        ("Host-to-Array", Direction.HTOD), ("Peer-to-Peer", Direction.PTOP), ("Device-to-Device", Direction.DTOD),
        ("Unified Host-to-Device", Direction.UVM_HTOD), ("Unified Device-to-Host", Direction.UVM_DTOH),
        ("Unknown", Direction.UNKNOWN), ("", Direction.UNKNOWN),
    ],
)  # fmt: skip
def test_directions(label: str, expected: Direction) -> None:
    assert direction(label) is expected


def test_other_labels() -> None:
    assert memory_kind("Device Static") is MemoryKind.DEVICE_STATIC
    assert memory_kind("Host") is MemoryKind.UNKNOWN, "ROCm's Host says neither pageable nor pinned"
    assert stream_kind("Non-blocking stream") is StreamKind.NON_BLOCKING
    assert stream_kind("Null stream") is StreamKind.LEGACY_DEFAULT
    assert stream_kind("Default stream") is StreamKind.BLOCKING
    for label, kind in (
        ("Stream sync", SyncKind.STREAM), ("Stream Sync", SyncKind.STREAM), ("Event sync", SyncKind.EVENT),
        ("Stream wait sync", SyncKind.STREAM_WAIT_EVENT), ("Stream Wait Event", SyncKind.STREAM_WAIT_EVENT),
        ("Context sync", SyncKind.DEVICE), ("Unknown", SyncKind.UNKNOWN),
    ):  # fmt: skip
        assert sync_kind(label) is kind, label
