"""Translate names, labels and numbers of profilers into the enums of the model; unrecognised ones become UNKNOWN."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from overlapscope.model.enums import ApiKind, Direction, MemoryKind, StreamKind, SyncKind

_VERSION_SUFFIX = re.compile(r"(?:_v\d+|_pt[sd][sz])+$")
_COPY_NAME = re.compile(r"mem(?:ory )?c(?:o)?py\s+([A-Za-z]{3,5})\s*(?:\(\s*(.+?)\s*->\s*(.+?)\s*\))?", re.IGNORECASE)

_API_PATTERNS: tuple[tuple[ApiKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (ApiKind.GRAPH_LAUNCH, r"GraphLaunch"),
        (ApiKind.LAUNCH, r"^(cuda|cu|hip|hipModule|hipExt|hipExtModule)Launch|LaunchKernel|LaunchCooperative"),
        (ApiKind.EVENT_SYNC, r"EventSynchronize"),
        (ApiKind.STREAM_SYNC, r"StreamSynchronize"),
        (ApiKind.DEVICE_SYNC, r"(Device|Ctx|Thread)Synchronize"),
        (ApiKind.WAIT_EVENT, r"StreamWaitEvent"),
        (ApiKind.EVENT_RECORD, r"EventRecord"),
        (ApiKind.QUERY, r"(Event|Stream)Query"),
        (
            ApiKind.HOST_ALLOC,
            r"(HostAlloc|MallocHost|MemHostAlloc|MemAllocHost|HostRegister|HostMalloc|MemHostRegister)",
        ),
        (ApiKind.HOST_FREE, r"(FreeHost|HostUnregister|HostFree|MemHostUnregister)"),
        (ApiKind.DEVICE_ALLOC, r"(^(cuda|hip)Malloc|^cuMemAlloc|^cuMemCreate|^cuMemMap$|MemPoolCreate)"),
        (ApiKind.DEVICE_FREE, r"(^(cuda|hip)Free|^cuMemFree|^cuMemUnmap|^cuMemRelease)"),
        (ApiKind.MEMSET, r"[Mm]emset"),
        (ApiKind.COPY, r"^(cuda|cu|hip)Memcpy|memcpy[A-Z]"),
    )
)

_DIRECTIONS = {way.label.lower(): way for way in Direction} | {
    "htoa": Direction.HTOD,
    "atoh": Direction.DTOH,
    "atoa": Direction.DTOD,
    "atod": Direction.DTOD,
    "dtoa": Direction.DTOD,
    "uvmhtod": Direction.UVM_HTOD,
    "uvmdtoh": Direction.UVM_DTOH,
    "uvmdtod": Direction.UVM_DTOD,
}
_MEMORY = {kind.label.replace(" ", ""): kind for kind in MemoryKind}
_SYNCS = {
    "stream": SyncKind.STREAM,
    "event": SyncKind.EVENT,
    "context": SyncKind.DEVICE,
    "device": SyncKind.DEVICE,
    "streamwait": SyncKind.STREAM_WAIT_EVENT,
    "streamwaitevent": SyncKind.STREAM_WAIT_EVENT,
}
_STREAMS = {
    "default": StreamKind.BLOCKING,
    "nonblocking": StreamKind.NON_BLOCKING,
    "null": StreamKind.LEGACY_DEFAULT,
}
_API_SYNCS = {
    ApiKind.STREAM_SYNC: SyncKind.STREAM,
    ApiKind.EVENT_SYNC: SyncKind.EVENT,
    ApiKind.DEVICE_SYNC: SyncKind.DEVICE,
    ApiKind.WAIT_EVENT: SyncKind.STREAM_WAIT_EVENT,
    ApiKind.QUERY: SyncKind.EVENT_QUERY,
}
_NSYS_DIRECTIONS = {
    1: Direction.HTOD,
    2: Direction.DTOH,
    3: Direction.HTOD,  # to an array
    4: Direction.DTOH,  # from an array
    5: Direction.DTOD,
    6: Direction.DTOD,
    7: Direction.DTOD,
    8: Direction.DTOD,
    9: Direction.HTOH,
    10: Direction.PTOP,
    11: Direction.UVM_HTOD,
    12: Direction.UVM_DTOH,
    13: Direction.UVM_DTOD,
}
_NSYS_MEMORY = {
    0: MemoryKind.PAGEABLE,
    1: MemoryKind.PINNED,
    2: MemoryKind.DEVICE,
    3: MemoryKind.ARRAY,
    4: MemoryKind.MANAGED,
    5: MemoryKind.DEVICE_STATIC,
    6: MemoryKind.MANAGED_STATIC,
}
_NSYS_STREAMS = {1: StreamKind.BLOCKING, 2: StreamKind.NON_BLOCKING, 3: StreamKind.LEGACY_DEFAULT}
"""The documented numbers of Nsight Systems. Its memory kinds differ from CUPTI's: 0 is pageable here, unknown there."""


def api_name(name: str) -> str:
    """A call's name without the version and per-thread-stream suffixes that Nsight Systems keeps.

    >>> api_name("cudaMemcpyAsync_ptsz_v7000")
    'cudaMemcpyAsync'
    """
    return _VERSION_SUFFIX.sub("", name)


@lru_cache(maxsize=4096)
def api_kind(name: str) -> ApiKind:
    """The `ApiKind` of a call, by its name.

    >>> api_kind("cudaStreamSynchronize_v3020").label
    'stream synchronise'
    """
    plain = api_name(name)
    return next((kind for kind, pattern in _API_PATTERNS if pattern.search(plain)), ApiKind.OTHER)


@lru_cache(maxsize=4096)
def copy_name(name: str) -> tuple[Direction, MemoryKind, MemoryKind]:
    """Direction and memory kinds from a Kineto copy's name.

    >>> [part.label for part in copy_name("Memcpy HtoD (Pageable -> Device)")]
    ['HtoD', 'pageable', 'device']
    """
    match = _COPY_NAME.search(name)
    if match is None:
        return Direction.UNKNOWN, MemoryKind.UNKNOWN, MemoryKind.UNKNOWN
    return direction(match[1]), memory_kind(match[2] or ""), memory_kind(match[3] or "")


@lru_cache(maxsize=1024)
def direction(label: str) -> Direction:
    """The `Direction` for a label such as ``HtoD``, ``Host-to-Device`` or ``Unified Host-to-Device``."""
    words = _plain(label).removeprefix("cudamemcpykind")
    for long, short in (("unified", "uvm"), ("host", "h"), ("device", "d"), ("array", "a"), ("peer", "p")):
        words = words.replace(long, short)
    return _DIRECTIONS.get(words, Direction.UNKNOWN)


@lru_cache(maxsize=1024)
def memory_kind(label: str) -> MemoryKind:
    """The `MemoryKind` for a label such as ``Pageable`` or ``Device Static``; ``Host`` alone is UNKNOWN."""
    return _MEMORY.get(_plain(label), MemoryKind.UNKNOWN)


@lru_cache(maxsize=1024)
def sync_kind(label: str, api: ApiKind | None = None) -> SyncKind:
    """The `SyncKind` of a synchronisation: by its call, else by the profiler's label.

    CUPTI records a ``cudaEventQuery`` as an event synchronisation, so the call has precedence.

    >>> sync_kind("Event Sync", ApiKind.QUERY).label
    'event query'
    """
    if api in _API_SYNCS:
        return _API_SYNCS[api]
    return _SYNCS.get(_plain(label).removesuffix("sync").removesuffix("synchronize"), SyncKind.UNKNOWN)


def stream_kind(label: str) -> StreamKind:
    """The `StreamKind` for a label: ``Default stream``, ``Non-blocking stream`` or ``Null stream``."""
    return _STREAMS.get(_plain(label).removesuffix("stream"), StreamKind.UNKNOWN)


def _plain(label: str) -> str:
    return re.sub(r"[^a-z]", "", label.lower())


@dataclass(frozen=True)
class Labels:
    """The enums of one Nsight Systems export by their numbers: from the labels in the file, else the documented ones.

    Synchronisation kinds were renumbered between versions, so without labels in the file they are unknown.
    """

    directions: dict[int, Direction]
    memory: dict[int, MemoryKind]
    syncs: dict[int, SyncKind]
    streams: dict[int, StreamKind]


def enum_labels(pairs: Callable[[str, str, str], dict[Any, Any]]) -> Labels:
    """The enums of an export, of which ``pairs(table, key, value)`` returns a table as a dict, empty if missing."""

    def table(name: str) -> dict[int, str]:
        return {int(key): str(label) for key, label in pairs(name, "id", "label").items() if isinstance(key, int)}

    return Labels(
        directions={key: direction(label) for key, label in table("ENUM_CUDA_MEMCPY_OPER").items()} or _NSYS_DIRECTIONS,
        memory={key: memory_kind(label) for key, label in table("ENUM_CUDA_MEM_KIND").items()} or _NSYS_MEMORY,
        syncs={key: sync_kind(label) for key, label in table("ENUM_CUPTI_SYNC_TYPE").items()},
        streams={key: stream_kind(label) for key, label in table("ENUM_CUPTI_STREAM_TYPE").items()} or _NSYS_STREAMS,
    )
