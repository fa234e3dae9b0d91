"""Read what can be read of a chunk that does not decode: event by event, with a forgiving parser.

Seen in the wild: runs killed while writing, names with unescaped quotes, backslashes or control
characters, bad UTF-8, ``nan`` and ``inf``, numbers such as ``0.-660``.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from overlapscope.read.chunks import BOUNDARY
from overlapscope.read.events import AnyEvent, DecodeError, convert, decode

_SPACE = ord(" ")
_JOIN_LIMIT = 8  # pieces that one event with nested lists of objects may have been cut into
_PARSER = json.JSONDecoder(strict=False, parse_float=Decimal)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BAD_NUMBER = re.compile(r"(?<=[:\[,\s])(?:[-+]?(?:nan|inf(?:inity)?)|[-+]?\d*\.-\d+)(?=\s*[,}\]])", re.IGNORECASE)
_LOOSE_STRING = re.compile(r'("(?:name|cat|ph)"\s*:\s*")(.*?)("\s*(?:\}|,\s*"[\w ]+"\s*:))', re.DOTALL)
_LONE_QUOTE = re.compile(r'(?<!\\)"')


@dataclass
class Rescue:
    """What came out of a damaged chunk.

    ``trailer`` is the text after the end of the event list, None while the list goes on; ``cut_off`` is
    the text of a last event that may continue in the next chunk.
    """

    events: list[AnyEvent] = field(default_factory=list)
    repaired: int = 0
    lost: int = 0
    trailer: bytes | None = None
    cut_off: bytes = b""


def rescue(chunk: bytes, *, exact: bool, final: bool = False) -> Rescue:
    """Decode a chunk one event at a time, repairing what can be repaired.

    Unless it is the ``final`` one, an event that its end may have cut is given back instead of given up.
    """
    result = Rescue()
    pieces = _split(chunk)
    position = 0
    while position < len(pieces) and result.trailer is None:
        tail = len(pieces) - position <= _JOIN_LIMIT and not final
        taken = _take_one(pieces, position, result, exact=exact)
        if not taken and tail:
            result.cut_off = b",".join(pieces[position:])
            break
        result.lost += not taken
        position += taken or 1
    if result.trailer is not None:
        result.trailer += b",".join([b"", *pieces[position:]])
    return result


def _split(chunk: bytes) -> list[bytes]:
    pieces, start = [], 0
    for boundary in BOUNDARY.finditer(chunk):
        pieces.append(chunk[start : boundary.start(1)])
        start = boundary.end()
    pieces.append(chunk[start:])
    return pieces


def _take_one(pieces: list[bytes], position: int, result: Rescue, *, exact: bool) -> int:
    """Read the event that starts at ``position``; returns how many pieces it took, 0 when it is unreadable."""
    piece = pieces[position].strip().lstrip(b",").lstrip()
    if not piece:
        return 1
    if piece.startswith(b"]"):
        result.trailer = piece[1:]
        return 1
    joined = [piece]
    while True:
        try:
            result.events += decode(joined[-1], exact=exact)
        except DecodeError:
            following = position + len(joined)
            if following == len(pieces) or len(joined) == _JOIN_LIMIT:
                break
            joined.append(joined[-1] + b"," + pieces[following])
        else:
            return len(joined)
    for count, text in enumerate(joined, 1):
        if _repair(text, result, mend=count == 1, exact=exact):
            return count
    return 0


def _repair(piece: bytes, result: Rescue, *, mend: bool, exact: bool) -> bool:
    """Read one event with the forgiving parser, mended where it may be; False when there is none."""
    text = piece.decode("utf-8", "replace")
    mended = (_mend_values(text), _mend_quotes(_mend_values(text))) if mend else ()
    for attempt, variant in enumerate((text, *mended)):
        try:
            loose, end = _PARSER.raw_decode(variant)
        except (ValueError, RecursionError):
            continue
        after = variant[end:].strip().lstrip(",").strip()
        if not isinstance(loose, dict) or (after and not after.startswith("]")):
            continue
        result.events.append(convert(_without_nan(loose), exact=exact))
        if after:
            result.trailer = after[1:].encode()
        changed = attempt > 0 or "\ufffd" in text or any(ord(char) < _SPACE and char not in "\n\r\t" for char in text)
        result.repaired += changed
        return True
    return False


def _mend_values(text: str) -> str:
    return _BAD_NUMBER.sub("null", _BAD_ESCAPE.sub(r"\\\\", text))


def _mend_quotes(text: str) -> str:
    """Escape quotes inside a name: it ends at the quote that the next key or the end of the event follows."""

    def mend(found: re.Match[str]) -> str:
        return found[1] + _LONE_QUOTE.sub(r"\"", found[2]) + found[3]

    return _LOOSE_STRING.sub(mend, text)


def _without_nan(loose: dict[str, Any]) -> dict[str, Any]:
    """Python's parser accepts NaN and Infinity; no column of ours can hold them."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in loose.items()
    }
