"""What timelines call devices, streams, processes, threads and kernels."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from overlapscope.measure.devices import DeviceKey, device_keys, is_collective
from overlapscope.model.columns import NO_ID, Bool
from overlapscope.model.enums import Direction
from overlapscope.model.tables import DeviceWork, HostWork
from overlapscope.model.trace import Trace

Place = tuple[int, int]
"""Process and thread."""

MAIN, AUTOGRAD = "main thread", "autograd"
_STEP = "ProfilerStep#"
_BACKWARD = "autograd::engine::"
_AUTOGRAD_NAME = "pt_autograd"  # torch's name of these threads
_GIVEN = re.compile(r"thread -?\d+ \((.*)\)", re.DOTALL)  # how Kineto writes the name of a thread
_MOST_KINDS = 2  # of work, which the role of a stream names
_NOISE = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(int\)|\(unsigned long\)")
_WRAPPERS = frozenset(("Kernel", "Kernel2", "device_kernel"))
"""Templates that wrap any kernel: the name of the wrapped one says more."""


@dataclass(frozen=True)
class StreamKey:
    """A stream of a device. Two devices may both call theirs 7."""

    device: DeviceKey
    stream: int

    @property
    def title(self) -> str:
        """The name of the stream within its device."""
        return "no stream" if self.stream == NO_ID else f"stream {self.stream}"

    def rows(self, table: DeviceWork) -> Bool:
        """A mask of the rows of a table that are on this stream."""
        on_stream: Bool = self.device.rows(table) & (table.stream == self.stream)
        return on_stream


def stream_keys(trace: Trace) -> list[StreamKey]:
    """The streams with work on them, in order, device by device."""
    keys = []
    for device in device_keys(trace):
        used = [table.stream[device.rows(table)] for table in trace.device_work]
        keys += [StreamKey(device, stream) for stream in np.unique(np.concatenate(used)).tolist()]
    return keys


def stream_roles(trace: Trace) -> dict[StreamKey, str]:
    """What each stream does, by all that runs on it: ``kernels``, ``copies HtoD``, ``kernels, HtoD``, ``mixed``, ..."""
    return {key: _role(trace, key) for key in stream_keys(trace)}


def _role(trace: Trace, key: StreamKey) -> str:
    names = trace.kernels.name_id[key.rows(trace.kernels)]
    collective = is_collective(trace, names)
    ways = {Direction(way).label for way in np.unique(trace.copies.direction[key.rows(trace.copies)]).tolist()}
    runs = [name for name, rows in (("kernels", ~collective), ("collectives", collective)) if rows.any()]
    copies = f"copies {min(ways)}" if len(ways) == 1 else "copies"
    runs += [copies.removeprefix("copies ") if runs else copies] if ways else []
    return ", ".join(runs) if 0 < len(runs) <= _MOST_KINDS else "mixed" if runs else "memsets"


def device_titles(trace: Trace, owner: str = "of") -> dict[DeviceKey, str]:
    """The name of each device; with its process, after ``owner``, where another process has a device of its number."""
    keys = device_keys(trace)
    numbers = [key.device for key in keys]
    return {key: f"{key.title} {owner} {key.process}" if numbers.count(key.device) > 1 else key.title for key in keys}


def thread_titles(trace: Trace) -> dict[Place, str]:
    """The name of each thread in its process, main threads first.

    The main thread of a process has the profiler's steps; else it is the one with the number of the process, or the
    one with most Python frames, or with most calls. Threads that run a backward pass are autograd's. Others have the
    name that the trace gives them, unless the main thread has it too, or a number.
    """
    places = _places(trace)
    backward = _threads_with(trace, trace.cpu_ops, _BACKWARD)
    titles: dict[Place, str] = {}
    for process in sorted({process for process, _ in places}):
        titles |= _roles(trace, [place for place in places if place[0] == process], backward)
    return titles


def process_titles(trace: Trace) -> dict[int, str]:
    """The name of each process with threads: of its GPU where no other process uses that, else a number.

    The only process has no name.
    """
    processes = sorted({process for process, _ in _places(trace)})
    devices = device_titles(trace)
    titles = dict.fromkeys(processes, "")
    for number, process in enumerate(processes if len(processes) > 1 else (), 1):
        keys = [key for key in devices if key.process == process]
        exclusive = len(keys) == 1 and [key.device for key in devices].count(keys[0].device) == 1
        titles[process] = devices[keys[0]] if exclusive else f"process {number}"
    return titles


def _places(trace: Trace) -> list[Place]:
    tables: tuple[HostWork, ...] = (trace.api_calls, trace.ranges, trace.cpu_ops, trace.frames)
    return sorted({place for table in tables for place in table.threads})


def _roles(trace: Trace, places: list[Place], backward: set[Place]) -> dict[Place, str]:
    """The roles of the threads of one process, each only once."""
    main = _main(trace, places)
    named = {place: _given_name(trace, place) for place in places}
    roles = {}
    for place in sorted(places, key=lambda place: (place != main, place not in backward, place)):
        given = named[place] if named[place] != named[main] else ""
        is_autograd = place in backward or given.startswith(_AUTOGRAD_NAME)
        roles[place] = MAIN if place == main else AUTOGRAD if is_autograd else given or "thread"
    many, so_far = Counter(roles.values()), Counter[str]()
    for place, role in roles.items():
        so_far[role] += 1
        roles[place] = f"{role} {so_far[role]}" if many[role] > 1 or role == "thread" else role
    return roles


def _main(trace: Trace, places: list[Place]) -> Place:
    steps = _threads_with(trace, trace.ranges, _STEP)

    def rank(place: Place) -> tuple[bool, bool, int, int]:
        process, thread = place
        frames, calls = (int(rows_of_thread(table, place).sum()) for table in (trace.frames, trace.api_calls))
        return place in steps, process == thread, frames, calls

    return max(places, key=rank)


def _given_name(trace: Trace, place: Place) -> str:
    name = trace.metadata.thread_names.get(place, "")
    match = _GIVEN.fullmatch(name)
    return match[1] if match else name


def _threads_with(trace: Trace, table: HostWork, prefix: str) -> set[Place]:
    """Threads with a row whose name has this prefix."""
    wanted = [number for number, name in enumerate(trace.names.values) if name.startswith(prefix)]
    return set(table.take(np.isin(table.name_id, wanted)).threads)


def rows_of_thread(table: HostWork, place: Place) -> Bool:
    """A mask of the rows of a table that are on this thread."""
    on_thread: Bool = (table.process == place[0]) & (table.thread == place[1])
    return on_thread


def short_name(name: str) -> str:
    """The function of a kernel's name, without namespaces, template and parameters.

    >>> short_name("void at::native::(anonymous namespace)::softmax_warp_forward<float, 4>(float*, int)")
    'softmax_warp_forward'
    >>> short_name("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>(cutlass_80_tensorop_s1688gemm::Params)")
    'cutlass_80_tensorop_s1688gemm'
    >>> short_name("ampere_sgemm_128x64_tn")
    'ampere_sgemm_128x64_tn'
    """
    clean = _NOISE.sub("", name)
    head, *rest = re.split(r"[<(]", clean, maxsplit=1)
    function = re.split(r"::|\s", head.strip())[-1]
    if function in _WRAPPERS and rest:
        return re.split(r"[<>(),]", rest[0], maxsplit=1)[0].split("::")[-1].strip() or function
    return function or name
