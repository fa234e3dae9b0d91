"""Tell the jobs in one set of traces apart, by what the traces say and where they lie."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import PurePosixPath
from types import MappingProxyType

import numpy as np

from overlapscope.fleet.config import FleetConfig
from overlapscope.fleet.names import named
from overlapscope.fleet.ranks import ORDER, Found, ranked, says_rank
from overlapscope.fleet.recordings import pauses, recordings
from overlapscope.fleet.rhythm import Ends, joined
from overlapscope.formatting import time

WORLD_SIZE, TIME, FOLDER, NAME, HOST, RANK = "world size", "time", "folder", "file name", "host", "rank"
"""What jobs are told apart by."""
_FIRST_MOMENT_NS = 10**17  # earlier, a clock counts from something else than 1970
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class JobTraces:
    """The traces of one job by number; ``by`` says what tells it from others, ``name`` which one it is by that."""

    traces: tuple[int, ...]
    by: tuple[str, ...] = ()
    name: str = ""


def jobs_of(
    traces: Sequence[Found], config: FleetConfig, ends: Ends = lambda _: MappingProxyType({})
) -> tuple[JobTraces, ...]:
    """The jobs of all traces, those of one world size together; one without a name where there is nothing to tell.

    ``ends`` says when the collectives of a trace ended, which tells jobs of several hosts apart.
    """
    others = _of_no_rank(traces)
    numbers = [number for number in range(len(traces)) if number not in others]
    worlds = _grouped(traces, numbers, lambda number: _world(traces[number]))
    found = [part for name, mine in worlds.items() for part in _with_world(name, _apart(traces, mine, config, ends))]
    first = [JobTraces(each.traces, each.by[1:], each.name.partition(", ")[2]) for each in found]
    found = found if len(worlds) > 1 else first
    if others:
        found = [replace(each, by=(RANK, *each.by), name=each.name or "ranks of one job") for each in found]
        found.append(JobTraces(tuple(sorted(others)), (RANK,), "no rank, and no collectives"))
    return tuple(sorted(found, key=lambda each: min(each.traces)))


def _of_no_rank(traces: Sequence[Found]) -> set[int]:
    """Traces of other programs beside a job: nothing says a rank or a world size, and they have no collective."""
    if not any(found.collectives and says_rank(found) for found in traces):
        return set()
    usable = (number for number, found in enumerate(traces) if found.usable and found.processes)
    return {
        number
        for number in usable
        if not (traces[number].world_size or traces[number].collectives or says_rank(traces[number]))
    }


def _with_world(world: str, found: Iterable[JobTraces]) -> Iterable[JobTraces]:
    for each in found:
        name = f"{WORLD_SIZE} {world}"
        yield JobTraces(each.traces, (WORLD_SIZE, *each.by), f"{name}, {each.name}" if each.name else name)


def _apart(traces: Sequence[Found], mine: Sequence[int], config: FleetConfig, ends: Ends) -> list[JobTraces]:
    """The jobs of one world size: a rank has one recording in each."""
    whole = JobTraces(tuple(mine))
    most = max((len(each) for each in _recordings(traces, mine)), default=1)
    if most == 1:
        cuts = _long_pauses(traces, mine, config)
        return _named(traces, _by_time(traces, mine, cuts), TIME) if cuts else [whole]
    cuts = [start for _, start in sorted(pauses(traces[number] for number in mine))[1 - most :]]
    keys: dict[str, Callable[[], Mapping[str, list[int]]]] = {
        TIME: lambda: _by_time(traces, mine, cuts),
        FOLDER: lambda: _grouped(traces, mine, lambda number: _folder(traces, mine, number)),
        HOST: lambda: _grouped(traces, mine, lambda number: named(traces[number].source).host),
        NAME: lambda: _grouped(traces, mine, lambda number: _stem(traces[number])),
    }
    groups = {by: key() for by, key in keys.items()}
    telling = [by for by, found in groups.items() if len(found) > 1 and not _mixed(traces, found.values())]
    fewest = min(telling, key=lambda by: len(groups[by]), default=None)
    if fewest is None:
        return [whole]
    found = _of_several_hosts(traces, groups[HOST], config, ends) if fewest == HOST else groups[fewest]
    return _named(traces, found, fewest)


def _of_several_hosts(
    traces: Sequence[Found], groups: Mapping[str, list[int]], config: FleetConfig, ends: Ends
) -> Mapping[str, list[int]]:
    """The hosts of one job together, where each has only some of its ranks and the others are elsewhere."""
    ranks = {name: _ranks(traces, mine) for name, mine in groups.items()}
    world = max((traces[number].world_size or 0 for mine in groups.values() for number in mine), default=0)
    if min(map(len, ranks.values())) >= world:
        return groups
    together = joined(groups, ranks, ends, config)
    return {", ".join(names): [number for name in names for number in groups[name]] for names in together}


def _ranks(traces: Sequence[Found], mine: Sequence[int]) -> frozenset[int]:
    members = ranked([traces[number] for number in mine])
    return frozenset(member.rank for member in members if member.rank is not None)


def _mixed(traces: Sequence[Found], groups: Iterable[Sequence[int]]) -> bool:
    """Whether a rank has several recordings in one of the groups."""
    return any(len(each) > 1 for mine in groups for each in _recordings(traces, mine))


def _recordings(traces: Sequence[Found], mine: Sequence[int]) -> Iterable[list[list[Found]]]:
    """The recordings of each rank."""
    of_rank: dict[int, dict[int, Found]] = {}
    for member in ranked([traces[number] for number in mine]):
        if member.rank is not None:
            of_rank.setdefault(member.rank, {})[member.trace] = traces[mine[member.trace]]
    return (recordings(list(each.values())) for each in of_rank.values() if len(each) > 1)


def _long_pauses(traces: Sequence[Found], mine: Sequence[int], config: FleetConfig) -> list[int]:
    """Pauses longer than clocks of one job are apart, across which ranks share no collective, or are only counted."""
    members = [member for member in ranked([traces[number] for number in mine]) if member.rank is not None]
    sure = not any(member.origin == ORDER for member in members)
    several = [traces[mine[member.trace]] for member in members]
    found = []
    for length, start in pauses(several):
        before, after = (_collectives(several, start, later=later) for later in (False, True))
        if length > config.clocks_apart_ns and before and after and not (sure and before & after):
            found.append(start)
    return found


def _collectives(traces: Iterable[Found], start_ns: int, *, later: bool) -> set[int]:
    there = [each.collectives for each in traces if each.timed and ((each.start_ns or 0) >= start_ns) == later]
    return set().union(*there)


def _by_time(traces: Sequence[Found], mine: Sequence[int], cuts: Sequence[int]) -> Mapping[str, list[int]]:
    """Traces by the cut before which they began; named by their first begin."""
    edges = np.sort(np.array(cuts, np.int64))

    def key(number: int) -> str:
        start = traces[number].start_ns if traces[number].timed else None
        return "" if start is None else str(np.searchsorted(edges, start, side="right"))

    return _grouped(traces, mine, key)


def _named(traces: Sequence[Found], groups: Mapping[str, list[int]], by: str) -> list[JobTraces]:
    names = {name: _moment(traces, mine) if by == TIME else f"{by} {name}" for name, mine in groups.items()}
    return [JobTraces(tuple(mine), (by,), names[name]) for name, mine in groups.items()]


def _moment(traces: Sequence[Found], mine: Sequence[int]) -> str:
    start = min(start for number in mine if (start := traces[number].start_ns) is not None)
    if start < _FIRST_MOMENT_NS:
        return f"recorded from {time(start)} on"
    return f"recorded on {datetime.fromtimestamp(start // 10**9, UTC):%Y-%m-%d at %H:%M:%S} UTC"


def _grouped(traces: Sequence[Found], mine: Iterable[int], key: Callable[[int], str]) -> Mapping[str, list[int]]:
    """Traces by a text; one without goes to those that lie nearest."""
    keys = {number: key(number) for number in mine}
    known = {number: text for number, text in keys.items() if text}
    found: dict[str, list[int]] = {}
    for number, text in keys.items():
        found.setdefault(text or _nearest(traces, number, known), []).append(number)
    return found


def _nearest(traces: Sequence[Found], number: int, known: Mapping[int, str]) -> str:
    """The text of the trace whose path begins most like this one's."""
    own = PurePosixPath(traces[number].source).parts

    def alike(other: int) -> int:
        pairs = zip(own, PurePosixPath(traces[other].source).parts, strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    return known[max(known, key=alike)] if known else ""


def _world(found: Found) -> str:
    return str(found.world_size) if found.world_size else ""


def _folder(traces: Sequence[Found], mine: Sequence[int], number: int) -> str:
    """The first folder in which the traces differ."""
    folders = [PurePosixPath(traces[each].source).parent.parts for each in mine]
    common = len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))))
    return "".join(PurePosixPath(traces[number].source).parent.parts[common : common + 1]) or "."


def _stem(found: Found) -> str:
    """The name of a file without its numbers."""
    return _NUMBER.sub("*", PurePosixPath(found.source).name)
