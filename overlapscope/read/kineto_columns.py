"""Turn Kineto events of one category into the columns of its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from overlapscope.model.columns import NO_ID, NO_TIME, Int8, Int32, Int64
from overlapscope.model.enums import Labelled, MemoryKind
from overlapscope.read.draft import Arrays, NamePool
from overlapscope.read.events import (
    AnyEvent,
    CallArgs,
    CopyArgs,
    DeviceArgs,
    ExactEvent,
    FrameArgs,
    KernelArgs,
    SyncArgs,
    arguments,
)
from overlapscope.read.labels import copy_name, direction, memory_kind, sync_kind
from overlapscope.read.values import first_known, integers, nanoseconds, nanoseconds_of, products

Rows = list[AnyEvent]
NAME_COLUMNS = ("name_id", "group_id")
"""Columns whose values are numbers of names."""


def times(rows: Rows) -> Arrays:
    """When events begin, and how long they take, in ns."""
    return {"start_ns": _nanoseconds(rows, "ts"), "duration_ns": _nanoseconds(rows, "dur")}


def _nanoseconds(rows: Rows, key: str) -> Int64:
    values = [row.ts for row in rows] if key == "ts" else [row.dur for row in rows]
    return nanoseconds_of(values) if isinstance(rows[0], ExactEvent) else nanoseconds(values)


def _names(rows: Rows) -> list[str]:
    return [name if isinstance(name := row.name, str) else str(name or "") for row in rows]


def _host(rows: Rows, pool: NamePool) -> Arrays:
    return times(rows) | {
        "process": integers([row.pid for row in rows]),
        "thread": integers([row.tid for row in rows]),
        "name_id": pool.ids(_names(rows)),
    }


def _frames(rows: Rows, pool: NamePool) -> Arrays:
    args = arguments(FrameArgs, rows)
    return _host(rows, pool) | {
        "python_id": integers([arg.python_id for arg in args]),
        "python_parent": integers([arg.python_parent for arg in args]),
    }


def _api_calls(rows: Rows, pool: NamePool) -> Arrays:
    return _host(rows, pool) | {"correlation": integers([arg.correlation for arg in arguments(CallArgs, rows)])}


def _device(rows: Rows, args: Sequence[DeviceArgs], pool: NamePool) -> Arrays:
    # Kineto shows a device as a process and a stream as its thread; the arguments say the same where they exist.
    return times(rows) | {
        "device": first_known(
            integers([arg.device for arg in args]),
            integers([arg.in_device for arg in args]),
            integers([row.pid for row in rows]),
        ),
        "context": integers([arg.context for arg in args]),
        "stream": first_known(integers([arg.stream for arg in args]), integers([row.tid for row in rows])),
        "correlation": integers([arg.correlation for arg in args]),
        "graph_node": integers([arg.graph_node for arg in args]),
        "name_id": pool.ids(_names(rows)),
    }


def _kernels(rows: Rows, pool: NamePool) -> Arrays:
    args = arguments(KernelArgs, rows)
    return _device(rows, args, pool) | {
        "blocks": products([arg.grid for arg in args]),
        "threads_per_block": products([arg.block for arg in args]),
        "group_id": _groups(args, pool),
        "sequence": integers([arg.sequence for arg in args]),
    }


def _groups(args: Sequence[KernelArgs], pool: NamePool) -> Int32:
    """The process group of each collective. Groups of one dimension of a mesh share a name, so their ranks count."""
    names = [arg.group for arg in args]
    if names.count(None) == len(names):
        return np.full(len(args), NO_ID, np.int32)
    texts = (None if arg.group is None else f"{arg.group} {arg.group_ranks or ''}".strip() for arg in args)
    return np.fromiter((NO_ID if text is None else pool[text] for text in texts), np.int32, len(args))


def _copies(rows: Rows, pool: NamePool) -> Arrays:
    args = arguments(CopyArgs, rows)
    kinds = [_copy_kinds(name, arg) for name, arg in zip(_names(rows), args, strict=True)]
    return _device(rows, args, pool) | {
        "size_bytes": integers([arg.size_bytes for arg in args]),
        "direction": _enums([kind[0] for kind in kinds]),
        "source_kind": _enums([kind[1] for kind in kinds]),
        "target_kind": _enums([kind[2] for kind in kinds]),
        "source_device": integers([arg.source_device for arg in args]),
        "target_device": integers([arg.target_device for arg in args]),
    }


def _copy_kinds(name: str, args: CopyArgs) -> tuple[Labelled, Labelled, Labelled]:
    """Direction and memory kinds of a copy: from its name, else from its arguments."""
    way, source, target = copy_name(name)
    if not way:
        way = direction(str(args.copy_kind or args.kind or ""))
    if source is MemoryKind.UNKNOWN:
        source = memory_kind(str(args.source_kind or ""))
    if target is MemoryKind.UNKNOWN:
        target = memory_kind(str(args.target_kind or ""))
    return way, source, target


def _enums(values: list[Any]) -> Int8:
    return np.array(values, np.int8)


def _memsets(rows: Rows, pool: NamePool) -> Arrays:
    args = arguments(DeviceArgs, rows)
    return _device(rows, args, pool) | {"size_bytes": integers([arg.size_bytes for arg in args])}


def _syncs(rows: Rows, _pool: NamePool) -> Arrays:
    args = arguments(SyncArgs, rows)
    labels = [str(arg.kind or name) for name, arg in zip(_names(rows), args, strict=True)]
    return times(rows) | {
        "device": first_known(integers([arg.device for arg in args]), integers([row.pid for row in rows])),
        "stream": integers([arg.stream for arg in args]),
        "kind": _enums([sync_kind(label) for label in labels]),
        "correlation": integers([arg.correlation for arg in args]),
        "event": integers([arg.wait_event for arg in args]),
        "source_stream": integers([arg.wait_stream for arg in args]),
        "record_correlation": integers([arg.wait_record for arg in args]),
    }


def _event_records(rows: Rows, _pool: NamePool) -> Arrays:
    args = arguments(SyncArgs, rows)
    start = _nanoseconds(rows, "ts")
    return {
        "start_ns": start,
        "duration_ns": np.where(start == NO_TIME, NO_TIME, 0),  # a record is a moment, with or without a duration
        "device": integers([arg.device for arg in args]),
        "stream": integers([arg.stream for arg in args]),
        "event": first_known(integers([arg.event for arg in args]), np.full(len(rows), NO_ID, np.int64)),
        "correlation": integers([arg.correlation for arg in args]),
    }


BUILDERS: dict[str, Callable[[Rows, NamePool], Arrays]] = {
    "kernels": _kernels,
    "copies": _copies,
    "memsets": _memsets,
    "api_calls": _api_calls,
    "syncs": _syncs,
    "event_records": _event_records,
    "ranges": _host,
    "cpu_ops": _host,
    "frames": _frames,
    "overheads": _host,
}
"""Table name to the function that makes its columns."""
