"""Translate the enum numbers of Nsight Systems: by the labels in the file, else by its documented numbers.

Its memory kinds differ from CUPTI's: 0 is pageable here and unknown there. Its synchronisation kinds were renumbered
between versions, so without labels in the file they are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overlapscope.model.enums import Direction, MemoryKind, StreamKind, SyncKind
from overlapscope.read.labels import direction, memory_kind, stream_kind, sync_kind

_DIRECTIONS = {
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
_MEMORY = {
    0: MemoryKind.PAGEABLE,
    1: MemoryKind.PINNED,
    2: MemoryKind.DEVICE,
    3: MemoryKind.ARRAY,
    4: MemoryKind.MANAGED,
    5: MemoryKind.DEVICE_STATIC,
    6: MemoryKind.MANAGED_STATIC,
}
_STREAMS = {1: StreamKind.BLOCKING, 2: StreamKind.NON_BLOCKING, 3: StreamKind.LEGACY_DEFAULT}


@dataclass(frozen=True)
class Labels:
    """The enums of one file, by its own numbers."""

    directions: dict[int, Direction]
    memory: dict[int, MemoryKind]
    syncs: dict[int, SyncKind]
    streams: dict[int, StreamKind]


def enum_labels(pairs: Callable[[str, str, str], dict[Any, Any]]) -> Labels:
    """Read the file's own enum tables; ``pairs(table, key, value)`` returns one as a dict, empty if missing."""

    def table(name: str) -> dict[int, str]:
        return {int(key): str(label) for key, label in pairs(name, "id", "label").items() if isinstance(key, int)}

    return Labels(
        directions={key: direction(label) for key, label in table("ENUM_CUDA_MEMCPY_OPER").items()} or _DIRECTIONS,
        memory={key: memory_kind(label) for key, label in table("ENUM_CUDA_MEM_KIND").items()} or _MEMORY,
        syncs={key: sync_kind(label) for key, label in table("ENUM_CUPTI_SYNC_TYPE").items()},
        streams={key: stream_kind(label) for key, label in table("ENUM_CUPTI_STREAM_TYPE").items()} or _STREAMS,
    )
