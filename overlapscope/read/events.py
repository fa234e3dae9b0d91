"""Decode chunks of Kineto events: only the keys that are needed, everything else skipped unparsed.

The one module that knows msgspec.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from msgspec import field

DecodeError = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Args(msgspec.Struct, gc=False):
    """The arguments that some kind of event is read for. Their types vary in the wild: see `columns`."""

    device: Any = None
    context: Any = None
    stream: Any = None
    correlation: Any = None
    size_bytes: Any = field(default=None, name="bytes")
    grid: Any = None
    block: Any = None
    graph_node: Any = field(default=None, name="graph node id")
    python_id: Any = field(default=None, name="Python id")
    python_parent: Any = field(default=None, name="Python parent id")
    kind: Any = None
    copy_kind: Any = field(default=None, name="copy kind")
    source_kind: Any = field(default=None, name="src kind")
    target_kind: Any = field(default=None, name="dst kind")
    source_device: Any = field(default=None, name="fromDevice")
    in_device: Any = field(default=None, name="inDevice")
    target_device: Any = field(default=None, name="toDevice")
    sync_kind: Any = field(default=None, name="cuda_sync_kind")
    wait_stream: Any = field(default=None, name="wait_on_stream")
    wait_event: Any = field(default=None, name="wait_on_cuda_event_id")
    wait_record: Any = field(default=None, name="wait_on_cuda_event_record_corr_id")
    event: Any = field(default=None, name="event_id")
    name: Any = None


class Event(msgspec.Struct, gc=False):
    """One entry of ``traceEvents``."""

    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """An `Event` whose time is decoded from its decimal text: above 2**43 us a float loses nanoseconds."""

    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: Any = None
    tid: Any = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: Args | None = None


AnyEvent = Event | ExactEvent
NO_ARGS = Args()

_DECODERS = {exact: msgspec.json.Decoder(list[ExactEvent] if exact else list[Event]) for exact in (False, True)}


def decode(chunk: bytes, *, exact: bool) -> list[AnyEvent]:
    """Decode comma-separated events.

    Raises one of `DecodeError` when any of them is malformed.
    """
    return _DECODERS[exact].decode(b"[" + chunk + b"]")  # type: ignore[return-value]


def convert(loose: dict[str, Any], *, exact: bool) -> AnyEvent:
    """Make an event of a dict that a forgiving parser produced; what does not fit becomes unknown."""
    args = loose.get("args")
    event = {key: loose.get(key) for key in ("ph", "cat", "name")}
    event = {key: value if value is None or isinstance(value, str) else str(value) for key, value in event.items()}
    event |= {key: loose.get(key) for key in ("pid", "tid", "ts", "dur")}
    made = ExactEvent(**event) if exact else Event(**event)
    made.args = msgspec.convert(args, Args) if isinstance(args, dict) else None
    return made
