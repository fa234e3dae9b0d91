"""What host threads are called: by what they do, not by their numbers."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from overlapscope.model.columns import Bool
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace
from overlapscope.timeline.places import device_titles

Place = tuple[int, int]
"""Process and thread."""

MAIN, AUTOGRAD = "main thread", "autograd"
_STEP = "ProfilerStep#"
_BACKWARD = "autograd::engine::"
_AUTOGRAD_NAME = "pt_autograd"  # what torch calls these threads
_GIVEN = re.compile(r"thread -?\d+ \((.*)\)", re.DOTALL)  # how Kineto writes the name of a thread


def thread_titles(trace: Trace) -> dict[Place, str]:
    """What each thread is called in its process, main threads first.

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
    """What each process with threads is called: by its GPU where it has one of its own, else by a number.

    A lone process has no name: there is nothing to tell it from.
    """
    processes = sorted({process for process, _ in _places(trace)})
    devices = device_titles(trace)
    titles = dict.fromkeys(processes, "")
    for number, process in enumerate(processes if len(processes) > 1 else (), 1):
        own = [key for key in devices if key.process == process]
        alone = len(own) == 1 and [key.device for key in devices].count(own[0].device) == 1
        titles[process] = devices[own[0]] if alone else f"process {number}"
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
        own = named[place] if named[place] != named[main] else ""
        turns_back = place in backward or own.startswith(_AUTOGRAD_NAME)
        roles[place] = MAIN if place == main else AUTOGRAD if turns_back else own or "thread"
    many, so_far = Counter(roles.values()), Counter[str]()
    for place, role in roles.items():
        so_far[role] += 1
        roles[place] = f"{role} {so_far[role]}" if many[role] > 1 or role == "thread" else role
    return roles


def _main(trace: Trace, places: list[Place]) -> Place:
    steps = _threads_with(trace, trace.ranges, _STEP)

    def rank(place: Place) -> tuple[bool, bool, int, int]:
        process, thread = place
        frames, calls = (int(_rows(table, place).sum()) for table in (trace.frames, trace.api_calls))
        return place in steps, process == thread, frames, calls

    return max(places, key=rank)


def _given_name(trace: Trace, place: Place) -> str:
    name = trace.metadata.thread_names.get(place, "")
    found = _GIVEN.fullmatch(name)
    return found[1] if found else name


def _threads_with(trace: Trace, table: HostWork, prefix: str) -> set[Place]:
    """Threads with a row whose name begins so."""
    wanted = [number for number, name in enumerate(trace.names.values) if name.startswith(prefix)]
    return set(table.take(np.isin(table.name_id, wanted)).threads)


def _rows(table: HostWork, place: Place) -> Bool:
    mine: Bool = (table.process == place[0]) & (table.thread == place[1])
    return mine
