"""Write a trace and its diagnosis as JSON that ui.perfetto.dev opens, alone or appended to the recorded file.

Format: Trace Event Format. Slices of a thread have to nest: a slice that does not gets another row. A thread has a
number that no other process has, because Perfetto takes it for a number of the operating system.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from overlapscope.atomic_files import writing
from overlapscope.diagnosis.finding import Diagnosis
from overlapscope.errors import OutputError
from overlapscope.model.tables import DeviceWork, HostWork
from overlapscope.model.trace import Trace
from overlapscope.read.bytestream import read_blocks
from overlapscope.read.chunks import find_events
from overlapscope.read.log import HealthLog
from overlapscope.timeline.bars import nesting_levels
from overlapscope.timeline.tracks import GROUP, Counter, Links, Track, measured_tracks, recorded_tracks

Event = dict[str, Any]
_GZIP_LEVEL = 5  # traces are large
_STEPS_NS = ((1 << 51, 1), (1 << 53, 125))  # up to here, times that are multiples of this are exact as floats in us
_US = 1000
_BATCH = 1 << 12  # events that become text at once
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_NO_JSON = ("truncated", "corrupt-gzip", "lost-events", "repaired-events", "bad-header", "bad-trailer", "second-trace")
"""Health warnings of a file that is no valid JSON as a whole."""
_NUMBERS = 1 << 16  # of processes and threads that the appended tracks may need
_FIRST = 1 << 22  # the largest process number of Linux


def save_perfetto(diagnosis: Diagnosis, path: str | Path) -> None:
    """Write the trace of a diagnosis, and the findings, to ``path``; gzip when it ends in ``.gz``.

    Raises:
        OutputError: it cannot be written.
    """
    with writing(Path(path), _GZIP_LEVEL) as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for part in _encoded(perfetto_events(diagnosis)):
            file.write(part)
        file.write(b"\n]}\n")


def append_perfetto(diagnosis: Diagnosis, recorded: str | Path, path: str | Path) -> None:
    """Write a copy of the ``recorded`` file with the diagnosis of it to ``path``; gzip when that ends in ``.gz``.

    Raises:
        OutputError: the file is no complete Kineto file, or the copy cannot be written.
    """
    _check(diagnosis.trace, Path(recorded))
    blocks = read_blocks(Path(recorded), HealthLog())
    head, rest = _split(blocks)
    with writing(Path(path), _GZIP_LEVEL) as file:
        file.write(head)
        for part in _encoded(_measured_events(diagnosis, _free_number(diagnosis.trace))):
            file.write(part)
        while not rest.strip() and (block := next(blocks, b"")):
            rest += block
        file.write(b"" if rest.lstrip().startswith(b"]") else b",")
        file.write(rest)
        for block in blocks:
            file.write(block)


def perfetto_events(diagnosis: Diagnosis) -> Iterator[Event]:
    """All events; times are in us since the trace's first event, as the format wants them."""
    tracks, counters = measured_tracks(diagnosis)
    recorded, links = recorded_tracks(diagnosis.trace)
    return _Board(diagnosis.trace.start_ns, [*tracks, *recorded], counters).events(links)


def _measured_events(diagnosis: Diagnosis, first: int) -> Iterator[Event]:
    """The measured events, with the times of the recorded file; processes and threads count from ``first`` on."""
    return _Board(0, *measured_tracks(diagnosis), first).events()


def _encoded(events: Iterator[Event]) -> Iterator[bytes]:
    """Events as JSON, separated by commas."""
    separator = "\n"
    while batch := list(islice(events, _BATCH)):
        yield (separator + _ENCODER.encode(batch)[1:-1]).encode()
        separator = ",\n"


class _Board:
    """The numbers of the processes and threads of tracks, and the events of these tracks."""

    def __init__(self, zero_ns: int, tracks: Sequence[Track], counters: Sequence[Counter], first: int = 1) -> None:
        self._zero_ns, self._tracks, self._counters = zero_ns, tracks, counters
        last_ns = max((int(track.end_ns.max(initial=0)) - zero_ns for track in tracks), default=0)
        self._step_ns = next((step for most, step in _STEPS_NS if last_ns < most), _US)
        groups = dict.fromkeys([GROUP, *(track.group for track in tracks), *(counter.group for counter in counters)])
        self._process = {group: number for number, group in enumerate(groups, first)}
        self._levels = {id(track): nesting_levels(track.start_ns, track.end_ns) for track in tracks}
        self._thread: dict[int, int] = {}
        self._titles: list[tuple[int, int, str]] = []
        following = len(groups) + first
        for track in tracks:
            self._thread[id(track)] = following
            for level in range(int(self._levels[id(track)].max(initial=0)) + 1):
                title = track.title if not level else f"{track.title} ({level + 1})"
                self._titles.append((self._process[track.group], following, title))
                following += 1

    def events(self, links: Sequence[Links] = ()) -> Iterator[Event]:
        """All events: names first, then slices, counters and arrows."""
        yield from self._names()
        for track in self._tracks:
            yield from self._slices(track)
        for counter in self._counters:
            yield from self._counts(counter)
        yield from self._arrows(links)

    def _names(self) -> Iterator[Event]:
        """The names of the processes and threads, and their order."""
        for place, (group, process) in enumerate(self._process.items()):
            yield _metadata("process_name", process, 0, name=group)
            yield _metadata("process_sort_index", process, 0, sort_index=place - 1)  # ours come first
        for process, thread, title in self._titles:
            yield _metadata("thread_name", process, thread, name=title)
            yield _metadata("thread_sort_index", process, thread, sort_index=thread)

    def _slices(self, track: Track) -> Iterator[Event]:
        """A complete event for each slice, the outermost first."""
        process, first, level = self._process[track.group], self._thread[id(track)], self._levels[id(track)]
        order = np.lexsort((-track.end_ns, track.start_ns))
        for row in order.tolist():
            start, end = int(track.start_ns[row]), int(track.end_ns[row])
            event: Event = {"ph": "X", "name": track.names[row], "pid": process, "tid": first + int(level[row])}
            event |= {"ts": self._us(start), "dur": (self._whole(end) - self._whole(start)) / 1000}
            known = {name: values[row] for name, values in track.arguments.items() if values[row] is not None}
            yield event | ({"args": known} if known else {})

    def _counts(self, counter: Counter) -> Iterator[Event]:
        """A value for each change."""
        process = self._process[counter.group]
        for time, value in zip(counter.curve.time_ns.tolist(), counter.curve.value.tolist(), strict=True):
            args = {"value": value}
            yield {"ph": "C", "name": counter.title, "pid": process, "ts": self._us(time), "args": args}

    def _arrows(self, links: Sequence[Links]) -> Iterator[Event]:
        """Flows from the begin of a call to the begin of its work."""
        number = 0
        for link in links:
            for source, target in zip(link.source_row.tolist(), link.target_row.tolist(), strict=True):
                number += 1
                yield self._end(link.source, source, number) | {"ph": "s"}
                yield self._end(link.target, target, number) | {"ph": "f", "bp": "e"}

    def _end(self, track: Track, row: int, number: int) -> Event:
        thread = self._thread[id(track)] + int(self._levels[id(track)][row])
        place = {"pid": self._process[track.group], "tid": thread, "ts": self._us(int(track.start_ns[row]))}
        return {"cat": "launch", "name": "launch", "id": number} | place

    def _us(self, time_ns: int) -> float:
        since = self._whole(time_ns) - self._zero_ns
        return since // 1000 if self._step_ns == _US else since / 1000

    def _whole(self, time_ns: int) -> int:
        return time_ns - (time_ns - self._zero_ns) % self._step_ns


def _metadata(what: str, process: int, thread: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": args}


def _check(trace: Trace, recorded: Path) -> None:
    if trace.metadata.format != "kineto":
        raise OutputError(f"{recorded}: is no Kineto JSON, so nothing can be appended to it; export without --append")
    warnings = {warning.code: warning.message for warning in trace.health}
    wrong = next((warnings[code] for code in _NO_JSON if code in warnings), None)
    if wrong is not None:
        raise OutputError(f"{recorded}: cannot be appended to ({wrong}); export without --append")


def _split(blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The bytes before the first event, and the bytes after them that were read already."""
    seen: list[bytes] = []

    def noted() -> Iterator[bytes]:
        for block in blocks:
            seen.append(block)
            yield block

    opening = find_events(noted())
    if opening is None:
        raise OutputError("the file has changed since it was read")
    text = b"".join(seen)
    return text[: len(text) - len(opening.rest)], opening.rest


def _free_number(trace: Trace) -> int:
    """The first of `_NUMBERS` numbers that no process and no thread of the trace has."""
    tables = [table for _, table in trace.tables() if isinstance(table, HostWork | DeviceWork)]
    columns = [getattr(table, "thread" if isinstance(table, HostWork) else "stream") for table in tables]
    first = _FIRST
    for number in np.unique(np.concatenate([*columns, *(table.process for table in tables)])).tolist():
        if first <= number < first + _NUMBERS:
            first = number + 1
    return first
