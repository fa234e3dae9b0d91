"""Decode chunks of Kineto events: only the needed keys are parsed, everything else is skipped.

Arguments stay text until the table of an event is known, and are then decoded for all rows of that table at once. This
is the only module that uses msgspec.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, field

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


class ExactEvent(msgspec.Struct, gc=False):
    """An `Event` whose times stay text: above 2**43 us a float loses nanoseconds."""

    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: Any = None
    tid: Any = None
    ts: Raw = Raw()
    dur: Raw = Raw()
    args: Raw = Raw()


class CallArgs(msgspec.Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: Any = None


class FrameArgs(msgspec.Struct, gc=False):
    """Arguments of a Python function call."""

    python_id: Any = field(default=None, name="Python id")
    python_parent: Any = field(default=None, name="Python parent id")


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


AnyEvent = Event | ExactEvent
ArgsT = TypeVar("ArgsT", CallArgs, FrameArgs, MetaArgs, DeviceArgs, KernelArgs, CopyArgs, SyncArgs)


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
    """What events are read as: how a list of them is decoded, and what is made of one that was parsed loosely.

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
