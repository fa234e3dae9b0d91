"""The kinds of copies, memory, calls, synchronisations, ranges and streams.

Profilers number these kinds differently, and renumber them between versions. Readers translate their labels into the
enums here; no other code uses a profiler's number. ``UNKNOWN`` means that the trace does not record it.
"""

from __future__ import annotations

from enum import IntEnum


class Labelled(IntEnum):
    """An integer enum whose members have a readable ``label``."""

    label: str

    def __new__(cls, value: int, label: str = "") -> Labelled:
        """Make a member from its stored value and its label."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.label = label
        return member


class Direction(Labelled):
    """Direction of a copy. Unified-memory page migrations (``U...``) are not issued by the program."""

    UNKNOWN = 0, "unknown"
    HTOD = 1, "HtoD"
    DTOH = 2, "DtoH"
    DTOD = 3, "DtoD"
    PTOP = 4, "PtoP"
    HTOH = 5, "HtoH"
    UVM_HTOD = 6, "UHtoD"
    UVM_DTOH = 7, "UDtoH"
    UVM_DTOD = 8, "UDtoD"


LINK = (Direction.HTOD, Direction.DTOH, Direction.PTOP)
"""Copies that cross a link; copies within a device are work like a kernel's."""


class MemoryKind(Labelled):
    """Kind of memory at one end of a copy."""

    UNKNOWN = 0, "unknown"
    PAGEABLE = 1, "pageable"
    PINNED = 2, "pinned"
    DEVICE = 3, "device"
    ARRAY = 4, "array"
    MANAGED = 5, "managed"
    DEVICE_STATIC = 6, "device static"
    MANAGED_STATIC = 7, "managed static"


class ApiKind(Labelled):
    """Kind of a CUDA runtime or driver call."""

    OTHER = 0, "other"
    LAUNCH = 1, "launch"
    GRAPH_LAUNCH = 2, "graph launch"
    COPY = 3, "copy"
    MEMSET = 4, "memset"
    STREAM_SYNC = 5, "stream synchronise"
    EVENT_SYNC = 6, "event synchronise"
    DEVICE_SYNC = 7, "device synchronise"
    WAIT_EVENT = 8, "stream wait event"
    EVENT_RECORD = 9, "event record"
    QUERY = 10, "query"
    DEVICE_ALLOC = 11, "device allocation"
    DEVICE_FREE = 12, "device free"
    HOST_ALLOC = 13, "pinned allocation"
    HOST_FREE = 14, "pinned free"


SYNC_CALLS = (ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC, ApiKind.DEVICE_SYNC)
"""Calls that block the thread until the device has finished some work."""
DEVICE_ALLOCATIONS = (ApiKind.DEVICE_ALLOC, ApiKind.DEVICE_FREE)
"""Calls that get or give back memory of a GPU."""
HOST_ALLOCATIONS = (ApiKind.HOST_ALLOC, ApiKind.HOST_FREE)
"""Calls that get or give back page-locked host memory, or page-lock memory that is there."""
ALLOCATIONS = DEVICE_ALLOCATIONS + HOST_ALLOCATIONS
"""Calls that get or give back memory; most of them wait for the device."""
LAUNCHES = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)
"""Calls that launch kernels."""
ISSUING = (*LAUNCHES, ApiKind.COPY, ApiKind.MEMSET)
"""Calls that issue work to a device."""


class SyncKind(Labelled):
    """Kind of a synchronisation record. A query does not wait."""

    UNKNOWN = 0, "unknown"
    STREAM = 1, "stream"
    EVENT = 2, "event"
    DEVICE = 3, "device"
    STREAM_WAIT_EVENT = 4, "stream wait event"
    EVENT_QUERY = 5, "event query"


class RangeKind(Labelled):
    """The source of a named host range."""

    ANNOTATION = 0, "annotation"
    NVTX = 1, "NVTX"


class HostEventKind(Labelled):
    """Kind of a stretch for which something other than CUDA calls kept a host thread."""

    OTHER = 0, "other"
    GC = 1, "garbage collection"
    SLEEP = 2, "sleep"
    FILE = 3, "file"
    SAVE = 4, "save"
    LOAD = 5, "load"
    EMPTY_CACHE = 6, "empty_cache"
    LOG = 7, "log"
    ITEM = 8, "item"
    COLLATE = 9, "collate"
    TRANSFER = 10, "transfer"
    PIN = 11, "pin"


class StreamKind(Labelled):
    """Kind of a stream: whether it synchronises with the legacy default stream."""

    UNKNOWN = 0, "unknown"
    LEGACY_DEFAULT = 1, "legacy default"
    BLOCKING = 2, "blocking"
    NON_BLOCKING = 3, "non-blocking"
