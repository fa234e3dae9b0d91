"""Scrub a Kineto trace, chunk by chunk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from overlapscope.errors import UnknownTraceFormat
from overlapscope.read.bytestream import read_blocks
from overlapscope.read.chunks import BOUNDARY, Opening, cut, find_events
from overlapscope.read.log import HealthLog
from overlapscope.scrub.texts import Hiding
from overlapscope.scrub.writing import writing

_HEADER_KEYS = {
    "schemaVersion",
    "deviceProperties",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "distributedInfo",
    "cuda_driver_version",
    "cuda_runtime_version",
    "cupti_version",
    "hip_driver_version",
    "hip_runtime_version",
    "roctracer_version",
    "rocprofiler-sdk_version",
    "record_shapes",
    "with_stack",
    "with_modules",
    "with_flops",
    "profile_memory",
    "overlapscope",
}
_EVENT_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "s", "bp", "args")
_TEXT_ARGUMENTS = {"name", "labels", "kind", "copy kind", "src kind", "dst kind", "cuda_sync_kind", "type", "dtype"}
_ARGUMENTS = _TEXT_ARGUMENTS | {
    "External id",
    "external id",
    "Python id",
    "Python parent id",
    "Python module id",
    "Ev Idx",
    "Record function id",
    "Sequence number",
    "Fwd thread id",
    "Input Dims",
    "Input type",
    "cbid",
    "correlation",
    "device",
    "context",
    "stream",
    "bytes",
    "memory bandwidth (GB/s)",
    "fromDevice",
    "inDevice",
    "toDevice",
    "queued",
    "grid",
    "block",
    "registers per thread",
    "shared memory",
    "warps per SM",
    "blocks per SM",
    "est. achieved occupancy %",
    "graph node id",
    "graph id",
    "priority",
    "sort_index",
    "wait_on_stream",
    "wait_on_cuda_event_id",
    "wait_on_cuda_event_record_corr_id",
    "event_id",
}
_DISTRIBUTED_KEYS = {"backend", "rank", "world_size"}


def scrub_kineto(source: Path, target: Path, hiding: Hiding = Hiding()) -> Counter[str]:
    """Write the Kineto trace ``source`` to ``target`` without host, user, folders, commands or environment.

    Returns:
        How much was left out, by what it was: ``header NAME``, ``argument NAME``, ``unreadable events``.

    Raises:
        TraceNotFound: ``source`` cannot be read.
        UnknownTraceFormat: it is no Kineto trace.
        OutputError: ``target`` cannot be written.
    """
    dropped: Counter[str] = Counter()
    blocks = read_blocks(source, HealthLog())
    opening = find_events(blocks)
    if opening is None:
        raise UnknownTraceFormat(f"{source}: not a Kineto trace")
    scrubber = _Scrubber(hiding, dropped)
    with writing(target) as file:
        file.write(scrubber.head(opening).encode())
        separator = b""
        for chunk in cut(opening.rest, blocks):
            for event in scrubber.events(chunk):
                file.write(separator + json.dumps(event, separators=(",", ":")).encode())
                separator = b",\n"
        file.write(scrubber.tail(opening).encode())
    return dropped


class _Scrubber:
    """One pass over a trace."""

    def __init__(self, hiding: Hiding, dropped: Counter[str]) -> None:
        self._hiding = hiding
        self._dropped = dropped
        self._trailer: str | None = None

    def head(self, opening: Opening) -> str:
        """The text before the first event."""
        if opening.is_list:
            return "["
        kept = json.dumps(self._header(opening.header), separators=(",", ":"))
        return f'{kept[:-1]}{"," if len(kept) > 2 else ""}"traceEvents":[\n'  # noqa: PLR2004 - the braces

    def tail(self, opening: Opening) -> str:
        """The text after the last event."""
        if opening.is_list:
            return "]\n"
        kept = json.dumps(self._header(_loads("{" + (self._trailer or "").lstrip(" ,\r\n\t]")) or {}))
        return f"\n]{',' if len(kept) > 2 else ''}{kept[1:]}\n"  # noqa: PLR2004 - the braces

    def events(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The events of a chunk as they may be published; those that cannot be read are left out and counted."""
        text = chunk.decode("utf-8", "replace")
        if self._trailer is not None:
            self._trailer += "," + text[1:-1]
            return
        events, rest = _parsed(text)
        if events is None:
            pieces = BOUNDARY.sub(b"}\0", chunk[1:-1]).decode("utf-8", "replace").split("\0")
            events, rest = self._one_by_one(pieces)
        if rest is not None:
            self._trailer = rest
        for event in events:
            if isinstance(event, dict):
                yield self._event(event)

    def _one_by_one(self, pieces: Iterable[str]) -> tuple[list[Any], str | None]:
        found: list[Any] = []
        trailer = None
        for piece in pieces:
            events, rest = _parsed(f"[{piece}]")
            self._dropped["unreadable events"] += events is None
            found += events or []
            trailer = rest if rest is not None else trailer
        return found, trailer

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        kept = {key: event[key] for key in _EVENT_KEYS if key in event}
        self._count("event key", event.keys() - kept.keys())
        for key in ("name", "pid", "tid", "cat"):
            if isinstance(kept.get(key), str):
                kept[key] = self._hiding(kept[key])
        if "args" in kept:
            kept["args"] = self._arguments(kept["args"], command=event.get("name") == "process_name")
        return kept

    def _arguments(self, arguments: Any, *, command: bool) -> dict[str, Any]:
        if not isinstance(arguments, dict):
            return {}
        kept = {key: value for key, value in arguments.items() if key in _ARGUMENTS}
        self._count("argument", arguments.keys() - kept.keys())
        for key in _TEXT_ARGUMENTS & kept.keys():
            if isinstance(kept[key], str):
                text = kept[key].split()[0].rpartition("/")[2] if command and kept[key].strip() else kept[key]
                kept[key] = self._hiding(text)
        return kept

    def _header(self, header: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in header.items() if key in _HEADER_KEYS}
        self._count("header", header.keys() - kept.keys())
        if isinstance(kept.get("distributedInfo"), dict):
            kept["distributedInfo"] = {
                key: value for key, value in kept["distributedInfo"].items() if key in _DISTRIBUTED_KEYS
            }
        return kept

    def _count(self, what: str, names: Iterable[str]) -> None:
        for name in names:
            self._dropped[f"{what} {name}"] += 1


_DECODER = json.JSONDecoder(strict=False)


def _parsed(text: str) -> tuple[list[Any] | None, str | None]:
    """The events of ``[...]``, and what follows them where the list ends before the text does."""
    try:
        events, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None, None
    rest = text[end:-1] if end < len(text) else None
    return events, rest


def _loads(text: str) -> dict[str, Any] | None:
    try:
        value, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
