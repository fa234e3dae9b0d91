"""Read a Kineto (torch.profiler) trace as a stream of chunks into a draft of tables.

Only a few chunks of the file are in memory at a time: events become columns at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from overlapscope.calibration.data import count, from_json, moment
from overlapscope.calibration.schema import KEY, VERSION_KEYS
from overlapscope.errors import UnknownTraceFormat, UnusableTrace
from overlapscope.model.trace import Device, Metadata
from overlapscope.read.bytestream import placed_blocks
from overlapscope.read.chunks import Opening, Text, cut, find_events
from overlapscope.read.decoded import Decoded, renumbered
from overlapscope.read.draft import Arrays, Draft
from overlapscope.read.events import FORMS, DecodeError
from overlapscope.read.helpers import Answer, Options, Share, shares_of, started
from overlapscope.read.log import HEALTH_KEY, HealthLog, messages_of
from overlapscope.read.salvage import EventList, rescue
from overlapscope.read.values import NeedsExact

_CUT_TRAILER = "part after the events is truncated or malformed; versions and devices given there are not known"
KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "trace_id", KEY})
"""Top-level keys by which a file is Kineto's, whatever its events are."""


@dataclass
class _Reader(EventList):
    """The state of one pass over a file."""

    decoded: Decoded = field(default_factory=Decoded)

    @property
    def between_events(self) -> bool:
        """Whether the next chunk begins with an event of the list, with nothing carried over."""
        return self.trailer is None and not self.carried

    def take_answer(self, answer: Answer) -> None:
        """Take what a helper made of the next chunks."""
        self.decoded.add_all(answer.decoded)
        if answer.malformed:
            self.read(answer.malformed)

    def read(self, chunk: bytes) -> None:
        """Read one chunk of the event list, as `cut` returns it."""
        self._decode(self.joined(chunk), final=False)

    def finish(self) -> None:
        """Read the remainder of the last chunk."""
        self._decode(self.last(), final=True)
        self.decoded.flush()

    def _decode(self, chunk: bytes | None, *, final: bool) -> None:
        if chunk is None:
            return
        try:
            self.decoded.add_chunk(chunk)
        except DecodeError:
            self._rescue(chunk, final=final)

    def _rescue(self, chunk: bytes, *, final: bool) -> None:
        rescued = rescue(chunk, FORMS[self.decoded.exact], final=final)
        try:
            self.decoded.add(rescued.events)
        except NeedsExact:
            self.decoded.exact = True
            rescued = rescue(chunk, FORMS[True], final=final)
            self.decoded.add(rescued.events)
        self.take(rescued)


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
    reader = _Reader(log, decoded=decoded)
    text.put_back(opening.rest)
    _read_shares(reader, text, shares_of(path, text.place, options), options)
    reader.finish()
    header = opening.header | trailer_keys(reader.trailer, opening, log)
    log.note_original(header.get(HEALTH_KEY))
    _note_left_out(decoded, log)
    if log.events_read == 0:
        raise UnusableTrace(f"{path}: a Kineto trace without a readable event; record it again")
    log.note_dropped(messages_of(header))
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
    has_kineto_events = bool(
        tables or decoded.recorded_ns or decoded.dropped["not-wanted"] or decoded.dropped["no-phase"]
    )
    return bool(decoded.unknown) and not has_kineto_events and not KEYS & set(header)


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
                reader.take_answer(answer)
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
    for code in ("no-phase", "no-time", "negative-duration", "not-wanted"):
        log.add(code, decoded.dropped[code], "events", "readable time", of=log.events_read)
    for category, events in sorted(decoded.unknown.items()):
        log.add(f"unknown-category:{category}", events, category, of=log.events_read)


def trailer_keys(trailer: bytes | None, opening: Opening, log: HealthLog) -> dict[str, Any]:
    """The top-level keys after the event list; a header or an end that is damaged is logged."""
    if trailer is None:
        log.add("truncated", 1, "file is truncated within its list of events; all events before were read")
    if not opening.header_ok:
        log.add("bad-header", 1)
    text = (trailer or b"").strip()
    if b'"traceEvents"' in text:
        log.add("second-trace", 1)
    if not text or trailer is None:
        log.add("truncated", int(trailer is not None and not opening.is_list), _CUT_TRAILER)
        return {}
    try:
        keys = json.loads(b"{" + text.removeprefix(b",").strip(), strict=False)
    except (ValueError, RecursionError):
        log.add("bad-trailer", 1, _CUT_TRAILER)
        return {}
    return keys if isinstance(keys, dict) else {}


def metadata_of(
    header: dict[str, Any], path: Path, thread_names: dict[tuple[int, int], str], *, is_list: bool
) -> Metadata:
    """Metadata from the header and trailer keys; what is missing or malformed stays unknown."""
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    listed = header.get("deviceProperties")
    calibration = from_json(header.get(KEY))
    devices = [_device(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return Metadata(
        format="kineto",
        path=str(path),
        tool="torch.profiler (Kineto)",
        schema_version="list" if is_list else str(header.get("schemaVersion", "")),
        base_time_ns=moment(header.get("baseTimeNanoseconds")),
        rank=count(distributed.get("rank")),
        world_size=count(distributed.get("world_size")),
        devices=tuple(device.with_calibration(calibration) for device in devices if device is not None),
        versions=MappingProxyType({key: str(header[key]) for key in VERSION_KEYS if key in header}),
        thread_names=MappingProxyType(thread_names),
        recording=calibration,
    )


def _device(entry: dict[str, Any]) -> Device | None:
    number = count(entry.get("id"))
    if number is None:
        return None
    major, minor = entry.get("computeMajor"), entry.get("computeMinor")
    return Device(
        number=number,
        name=str(entry.get("name", "")),
        memory_bytes=count(entry.get("totalGlobalMem")),
        multiprocessors=count(entry.get("numSms")),
        compute_capability=f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else None,
    )
