"""Cut the text of a Kineto trace into a header and chunks of whole events.

A chunk ends at the end of an event: at a ``},`` that is followed by ``{"`` and one of the keys that start an event.
Inside a JSON string quotes are escaped, so this sequence cannot occur in a name. It can occur in a list of objects
among an event's arguments, which `salvage` then joins again.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from overlapscope.read.bytestream import Block

CHUNK_BYTES = 1 << 19
LONGEST_EVENT = 1 << 22
"""No event has more bytes."""
_HEADER_LIMIT = 1 << 26
_HEADER_PATIENCE = 1 << 24  # after a key that did not end a header, for one that does
_MOST_CANDIDATES = 64  # keys that may end a header; each is tried from the begin of the file
EVENT_KEYS = b"ph|cat|name|pid|tid|ts|dur|id|args|s|bp"
"""Keys with which events start in files of known profilers, as a pattern."""
BOUNDARY = re.compile(rb'\}\s*(,)\s*(?=\{\s*"(?:' + EVENT_KEYS + rb')"\s*:)')
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_ANY_BOUNDARY = re.compile(rb'\}\s*(,)\s*(?=\{\s*"[^"\\]{1,64}"\s*:)')  # for events that start with another key
_PATIENCE = 4  # chunks without a boundary, after which any key will do
_LONGEST_BOUNDARY = 1 << 10  # white space included
_LONGEST_SPACE = 1 << 20  # before a trace
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Opening:
    """The start of a trace: its header, and the first bytes of its events."""

    header: dict[str, Any]
    rest: bytes
    is_list: bool
    header_ok: bool = True


def find_events(blocks: Iterator[bytes]) -> Opening | None:
    """Read up to the first event. None when the text is no JSON object or list with trace events."""
    buffer = bytearray()
    searched, candidate, tried = 0, None, 0
    for block in blocks:
        buffer += block
        if not searched:
            text = bytes(buffer).removeprefix(_BOM).lstrip()
            if text[:1] != b"{":
                if text:
                    return Opening({}, text[1:], is_list=True) if text[:1] == b"[" else None
                if len(buffer) > _LONGEST_SPACE:
                    return None
                continue
        for key in _EVENTS_KEY.finditer(buffer, searched):
            header = _header(bytes(buffer[: key.end()]))
            if header is not None:
                return Opening(header, bytes(buffer[key.end() :]), is_list=False)
            candidate, tried = (key.start() if candidate is None else candidate), tried + 1
            if tried == _MOST_CANDIDATES:
                break
        searched = max(1, len(buffer) - len(b'"traceEvents"  :  ['))
        limit = _HEADER_LIMIT if candidate is None else candidate + _HEADER_PATIENCE
        if tried == _MOST_CANDIDATES or len(buffer) > limit:
            break
    first = _EVENTS_KEY.search(buffer)  # a header that is no JSON: keep the events, lose the header
    return Opening({}, bytes(buffer[first.end() :]), is_list=False, header_ok=False) if first else None


def _header(text: bytes) -> dict[str, Any] | None:
    """Parse ``{... "traceEvents": [`` as a complete object; None when the key is nested in something else."""
    try:
        header = json.loads(text.removeprefix(_BOM) + b"]}", strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or header.pop("traceEvents", None) != []:
        return None
    return header


class Text:
    """The text of a file, share by share; each but the last ends with an event."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self.place = 0
        """The place in the file of the block that was read last."""
        self._blocks = blocks
        self._rest = b""

    def blocks(self) -> Iterator[bytes]:
        """All that is left."""
        rest, self._rest = self._rest, b""
        yield rest
        for place, block in self._blocks:
            self.place = place
            yield block

    def share(self, stop: int) -> Iterator[bytes]:
        """All up to the first boundary in the blocks from byte ``stop`` of the file on."""
        tail, searched = bytearray(), 0
        for block in self.blocks():
            if self.place < stop:
                yield block
                continue
            tail += block
            if (end := _boundary(tail, searched)) is not None:
                self.put_back(bytes(tail[end.end() :]))
                yield bytes(tail[: end.start(1)])
                return
            searched = max(0, len(tail) - _LONGEST_BOUNDARY)
            if len(tail) > LONGEST_EVENT:  # no event: all that follows is one share
                yield bytes(tail)
                tail, stop = bytearray(), sys.maxsize
        yield bytes(tail)

    def put_back(self, rest: bytes) -> None:
        """Have ``rest``, the end of the last block, read again."""
        self._rest = rest


def cut(first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield chunks of whole events, each as the text of a JSON list; the last one includes the trailer."""
    carry = bytearray(first)
    searched = 0  # up to where the carried bytes are known to hold no boundary
    for block in chain((b"",), blocks):
        carry += block
        while (end := _boundary(carry, max(searched, CHUNK_BYTES))) is not None:
            stop, following = end.start(1), end.end()
            del end  # a match keeps the buffer from shrinking
            with memoryview(carry) as view, view[:stop] as events:
                chunk = b"".join((b"[", events, b"]"))  # the one copy that is made of them
            yield chunk
            del carry[:following]
            searched = 0
        searched = max(searched, len(carry) - _LONGEST_BOUNDARY)
        if len(carry) > LONGEST_EVENT:  # no event: whatever it is, it must not fill the memory
            stop = carry.rfind(b"},") + 1 or len(carry)
            yield b"[" + carry[:stop] + b"]"
            del carry[: stop + 1]
            searched = 0
    if carry:
        yield b"[" + carry + b"]"


def _boundary(buffer: bytearray, start: int) -> re.Match[bytes] | None:
    boundary = BOUNDARY.search(buffer, start)
    if boundary is None and len(buffer) > _PATIENCE * CHUNK_BYTES:
        boundary = _ANY_BOUNDARY.search(buffer, start)
    return boundary
