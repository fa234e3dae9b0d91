"""What a trace recorded, as tracks: host threads, streams, and arrows from calls to their work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from overlapscope.export.tracks import Links, Track
from overlapscope.measure.devices import DeviceKey, device_keys
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.model.tables import Copies, DeviceWork, Kernels, Memsets
from overlapscope.model.trace import Trace

_TOLD = ("correlation", "blocks", "threads per block", "bytes", "direction", "from", "to")
_HOST = ("ranges", "cpu_ops", "frames", "overheads", "api_calls")
Place = tuple[int, int]


def recorded(trace: Trace) -> tuple[list[Track], list[Links]]:
    """Every thread and every stream, and which call issued which work."""
    threads, row_of_call = _threads(trace)
    tracks, links = list(threads.values()), []
    for key in device_keys(trace):
        for track, calls in _streams(trace, key):
            tracks.append(track)
            issued = np.append(trace.api_calls.start_ns, np.iinfo(np.int64).max)[calls]
            known = np.flatnonzero(issued <= track.start_ns)  # clocks that disagree would have arrows lead back
            table = trace.api_calls.take(calls[known])
            for process, thread in table.threads:
                mine = known[(table.process == process) & (table.thread == thread)]
                links.append(Links(threads[process, thread], row_of_call[calls[mine]], track, mine))
    return tracks, links


def _threads(trace: Trace) -> tuple[dict[Place, Track], Int64]:
    """A track for each thread, and for each row of api_calls its row there."""
    tables = [(name, getattr(trace, name)) for name in _HOST]
    places = sorted({place for _, table in tables for place in table.threads})
    row_of_call = np.full(len(trace.api_calls), NO_ID, np.int64)
    result = {}
    for process, thread in places:
        parts = []
        for number, (_, table) in enumerate(tables):
            rows = np.flatnonzero((table.process == process) & (table.thread == thread))
            columns = (table.start_ns[rows], table.end_ns[rows], table.name_id[rows], np.full(len(rows), number), rows)
            parts.append(np.stack([column.astype(np.int64) for column in columns]))
        start, end, name, number, row = np.concatenate(parts, axis=1)
        calls = number == len(tables) - 1
        row_of_call[row[calls]] = np.flatnonzero(calls)
        correlations = np.append(trace.api_calls.correlation, NO_ID)[np.where(calls, row, len(trace.api_calls))]
        arguments = {"kind": [tables[index][0] for index in number.tolist()], "correlation": _known(correlations)}
        own = f"thread {'?' if thread == NO_ID else thread}"
        given = trace.metadata.thread_names.get((process, thread), "")
        title = given if given.startswith(own) else f"{own} {given}".rstrip()
        names = trace.names.decode(name.astype(np.int32))
        group = f"host process {'?' if process == NO_ID else process}"
        result[process, thread] = Track(group, title, start, end, names, arguments)
    return result, row_of_call


def device_name(trace: Trace, key: DeviceKey) -> str:
    """A device, with its process where there are several."""
    several = len({other.process for other in device_keys(trace)}) > 1
    return f"{key.title} of process {key.process}" if several else key.title


def _streams(trace: Trace, key: DeviceKey) -> Iterator[tuple[Track, Int64]]:
    """A track for each stream, with the call of each of its slices."""
    tables = [table.take(key.rows(table)) for table in trace.device_work]
    numbers = np.unique(np.concatenate([table.stream for table in tables]))
    for stream in numbers.tolist():
        own = [table.take(table.stream == stream) for table in tables]
        start, end, call = (
            np.concatenate([getattr(table, name) for table in own]).astype(np.int64)
            for name in ("start_ns", "end_ns", "call")
        )
        names = [name for table in own for name in _names(trace, table)]
        title = "no stream" if stream == NO_ID else f"stream {stream}"
        yield Track(device_name(trace, key), title, start, end, names, _arguments(own)), call


def _known(values: npt.NDArray[Any]) -> list[int | None]:
    return [None if value == NO_ID else value for value in values.tolist()]


def _names(trace: Trace, table: DeviceWork) -> list[str]:
    return [name or type(table).__name__.lower() for name in trace.names.decode(table.name_id)]


def _arguments(tables: Sequence[DeviceWork]) -> Mapping[str, Sequence[Any]]:
    """What ties work to its call; blocks of kernels; bytes, direction and memory of copies; bytes of fills."""
    parts = [_arguments_of(table) for table in tables]
    return {name: [value for part in parts for value in part[name]] for name in _TOLD}


def _arguments_of(table: DeviceWork) -> dict[str, list[Any]]:
    told: dict[str, list[Any]] = {name: [None] * len(table) for name in _TOLD}
    told["correlation"] = _known(table.correlation)
    if isinstance(table, Kernels):
        told["blocks"], told["threads per block"] = _known(table.blocks), _known(table.threads_per_block)
    if isinstance(table, Copies | Memsets):
        told["bytes"] = _known(table.size_bytes)
    if isinstance(table, Copies):
        told["direction"] = [Direction(value).label for value in table.direction.tolist()]
        told["from"] = [MemoryKind(value).label for value in table.source_kind.tolist()]
        told["to"] = [MemoryKind(value).label for value in table.target_kind.tolist()]
    return told
