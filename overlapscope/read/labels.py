"""Translate names and labels of profilers into the enums of the model; unrecognised ones become UNKNOWN."""

from __future__ import annotations

import re
from functools import lru_cache

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

_DIRECTIONS = {
    "htod": Direction.HTOD,
    "dtoh": Direction.DTOH,
    "dtod": Direction.DTOD,
    "ptop": Direction.PTOP,
    "htoh": Direction.HTOH,
    "htoa": Direction.HTOD,
    "atoh": Direction.DTOH,
    "atoa": Direction.DTOD,
    "atod": Direction.DTOD,
    "dtoa": Direction.DTOD,
    "uvmhtod": Direction.UVM_HTOD,
    "uvmdtoh": Direction.UVM_DTOH,
    "uvmdtod": Direction.UVM_DTOD,
}
_MEMORY = {
    "pageable": MemoryKind.PAGEABLE,
    "pinned": MemoryKind.PINNED,
    "device": MemoryKind.DEVICE,
    "array": MemoryKind.ARRAY,
    "managed": MemoryKind.MANAGED,
    "devicestatic": MemoryKind.DEVICE_STATIC,
    "managedstatic": MemoryKind.MANAGED_STATIC,
}
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
    found = _COPY_NAME.search(name)
    if found is None:
        return Direction.UNKNOWN, MemoryKind.UNKNOWN, MemoryKind.UNKNOWN
    return direction(found[1]), memory_kind(found[2] or ""), memory_kind(found[3] or "")


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
