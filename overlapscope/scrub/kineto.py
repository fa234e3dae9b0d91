"""Scrub a Kineto trace, chunk by chunk."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

from overlapscope.atomic_files import writing
from overlapscope.calibration.data import published
from overlapscope.calibration.schema import KEY, VERSION_KEYS
from overlapscope.errors import UnknownTraceFormat
from overlapscope.model.trace import HealthSeverity
from overlapscope.read.bytestream import read_blocks
from overlapscope.read.chunks import Opening, cut, find_events
from overlapscope.read.events import ARGUMENTS, DecodeError, Form
from overlapscope.read.kineto import trailer_keys
from overlapscope.read.log import HEALTH_KEY, MESSAGE_KEYS, HealthLog, dropped_records, text_warnings
from overlapscope.read.salvage import EventList, rescue
from overlapscope.scrub.texts import Hiding

_PLAIN_KEYS = {
    "schemaVersion",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    *VERSION_KEYS,
    "record_shapes",
    "with_stack",
    "with_modules",
    "with_flops",
    "profile_memory",
}
_NESTED_KEYS = {
    "deviceProperties": None,  # numbers, and names
    "distributedInfo": {"backend", "rank", "world_size"},
}
_EVENT_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "s", "bp", "args")
_ARGUMENTS = ARGUMENTS | {
    "External id",
    "external id",
    "Python module id",
    "Ev Idx",
    "Record function id",
    "Sequence number",
    "Fwd thread id",
    "Input Dims",
    "Input type",
    "labels",
    "type",
    "dtype",
    "cbid",
    "memory bandwidth (GB/s)",
    "queued",
    "registers per thread",
    "shared memory",
    "warps per SM",
    "blocks per SM",
    "est. achieved occupancy %",
    "graph id",
    "priority",
    "sort_index",
    "kind",
    "place",
    "stack",
    "samples",
    "cpu_ns",
    "generation",
    "collected",
    "ready",
}
"""Arguments that are kept: those that the reader reads, and others that say nothing of who recorded and where."""
_DEEPEST = 16  # lists in lists; what is deeper is no argument of an event
_NAMED = {"process_name", "process_labels", "thread_name"}
_NUMBER = re.compile(rb'"\\ufdd0([-+.\deE]+)\\ufdd0"')
"""A number that keeps its text: while it is processed it stands between two noncharacter code points."""


def scrub_kineto(source: Path, target: Path, hiding: Hiding = Hiding()) -> Counter[str]:
    """Write the Kineto trace ``source`` to ``target`` without host, user, folders, commands or environment.

    Unreadable parts are left out; the new trace says what was wrong, and counts as damaged when it is opened. Numbers
    keep their text.

    Returns:
        The number of removed parts by kind: ``header NAME``, ``argument NAME``, ``changed texts``, and ``LOST:`` with a
        reason.

    Raises:
        TraceNotFound: ``source`` cannot be read.
        UnknownTraceFormat: it is no Kineto trace.
        OutputError: ``target`` cannot be written.
    """
    dropped: Counter[str] = Counter()
    log = HealthLog()
    blocks = read_blocks(source, log)
    opening = find_events(blocks)
    if opening is None:
        raise UnknownTraceFormat(f"{source}: not a Kineto trace")
    scrubber = _Scrubber(hiding, dropped, log)
    with writing(target) as file:
        file.write(_text(scrubber.head(opening)))
        separator = b""
        chunks = map(scrubber.events, cut(opening.rest, blocks))
        for event in chain(chain.from_iterable(chunks), scrubber.rest()):
            file.write(separator + _json(event))
            separator = b",\n"
        file.write(_text(scrubber.tail(opening)))
    return dropped


LOST = "LOST:"
"""Prefix of the kinds of unreadable parts."""


class _Scrubber:
    """One pass over a trace."""

    def __init__(self, hiding: Hiding, dropped: Counter[str], log: HealthLog) -> None:
        self._hiding = hiding
        self._dropped = dropped
        self._log = log
        self._list = EventList(log)

    def head(self, opening: Opening) -> str:
        """The text before the first event."""
        if opening.is_list:
            return "["
        kept = json.dumps(self._header(opening.header), separators=(",", ":"))
        return f'{kept[:-1]}{"," if len(kept) > 2 else ""}"traceEvents":[\n'  # noqa: PLR2004 - the braces

    def tail(self, opening: Opening) -> str:
        """The text after the last event."""
        keys = trailer_keys(self._list.trailer, opening, self._log)
        self._log.note_original((opening.header | keys).get(HEALTH_KEY))
        health = self._log.health()
        for warning in health:
            is_lost = warning.severity is HealthSeverity.DAMAGE or warning.code == "bad-header"
            self._dropped[f"{LOST} {warning.code}" if is_lost else warning.code] += warning.count
        if opening.is_list:
            return "\n" if health.damaged else "]\n"  # its reader takes it for cut: a list has no place for more
        kept = self._header(_object(b"{" + (self._list.trailer or b"").strip().removeprefix(b",")) or {})
        if warnings := text_warnings(health):
            kept[HEALTH_KEY] = warnings
        text = json.dumps(kept)
        return f"\n]{',' if len(text) > 2 else ''}{text[1:]}\n"  # noqa: PLR2004 - the braces

    def events(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The scrubbed events of a chunk; unreadable events are left out and counted."""
        yield from self._decoded(self._list.joined(chunk), final=False)

    def rest(self) -> Iterator[dict[str, Any]]:
        """The scrubbed events of what was left of the last chunk."""
        yield from self._decoded(self._list.last(), final=True)

    def _decoded(self, chunk: bytes | None, *, final: bool) -> Iterator[dict[str, Any]]:
        if chunk is None:
            return
        try:
            events = _FORM.decode(chunk)
        except DecodeError:
            rescued = rescue(chunk, _FORM, final=final)
            events = rescued.events
            self._list.take(rescued)
        for event in events:
            if isinstance(event, dict):
                yield self._event(event)

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        kept = {key: event[key] for key in _EVENT_KEYS if key in event}
        self._count("event key", event.keys() - kept.keys())
        arguments = kept.pop("args", None)
        for key, value in kept.items():
            if isinstance(value, dict | list):
                kept[key] = None
            elif key == "name" and isinstance(value, str):
                kept[key] = self._hidden(value)
            elif key in {"pid", "tid"} and isinstance(value, str):
                kept[key] = self._hiding.command(value)
        if arguments is not None:
            kept["args"] = self._arguments(arguments, named=kept.get("name") in _NAMED)
        return kept

    def _hidden(self, text: str) -> str:
        changed = self._hiding(text)
        self._dropped["changed texts"] += changed != text
        return changed

    def _arguments(self, arguments: Any, *, named: bool) -> dict[str, Any]:
        if not isinstance(arguments, dict):
            return {}
        kept = {key: value for key, value in arguments.items() if key in _ARGUMENTS}
        self._count("argument", arguments.keys() - kept.keys())
        if named:
            return {
                key: self._hiding.command(value) if isinstance(value, str) else value for key, value in kept.items()
            }
        return {key: self._plain(value) for key, value in kept.items()}

    def _plain(self, value: Any, depth: int = 0) -> Any:
        """Numbers, texts and lists of them, scrubbed; objects, and numbers that JSON does not have, become None."""
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, str):
            return self._hidden(value)
        if isinstance(value, list):
            return [self._plain(entry, depth + 1) for entry in value] if depth < _DEEPEST else None
        return None if isinstance(value, dict) else value

    def _header(self, header: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {key: self._plain(header[key]) for key in _PLAIN_KEYS & header.keys()}
        for key, allowed in _NESTED_KEYS.items():
            value = header.get(key)
            if isinstance(value, dict) and allowed:
                value = {name: entry for name, entry in value.items() if name in allowed}
            if isinstance(value, dict | list):
                kept[key] = self._nested(value, texts=isinstance(value, dict) and bool(allowed))
        calibration = published(header.get(KEY))
        if calibration is not None:
            kept[KEY] = self._nested(calibration, texts=True)
        for level in MESSAGE_KEYS:
            messages = header.get(level)
            if isinstance(messages, list) and (dropping := [text for text in map(dropped_records, messages) if text]):
                kept[level] = dropping
        self._count("header", header.keys() - kept.keys() - {HEALTH_KEY})
        return {key: kept[key] for key in header if key in kept}  # in the order of the file

    def _nested(self, value: Any, *, texts: bool, depth: int = 0) -> Any:
        """Objects and lists with their numbers and names; with ``texts``, with all other texts too."""
        if depth > _DEEPEST:
            return None
        if isinstance(value, dict):
            return {
                key: self._nested(entry, texts=texts, depth=depth + 1)
                for key, entry in value.items()
                if texts or key == "name" or not _is_text(entry)
            }
        if isinstance(value, list):
            return [
                self._nested(entry, texts=texts, depth=depth + 1) for entry in value if texts or not _is_text(entry)
            ]
        return self._plain(value)

    def _count(self, what: str, names: Iterable[str]) -> None:
        for name in names:
            self._dropped[f"{what} {name}"] += 1


def _exact(number: str) -> str:
    return f"\ufdd0{number}\ufdd0"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not value.startswith("\ufdd0")


_DECODER = json.JSONDecoder(strict=False, parse_float=_exact, parse_constant=lambda _: None)


def _decoded(chunk: bytes) -> list[Any]:
    events = _DECODER.decode(chunk.decode())
    return events if isinstance(events, list) else []


def _with_texts(value: Any, depth: int = 0) -> Any:
    """Decimals, as the repairing parser reads numbers, with their text."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        return {key: _with_texts(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_texts(entry, depth + 1) for entry in value]
    return _exact(str(value)) if isinstance(value, Decimal) else value


_FORM = Form(_decoded, _with_texts)


def _json(value: Any) -> bytes:
    return _text(json.dumps(value, separators=(",", ":")))


def _text(text: str) -> bytes:
    """ASCII text with its numbers as they were."""
    return _NUMBER.sub(rb"\1", text.encode())


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
