"""Read a chunk of malformed JSON event by event, repairing what can be repaired.

Such files exist: from programs killed while writing, with unescaped quotes, backslashes or control characters in
names, bad UTF-8, commas before a closing brace, or values such as ``inf(c)`` and ``0.-660``. A value that is no JSON is
not known, and its event is kept. An event that cannot be repaired is lost; reading continues with the next one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from overlapscope.read.chunks import EVENT_KEYS, LONGEST_EVENT
from overlapscope.read.events import DecodeError, Form
from overlapscope.read.log import HealthLog

_TRAILER_LIMIT = 1 << 24  # bytes that are read of the part after the events
_REPAIR_LIMIT = 1 << 16  # no event worth repairing is longer
_MOST_STARTS = 8  # events that are tried with one end; where none of them can be repaired, it is no end
_SPACE = ord(" ")
_NEXT_EVENT = re.compile(r'\{\s*"(?:ph|cat|name|pid|tid|ts)"\s*:')
_PIECE_END = re.compile(r'\}(?=\s*,\s*\{\s*"(?:' + EVENT_KEYS.decode() + r')"\s*:|\s*(?:,\s*)?\]\s*(?:\Z|\}|,\s*"))')
_PHASE = re.compile(r'"ph"\s*:\s*"[A-Za-z]"')
_DEEP = re.compile(r"(?:[^\[{]*[\[{]){400}[\[{]*")  # less deep than what the parser gives up, and all that is deeper
_BETWEEN = re.compile(r"[\s,]*")
_LIST_END = re.compile(r'\]\s*(?=\Z|\}|,\s*"(?:[^"\\]|\\.)*"\s*:)', re.DOTALL)
_OBJECT_THEN_LIST_END = re.compile(rb'\}\s*(?:,\s*)?(\])\s*(?=\Z|\}|,\s*")')
_MOST_ENDS = 64  # lists of objects that a trailer may hold
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_PARTS = re.compile(
    r'(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<lacking>:(?=\s*[,}\]]))|(?P<surplus>,(?=\s*[}\]]))|(?P<bare>[^\s\[\]{}:,"]+)',
    re.DOTALL,
)
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_LONGEST_INTEGER = 64  # digits; no id or time is longer
_LOOSE_STRING = re.compile(r'("(?:name|cat|ph)"\s*:\s*")(.{0,8192}?)("\s*(?:\}|,\s*"[\w ]+"\s*:))', re.DOTALL)
_MOST_STRINGS = 4  # that an event's own keys can hold
_LONE_QUOTE = re.compile(r'(?<!\\)"')


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except ArithmeticError:
        return None


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= _LONGEST_INTEGER else None


_PARSER = json.JSONDecoder(strict=False, parse_float=_decimal, parse_int=_whole, parse_constant=lambda _: None)


@dataclass
class Rescue:
    """The events read from a malformed chunk.

    ``trailer`` is the text after the end of the event list, None while the list continues; ``cut_off`` is the text of a
    last event that may continue in the next chunk.
    """

    events: list[Any] = field(default_factory=list)
    repaired: int = 0
    lost: int = 0
    trailer: bytes | None = None
    cut_off: bytes = b""


@dataclass
class EventList:
    """The state between chunks of a list of events, with the log of malformed events."""

    log: HealthLog
    carried: bytes = b""
    """The text of an event that was cut at the end of its chunk."""
    trailer: bytes | None = None
    """The text after the end of the list; None while the list continues."""

    def joined(self, chunk: bytes) -> bytes | None:
        """A chunk, as `cut` returns it, after what was carried over; None where it comes after the list."""
        if self.trailer is not None:
            if len(self.trailer) < _TRAILER_LIMIT:
                self.trailer += b"," + chunk[1:-1]
            return None
        carried, self.carried = self.carried, b""
        return b"[" + carried + b"," + chunk[1:] if carried else chunk

    def last(self) -> bytes | None:
        """The text that is carried after the last chunk, as a chunk; None where there is none."""
        carried, self.carried = self.carried, b""
        return b"[" + carried + b"]" if carried else None

    def take(self, rescued: Rescue) -> None:
        """Go on after a chunk that was read event by event, and log what became of malformed events."""
        self.trailer, self.carried = rescued.trailer, rescued.cut_off
        self.log.add("lost-events", rescued.lost)
        self.log.add("repaired-events", rescued.repaired)
        self.log.events_read += rescued.lost


class _Ends:
    """The places where events of a text seem to end, each searched for once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._tried = 0

    def after(self, position: int) -> int:
        """The end of the event at ``position`` if its last brace is right."""
        if position >= self._place:
            end = _PIECE_END.search(self._text, position)
            self._place, self._tried = (end.end() if end else len(self._text)), 0
        return self._place

    def worth_a_try(self, position: int) -> bool:
        """Whether the event at ``position`` is short enough to be repaired, and one of few with its end."""
        self._tried += 1
        return self._place - position <= _REPAIR_LIMIT and self._tried <= _MOST_STARTS

    def without(self, length: int) -> str:
        """Go on without so much of the text; returns the rest."""
        self._text, self._place = self._text[length:], self._place - length
        return self._text


def split_end(chunk: bytes, form: Form) -> Rescue | None:
    """Decode a chunk that holds whole events and then the end of their list; None when it is no such chunk."""
    ends = list(_OBJECT_THEN_LIST_END.finditer(chunk))[-_MOST_ENDS:]
    for end in reversed(ends):
        text, trailer = chunk[: end.start() + 1], chunk[end.end(1) :]
        if _more_events(trailer.decode("utf-8", "replace"), 0):
            continue
        try:
            return Rescue(form.decode(b"[" + text + b"]"), trailer=trailer)
        except DecodeError:
            continue
    return None


def rescue(chunk: bytes, form: Form, *, final: bool = False) -> Rescue:
    """Read a chunk one event at a time, repairing what can be repaired.

    Unless the chunk is the ``final`` one, or longer than any event, an event that is cut at its end is returned as
    ``cut_off``.
    """
    final = final or len(chunk) > LONGEST_EVENT
    chunk = chunk[1:-1]
    whole = split_end(chunk, form)
    if whole is not None:
        return whole
    result = Rescue()
    text = chunk.decode("utf-8", "replace")
    ends = _Ends(text)
    position = _after_separator(text, 0)
    while position < len(text):
        if _LIST_END.match(text, position) and not _more_events(text, position):
            result.trailer = text[position + 1 :].encode("utf-8", "replace")
            break
        following = _take(text, position, ends, result, form, final=final)
        if following is None:
            result.cut_off = text[position:].encode("utf-8", "replace")
            break
        position = _after_separator(text, following)
        if position > _REPAIR_LIMIT:  # the parser's errors count the lines before them
            text, position = ends.without(position), 0
    return result


def _more_events(text: str, position: int) -> bool:
    """Whether more events of the same list follow a closing bracket, which then does not end the list."""
    phase = _PHASE.search(text, position)
    return phase is not None and '"traceEvents"' not in text[position : phase.start()]


def _after_separator(text: str, position: int) -> int:
    separator = _BETWEEN.match(text, position)
    return separator.end() if separator else position


def _take(text: str, position: int, ends: _Ends, result: Rescue, form: Form, *, final: bool) -> int | None:
    """Read the event at ``position``; returns where to continue, or None when the event may be cut off."""
    try:
        loose, end = _PARSER.raw_decode(text, position)
    except (ValueError, RecursionError) as error:
        loose, end = None, position
        if not final and _ran_out(error, text):
            return None
        if isinstance(error, RecursionError) and (
            nested := _DEEP.match(text, position)
        ):  # nor is any of these an event
            result.lost += 1
            return nested.end() - 1
    if isinstance(loose, dict) and _ends_well(text, end):
        _keep(loose, text[position:end], result, form)
        return end
    stop = ends.after(position)
    repaired = _repaired(text[position:stop]) if ends.worth_a_try(position) else None
    if repaired is not None:
        result.events.append(form.convert(repaired))
        result.repaired += 1
        return stop
    if isinstance(loose, dict) and "ph" in loose:  # complete, but not followed by a comma
        _keep(loose, text[position:end], result, form)
        return _next_start(text, end, result)
    result.lost += 1
    return _next_start(text, position + 1, result=None)


def _ran_out(error: ValueError | RecursionError, text: str) -> bool:
    """Whether the parser reached the end of the text."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")


def _ends_well(text: str, end: int) -> bool:
    """Whether an event, or the end of the list or of the text, follows."""
    after = _BETWEEN.match(text, end)
    place = after.end() if after else end
    if place == len(text) or _LIST_END.match(text, place):
        return True
    return "," in text[end:place] and text.startswith("{", place)


def _next_start(text: str, position: int, result: Rescue | None) -> int:
    """The start of the next event; other text before it counts as a lost event."""
    event = _NEXT_EVENT.search(text, position)
    start = event.start() if event else len(text)
    if result is not None and text[position:start].strip(" \t\r\n,"):
        result.lost += 1
    return start


def _repaired(piece: str) -> dict[str, Any] | None:
    escaped = _BAD_ESCAPE.sub(r"\\\\", piece)
    for variant in (_PARTS.sub(_repaired_part, escaped), _PARTS.sub(_repaired_part, _with_escaped_quotes(escaped))):
        try:
            loose, end = _PARSER.raw_decode(variant)
        except (ValueError, RecursionError):
            continue
        if isinstance(loose, dict) and not variant[end:].strip(" \t\r\n,"):
            return loose
    return None


def _repaired_part(part: re.Match[str]) -> str:
    """A part of an event as JSON: without a comma that nothing follows, and null where a value is missing or none."""
    if part["bare"]:
        return part[0] if _SCALAR.fullmatch(part[0]) else "null"
    return part["text"] or (":null" if part["lacking"] else "")


def _with_escaped_quotes(text: str) -> str:
    """Escape quotes inside a name; the name ends at a quote before the next key or the end of the event."""

    def escape(string: re.Match[str]) -> str:
        return string[1] + _LONE_QUOTE.sub(r"\"", string[2]) + string[3]

    return _LOOSE_STRING.sub(escape, text, count=_MOST_STRINGS)


def _keep(loose: dict[str, Any], source: str, result: Rescue, form: Form) -> None:
    result.events.append(form.convert(loose))
    odd = "\ufffd" in source or any(ord(char) < _SPACE and char not in "\n\r\t" for char in source)
    result.repaired += odd
