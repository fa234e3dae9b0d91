"""Decode chunks of Kineto events, and turn the events of one category into the columns of its table.

Only the needed keys are parsed, everything else is skipped. Arguments stay text until the table of an event is known,
and are then decoded for all rows of that table at once. This is the only module that uses msgspec.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, field

from overlapscope.model.columns import NO_ID, NO_TIME, Int8, Int32, Int64
from overlapscope.model.enums import HostEventKind, Labelled, MemoryKind
from overlapscope.read.draft import Arrays, NamePool
from overlapscope.read.labels import copy_name, direction, memory_kind, sync_kind
from overlapscope.read.values import first_known, integers, nanoseconds, nanoseconds_of, products

DecodeError = (msgspec.DecodeError, ValueError, RecursionError)


class Event(msgspec.Struct, gc=False):
    """One entry of ``traceEvents``."""

    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Raw = Raw()


class ExactEvent(Event, gc=False):
    """An `Event` whose times stay text: above 2**43 us a float loses nanoseconds."""

    ts: Raw = Raw()
    dur: Raw = Raw()


class CallArgs(msgspec.Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: Any = None


class FrameArgs(msgspec.Struct, gc=False):
    """Arguments of a Python function call."""

    python_id: Any = field(default=None, name="Python id")
    python_parent: Any = field(default=None, name="Python parent id")


class SampleArgs(msgspec.Struct, gc=False):
    """Arguments of consecutive samples of a thread."""

    stack: Any = None
    samples: Any = None
    cpu_ns: Any = None


class HostEventArgs(msgspec.Struct, gc=False):
    """Arguments of what kept a host thread."""

    kind: Any = None
    place: Any = None
    generation: Any = None
    ready: Any = None


class MetaArgs(msgspec.Struct, gc=False):
    """Arguments of a metadata event."""

    name: Any = None


class DeviceArgs(msgspec.Struct, gc=False):
    """Arguments of device work. Types vary in the wild: see `values`."""

    device: Any = None
    in_device: Any = field(default=None, name="inDevice")
    context: Any = None
    stream: Any = None
    correlation: Any = None
    graph_node: Any = field(default=None, name="graph node id")
    size_bytes: Any = field(default=None, name="bytes")


class KernelArgs(DeviceArgs, gc=False):
    """Arguments of a kernel."""

    grid: Any = None
    block: Any = None
    group: Any = field(default=None, name="Process Group Name")
    group_ranks: Any = field(default=None, name="Process Group Ranks")
    sequence: Any = field(default=None, name="Seq")


class CopyArgs(DeviceArgs, gc=False):
    """Arguments of a copy; newer profilers name its kinds here, older ones in its name only."""

    kind: Any = None
    copy_kind: Any = field(default=None, name="copy kind")
    source_kind: Any = field(default=None, name="src kind")
    target_kind: Any = field(default=None, name="dst kind")
    source_device: Any = field(default=None, name="fromDevice")
    target_device: Any = field(default=None, name="toDevice")


class SyncArgs(DeviceArgs, gc=False):
    """Arguments of a synchronisation, or of an event record."""

    kind: Any = field(default=None, name="cuda_sync_kind")
    wait_stream: Any = field(default=None, name="wait_on_stream")
    wait_event: Any = field(default=None, name="wait_on_cuda_event_id")
    wait_record: Any = field(default=None, name="wait_on_cuda_event_record_corr_id")
    event: Any = field(default=None, name="event_id")


ARGUMENTS = frozenset(
    name
    for kind in (CallArgs, FrameArgs, SampleArgs, HostEventArgs, MetaArgs, KernelArgs, CopyArgs, SyncArgs)
    for name in kind.__struct_encode_fields__
)
"""The names of all arguments that are read."""
AnyEvent = Event | ExactEvent
ArgsT = TypeVar(
    "ArgsT", CallArgs, FrameArgs, SampleArgs, HostEventArgs, MetaArgs, DeviceArgs, KernelArgs, CopyArgs, SyncArgs
)


def arguments(kind: type[ArgsT], rows: list[AnyEvent]) -> list[ArgsT]:
    """The arguments of each row; missing ones, and ones that are no object, become all None."""
    texts = b",".join([row.args or b"{}" for row in rows])
    try:
        return _decoder(kind).decode(b"[" + texts + b"]")
    except DecodeError:
        return [_one(kind, row.args) for row in rows]


@cache
def _decoder(kind: type[ArgsT]) -> msgspec.json.Decoder[list[ArgsT]]:
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]


def _one(kind: type[ArgsT], text: Raw) -> ArgsT:
    try:
        return msgspec.json.decode(text, type=kind)
    except DecodeError:
        return kind()


@dataclass(frozen=True)
class Form:
    """The form in which events are read: how a list of them is decoded, and one that was parsed loosely is converted.

    ``decode`` raises one of `DecodeError` when any of them is malformed.
    """

    decode: Callable[[bytes], list[Any]]
    convert: Callable[[dict[str, Any]], Any]


def _convert(loose: dict[str, Any], *, exact: bool) -> AnyEvent:
    """Make an event of a loosely parsed dict; values of the wrong type become None."""
    event: dict[str, Any] = {key: _text(loose.get(key)) for key in ("ph", "cat", "name")}
    event |= {key: _number(loose.get(key)) for key in ("pid", "tid")}
    event |= {key: _raw(loose.get(key)) if exact else loose.get(key) for key in ("ts", "dur")}
    made = ExactEvent(**event) if exact else Event(**event)
    args = loose.get("args")
    if isinstance(args, dict):
        with suppress(TypeError, ValueError, RecursionError):
            made.args = Raw(json.dumps(args, default=_number).encode())
    return made


def _raw(value: Any) -> Raw:
    return Raw((str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)).encode())


def _number(value: Any) -> Any:
    """A decimal as a float, since an integer of it has as many digits as its exponent says; None beyond all floats."""
    if not isinstance(value, Decimal):
        return value
    return number if math.isfinite(number := float(value)) else None


def _text(value: Any) -> str | None:
    """Text without lone surrogates, which no encoding can write; an object or a list is none."""
    return None if value is None or isinstance(value, dict | list) else str(value).encode("utf-8", "replace").decode()


def _form(*, exact: bool) -> Form:
    decoder: Any = msgspec.json.Decoder(list[ExactEvent] if exact else list[Event])
    return Form(decoder.decode, partial(_convert, exact=exact))


FORMS = {exact: _form(exact=exact) for exact in (False, True)}
"""Events with times as floats, and with exact ones."""


Rows = list[AnyEvent]
NAME_COLUMNS = ("name_id", "group_id", "stack_id", "place_id")
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


def _samples(rows: Rows, pool: NamePool) -> Arrays:
    args = arguments(SampleArgs, rows)
    return _host(rows, pool) | {
        "stack_id": _texts([arg.stack for arg in args], pool),
        "samples": integers([arg.samples for arg in args]),
        "cpu_ns": integers([arg.cpu_ns for arg in args]),
    }


def _host_events(rows: Rows, pool: NamePool) -> Arrays:
    args = arguments(HostEventArgs, rows)
    return _host(rows, pool) | {
        "kind": _enums([_HOST_EVENTS.get(str(arg.kind), HostEventKind.OTHER) for arg in args]),
        "place_id": _texts([arg.place for arg in args], pool),
        "generation": integers([arg.generation for arg in args]),
        "ready": integers([arg.ready for arg in args]),
    }


_HOST_EVENTS = {kind.name.lower(): kind for kind in HostEventKind}
"""The kinds of host events as recordings name them."""


def _texts(values: Sequence[Any], pool: NamePool) -> Int32:
    """The numbers of texts that may be missing."""
    return np.fromiter((pool[text] if isinstance(text, str) else NO_ID for text in values), np.int32, len(values))


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
    "samples": _samples,
    "host_events": _host_events,
    "overheads": _host,
}
"""Table name to the function that makes its columns."""
