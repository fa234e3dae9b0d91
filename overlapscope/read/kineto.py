"""Read a Kineto (torch.profiler) trace as a stream of chunks into a draft of tables.

Only a few chunks of the file are in memory at a time: events become columns at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from overlapscope.errors import UnknownTraceFormat, UnusableTrace
from overlapscope.read import scrubbed
from overlapscope.read.bytestream import placed_blocks
from overlapscope.read.chunks import LONGEST_EVENT, Text, cut, find_events
from overlapscope.read.decoded import Decoded, renumbered
from overlapscope.read.draft import Arrays, Draft
from overlapscope.read.dropped import messages_of, note_dropped
from overlapscope.read.events import FORMS, DecodeError
from overlapscope.read.helpers import Options, Share, shares_of, started
from overlapscope.read.kineto_header import KEYS, metadata_of, trailer_keys
from overlapscope.read.log import UNKNOWN_CATEGORY, HealthLog
from overlapscope.read.salvage import Rescue, rescue
from overlapscope.read.scrubbed import note_before
from overlapscope.read.selection import NOT_WANTED
from overlapscope.read.values import NeedsExact
from overlapscope.read.wire import Answer

TRAILER_LIMIT = 1 << 24
"""Bytes of the part after the events that are read."""


_DROPPED = {
    "no-phase": "events of a known category without a duration phase; left out",
    "no-time": "events without a readable time; left out",
    "negative-duration": "events that end before they start; left out",
}


@dataclass
class _Reader:
    """The state of one pass over a file."""

    log: HealthLog
    decoded: Decoded
    carried: bytes = b""
    trailer: bytes | None = None

    @property
    def between_events(self) -> bool:
        """Whether the next chunk begins with an event of the list, with nothing carried over."""
        return self.trailer is None and not self.carried

    def take(self, answer: Answer) -> None:
        """Take what a helper made of the next chunks."""
        self.decoded.add_all(answer.decoded)
        if answer.malformed:
            self.read(answer.malformed)

    def read(self, chunk: bytes) -> None:
        """Read one chunk of the event list, as `cut` returns it."""
        if self.trailer is not None:
            if len(self.trailer) < TRAILER_LIMIT:
                self.trailer += b"," + chunk[1:-1]
            return
        if self.carried:
            chunk, self.carried = b"[" + self.carried + b"," + chunk[1:], b""
        self._take(chunk, final=False)

    def finish(self) -> None:
        """Read the remainder of the last chunk."""
        if self.carried:
            chunk, self.carried = b"[" + self.carried + b"]", b""
            self._take(chunk, final=True)
        self.decoded.flush()

    def _take(self, chunk: bytes, *, final: bool) -> None:
        try:
            self.decoded.add_chunk(chunk)
        except DecodeError:
            self._rescue(chunk[1:-1], final=final or len(chunk) > LONGEST_EVENT)

    def _rescue(self, text: bytes, *, final: bool) -> None:
        rescued = rescue(text, FORMS[self.decoded.exact], final=final)
        try:
            self.decoded.add(rescued.events)
        except NeedsExact:
            self.decoded.exact = True
            rescued = rescue(text, FORMS[True], final=final)
            self.decoded.add(rescued.events)
        self.trailer = rescued.trailer
        self.carried = rescued.cut_off
        note_rescued(self.log, rescued)


def note_rescued(log: HealthLog, rescued: Rescue) -> None:
    """Log what became of malformed events."""
    log.damage("lost-events", rescued.lost, "events that could not be read or repaired; left out")
    log.warn("repaired-events", rescued.repaired, "malformed events were repaired and read")
    log.events_read += rescued.lost


def read_kineto(path: Path, log: HealthLog, options: Options) -> Draft:
    """Read the trace into a draft.

    Raises:
        UnknownTraceFormat: the text has no list of trace events.
        UnusableTrace: the list is there, but no event in it can be read.
    """
    text = Text(placed_blocks(path, log, options.progress))
    opening = find_events(text.blocks())
    if opening is None:
        raise UnknownTraceFormat(
            f"{path}: JSON without trace events; expected a torch.profiler trace, not an execution trace or another "
            "tool's file"
        )
    decoded = Decoded(options.selection)
    reader = _Reader(log, decoded)
    text.put_back(opening.rest)
    _read_shares(reader, text, shares_of(path, text.place, options), options)
    reader.finish()
    header = opening.header | trailer_keys(reader.trailer, opening, log)
    note_before(log, header.get(scrubbed.KEY))
    _note_left_out(decoded, log)
    if log.events_read == 0:
        raise UnusableTrace(f"{path}: a Kineto trace without a readable event; record it again")
    note_dropped(log, messages_of(header))
    tables = decoded.tables()
    if _is_foreign(tables, decoded, header):
        raise UnknownTraceFormat(
            f"{path}: trace events, but none of torch.profiler; JAX, TensorFlow, Chrome and torch.autograd.profiler "
            "write such files too: record with torch.profiler, or any program with `nsys profile -t cuda,nvtx`"
        )
    pool = renumbered(tables, decoded.pool)
    log.events_kept += sum(len(columns["start_ns"]) for columns in tables.values())
    metadata = replace(
        metadata_of(header, path, decoded.thread_names, is_list=opening.is_list),
        recorded_ns=tuple(sorted(decoded.recorded_ns)),
    )
    return Draft(
        metadata,
        log,
        pool,
        tables,
        syncs_recorded="syncs" in tables,
        selection=options.selection,
        host_processes=frozenset(decoded.left_out_processes),
    )


def _is_foreign(tables: dict[str, Arrays], decoded: Decoded, header: dict[str, Any]) -> bool:
    """Whether another program than torch.profiler wrote the events: neither they nor the header are Kineto's."""
    own = bool(tables or decoded.recorded_ns or decoded.dropped["not-wanted"] or decoded.dropped["no-phase"])
    return bool(decoded.unknown) and not own and not KEYS & set(header)


def _read_shares(reader: _Reader, text: Text, shares: list[Share], options: Options) -> None:
    """Read the first share, and take the others from helpers, up to the first that has to be read here."""
    with started(shares[1:], options.selection) as helpers:
        for chunk in cut(b"", text.share(shares[0].stop)):
            reader.read(chunk)
        taken, chunks = 1, 0
        for helper in helpers:
            at_its_start = reader.between_events and text.place >= shares[1].start
            answer = helper.answer() if at_its_start else None
            if answer is not None:
                reader.take(answer)
                chunks = answer.chunks
            if answer is None or not answer.whole:
                break
            taken, chunks = taken + 1, 0
            if options.progress is not None:
                options.progress(helper.share.stop, shares[-1].stop)
    if taken < len(shares):
        _read_here(reader, text, shares[1:], taken - 1, chunks)


def _read_here(reader: _Reader, text: Text, shares: list[Share], taken: int, chunks: int) -> None:
    """Read what follows the first ``taken`` shares and some chunks of the next one."""
    for share in shares[:taken]:
        for _ in text.share(share.stop):
            pass
    partly = cut(b"", text.share(shares[taken].stop))
    for chunk in chain(islice(partly, chunks, None), cut(b"", text.blocks())):
        reader.read(chunk)


def _note_left_out(decoded: Decoded, log: HealthLog) -> None:
    log.events_read += decoded.events
    for code, text in _DROPPED.items():
        log.damage(code, decoded.dropped[code], text, log.events_read)
    log.note("not-wanted", decoded.dropped["not-wanted"], NOT_WANTED, log.events_read)
    for category, count in sorted(decoded.unknown.items()):
        code = UNKNOWN_CATEGORY + category
        log.note(code, count, f"events of an unknown category ({category}); left out", log.events_read)
