"""What a trace recorded, as tracks: host threads, streams, and arrows from calls to their work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Copies, DeviceWork, HostWork, Kernels, Memsets
from overlapscope.model.trace import Trace
from overlapscope.timeline.places import device_titles, stream_keys
from overlapscope.timeline.tracks import Links, Track

_ARGUMENTS = ("correlation", "blocks", "threads per block", "bytes", "direction", "from", "to")
_HOST = ("ranges", "modules", "cpu_ops", "frames", "overheads", "api_calls")
"""Tables of what host threads do, in the order of their slices; calls are the last."""
Place = tuple[int, int]


def recorded_tracks(trace: Trace) -> tuple[list[Track], list[Links]]:
    """Every thread and every stream, and which call issued which work."""
    threads, row_of_call = _threads(trace)
    tracks, links = list(threads.values()), []
    for track, calls in _streams(trace):
        tracks.append(track)
        issued = np.append(trace.api_calls.start_ns, np.iinfo(np.int64).max)[calls]
        known = np.flatnonzero(issued <= track.start_ns)  # clocks that disagree would have arrows point back
        table = trace.api_calls.take(calls[known])
        for process, thread in table.threads:
            mine = known[(table.process == process) & (table.thread == thread)]
            links.append(Links(threads[process, thread], row_of_call[calls[mine]], track, mine))
    return tracks, links


def _threads(trace: Trace) -> tuple[dict[Place, Track], Int64]:
    """A track for each thread, and for each row of api_calls its row there."""
    row_of_call = np.full(len(trace.api_calls), NO_ID, np.int64)
    tracks = {}
    for place in sorted({place for name in _HOST for place in getattr(trace, name).threads}):
        tracks[place], calls = _thread(trace, *place)
        row_of_call[calls] = np.arange(len(calls)) + len(tracks[place]) - len(calls)
    return tracks, row_of_call


def _thread(trace: Trace, process: int, thread: int) -> tuple[Track, Int64]:
    """What a thread did, its calls last; and the rows of those in api_calls."""
    tables: list[HostWork] = [getattr(trace, name) for name in _HOST]
    rows = [np.flatnonzero((table.process == process) & (table.thread == thread)) for table in tables]
    own = [table.take(mine) for table, mine in zip(tables, rows, strict=True)]
    start, end = (np.concatenate([getattr(table, edge) for table in own]) for edge in ("start_ns", "end_ns"))
    names = [name for table in own for name in trace.names.decode(table.name_id)]
    kinds = [kind for kind, table in zip(_HOST, own, strict=True) for _ in range(len(table))]
    correlations = np.full(len(names), NO_ID, np.int64)
    correlations[len(names) - len(own[-1]) :] = trace.api_calls.correlation[rows[-1]]
    arguments: dict[str, Sequence[Any]] = {"kind": kinds, "correlation": _known(correlations)}
    number = f"thread {'?' if thread == NO_ID else thread}"
    given = trace.metadata.thread_names.get((process, thread), "")
    title = given if given.startswith(number) else f"{number} {given}".rstrip()
    group = f"host process {'?' if process == NO_ID else process}"
    return Track(group, title, start, end, names, arguments), rows[-1]


def _streams(trace: Trace) -> Iterator[tuple[Track, Int64]]:
    """A track for each stream, with the call of each of its slices."""
    titles = device_titles(trace, "of process")
    for key in stream_keys(trace):
        own = [table.take(key.rows(table)) for table in trace.device_work]
        start, end, call = (
            np.concatenate([getattr(table, name) for table in own]).astype(np.int64)
            for name in ("start_ns", "end_ns", "call")
        )
        names = [name for table in own for name in _names(trace, table)]
        yield Track(titles[key.device], key.title, start, end, names, _arguments(own)), call


def _known(values: npt.NDArray[Any]) -> list[int | None]:
    return [None if value == NO_ID else value for value in values.tolist()]


def _names(trace: Trace, table: DeviceWork) -> list[str]:
    return [name or type(table).__name__.lower() for name in trace.names.decode(table.name_id)]


def _arguments(tables: Sequence[DeviceWork]) -> Mapping[str, Sequence[Any]]:
    """What ties work to its call; blocks of kernels; bytes, direction and memory of copies; bytes of fills."""
    parts = [_arguments_of(table) for table in tables]
    return {name: [value for part in parts for value in part[name]] for name in _ARGUMENTS}


def _arguments_of(table: DeviceWork) -> dict[str, list[Any]]:
    given: dict[str, list[Any]] = {name: [None] * len(table) for name in _ARGUMENTS}
    given["correlation"] = _known(table.correlation)
    if isinstance(table, Kernels):
        given["blocks"], given["threads per block"] = _known(table.blocks), _known(table.threads_per_block)
    if isinstance(table, Copies | Memsets):
        given["bytes"] = _known(table.size_bytes)
    if isinstance(table, Copies):
        given["direction"] = [Direction(value).label for value in table.direction.tolist()]
        given["from"] = [MemoryKind(value).label for value in table.source_kind.tolist()]
        given["to"] = [MemoryKind(value).label for value in table.target_kind.tolist()]
    return given
