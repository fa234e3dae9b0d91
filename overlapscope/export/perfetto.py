"""Write a trace, and what was found in it, as JSON that ui.perfetto.dev opens.

Format: Trace Event Format. Slices of a thread have to nest, so that those which do not get a row of their own; threads
have numbers that no other process has, because Perfetto takes them for those of an operating system.
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
from overlapscope.timeline.measured_tracks import GROUP, measured_tracks
from overlapscope.timeline.nesting import nesting_levels
from overlapscope.timeline.recorded_tracks import recorded_tracks
from overlapscope.timeline.tracks import Counter, Links, Track

Event = dict[str, Any]
LEVEL = 5
"""Of gzip: traces are large."""
_STEPS_NS = ((1 << 51, 1), (1 << 53, 125))  # up to here, times that are multiples of this are exact as floats in us
_US = 1000
_BATCH = 1 << 12  # events that become text at once
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def save_perfetto(found: Diagnosis, path: str | Path) -> None:
    """Write the trace that ``found`` is about, and the findings, to ``path``; gzip when it ends in ``.gz``.

    Raises:
        OutputError: it cannot be written.
    """
    with writing(Path(path), LEVEL) as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for part in encoded(perfetto_events(found)):
            file.write(part)
        file.write(b"\n]}\n")


def encoded(events: Iterator[Event]) -> Iterator[bytes]:
    """Events as JSON, separated by commas."""
    separator = "\n"
    while batch := list(islice(events, _BATCH)):
        yield (separator + _ENCODER.encode(batch)[1:-1]).encode()
        separator = ",\n"


def perfetto_events(found: Diagnosis) -> Iterator[Event]:
    """All events; times are in us since the trace's first event, as the format wants them."""
    trace = found.trace
    ours, counters = measured_tracks(found)
    theirs, links = recorded_tracks(trace)
    board = _Board(trace.start_ns, [*ours, *theirs], counters)
    yield from board.names()
    for track in (*ours, *theirs):
        yield from board.slices(track)
    for counter in counters:
        yield from board.counts(counter)
    yield from board.arrows(links)


def own_events(found: Diagnosis, first: int) -> Iterator[Event]:
    """Only what was measured, with the times of the recorded file; processes and threads count from ``first`` on."""
    ours, counters = measured_tracks(found)
    board = _Board(0, ours, counters, first)
    yield from board.names()
    for track in ours:
        yield from board.slices(track)
    for counter in counters:
        yield from board.counts(counter)


class _Board:
    """Numbers of processes and threads: which track is where."""

    def __init__(self, zero_ns: int, tracks: Sequence[Track], counters: Sequence[Counter], first: int = 1) -> None:
        self._zero_ns = zero_ns
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

    def names(self) -> Iterator[Event]:
        """What the processes and threads are called, and their order."""
        for place, (group, process) in enumerate(self._process.items()):
            yield _about("process_name", process, 0, name=group)
            yield _about("process_sort_index", process, 0, sort_index=place - 1)  # ours before all others
        for process, thread, title in self._titles:
            yield _about("thread_name", process, thread, name=title)
            yield _about("thread_sort_index", process, thread, sort_index=thread)

    def slices(self, track: Track) -> Iterator[Event]:
        """A complete event for each, the outermost first."""
        process, first, level = self._process[track.group], self._thread[id(track)], self._levels[id(track)]
        order = np.lexsort((-track.end_ns, track.start_ns))
        for row in order.tolist():
            start, end = int(track.start_ns[row]), int(track.end_ns[row])
            event: Event = {"ph": "X", "name": track.names[row], "pid": process, "tid": first + int(level[row])}
            event |= {"ts": self._us(start), "dur": (self._whole(end) - self._whole(start)) / 1000}
            known = {name: values[row] for name, values in track.arguments.items() if values[row] is not None}
            yield event | ({"args": known} if known else {})

    def counts(self, counter: Counter) -> Iterator[Event]:
        """A value for each change."""
        process = self._process[counter.group]
        for time, value in zip(counter.curve.time_ns.tolist(), counter.curve.value.tolist(), strict=True):
            args = {"value": value}
            yield {"ph": "C", "name": counter.title, "pid": process, "ts": self._us(time), "args": args}

    def arrows(self, links: Sequence[Links]) -> Iterator[Event]:
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


def _about(what: str, process: int, thread: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": args}
