"""Which rank a trace is of: from its content, else from its file's name, else from the order of hosts and GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from overlapscope.fleet.names import named

CONTENT, NAME, ORDER, UNKNOWN = "content", "name", "order", ""
"""What a rank was taken from."""


@dataclass(frozen=True)
class Member:
    """A process of a trace, which is a rank of the job; a trace that cannot be used has one without a process.

    ``trace`` is the number of its trace. ``origin`` says what the rank was taken from. ``node`` is the host's number,
    by the number of GPUs in each. A member that is not ``used`` is of a rank that another one has, too.
    """

    trace: int
    source: str
    process: int | None
    device: int | None
    usable: bool
    rank: int | None = None
    origin: str = UNKNOWN
    host: str = ""
    node: int | None = None
    used: bool = True


@dataclass(frozen=True)
class Found:
    """What one trace says about its ranks: what it recorded, and the processes with GPU work and their first GPUs.

    ``start_ns`` and ``end_ns`` are Unix times, ``collectives`` the smallest numbers of its collectives. It is ``whole``
    where nothing of it is lost.
    """

    source: str
    usable: bool
    recorded_rank: int | None
    world_size: int | None
    gpus: int | None
    processes: tuple[tuple[int | None, int | None], ...]
    content: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    collectives: frozenset[int] = frozenset()
    whole: bool = True
    steps: int = 0
    events: int = 0

    @property
    def timed(self) -> bool:
        """Whether it is known when it was recorded."""
        return self.start_ns is not None and self.end_ns is not None


@dataclass(frozen=True)
class Ranks:
    """The members of a job by rank, and what is missing: ranks below the number of ranks, or between others."""

    members: tuple[Member, ...]
    world_size: int | None
    missing: tuple[int, ...]

    @property
    def twice(self) -> dict[int, tuple[str, ...]]:
        """Ranks of which there are several traces, each with these, the one that is used first."""
        sources: dict[int, list[str]] = {}
        for member in self.members:
            if member.rank is not None:
                sources.setdefault(member.rank, []).append(member.source)
        return {rank: tuple(names) for rank, names in sources.items() if len(names) > 1}


def ranks_of(traces: Sequence[Found], numbers: Sequence[int] | None = None) -> Ranks:
    """The ranks of the traces of a job; these have the numbers from 0 on, or those that are given."""
    members = list(_without_twins(ranked(traces), traces))
    if numbers is not None:
        members = [replace(member, trace=numbers[member.trace]) for member in members]
    world = max((found.world_size for found in traces if found.world_size), default=None)
    gpus = max((found.gpus for found in traces if found.gpus), default=None)
    members = [_on_node(member, world, gpus) for member in members]
    there = {member.rank for member in members if member.rank is not None}
    missing = tuple(rank for rank in range(world or max(there, default=-1) + 1) if rank not in there)
    return Ranks(tuple(members), world, missing if there else ())


def ranked(traces: Sequence[Found]) -> list[Member]:
    """The members of all traces with their ranks, in the order of traces."""
    return _in_order(_in_place(_without_local_ranks(list(_members(traces)))), traces)


def says_rank(found: Found) -> bool:
    """Whether the trace or its name says which rank it is, or has several processes, which are ranks by their GPUs."""
    rank, _, _ = _said(found)
    return rank is not None or bool(named(found.source).place) or len(found.processes) > 1


def unranked(traces: Sequence[Found]) -> Ranks:
    """All traces that can be used, none of them a rank: for traces that are of no job."""
    members = (replace(member, rank=None, origin=UNKNOWN, used=member.usable) for member in _members(traces))
    return Ranks(tuple(members), None, ())


def _members(traces: Sequence[Found]) -> Iterator[Member]:
    for number, found in enumerate(traces):
        rank, origin, host = _said(found)
        for process, device in found.processes or ((None, None),):
            yield Member(number, found.source, process, device, found.usable, rank, origin, host)


def _said(found: Found) -> tuple[int | None, str, str]:
    """Rank, origin and host by content and name; neither says which of several processes is which rank."""
    name = named(found.source)
    if len(found.processes) > 1:
        return None, UNKNOWN, name.host
    if found.recorded_rank is not None:
        return found.recorded_rank, CONTENT, name.host
    return name.rank, UNKNOWN if name.rank is None else NAME, name.host


def _without_local_ranks(members: Sequence[Member]) -> list[Member]:
    """Forget ranks that count within a replica: where files of one rank differ in their place, and all have one."""
    places = {member: named(member.source).place for member in members if member.rank is not None}
    apart = len(set(places.values())) > len({member.rank for member in places})
    if not apart or not all(places.values()):
        return list(members)
    return [replace(member, rank=None, origin=UNKNOWN) if member in places else member for member in members]


def _in_place(members: Sequence[Member]) -> list[Member]:
    """Ranks by the numbers of tensor, pipeline and data parallelism, where names have these and no rank."""
    places = {member: named(member.source).place for member in members if member.rank is None}
    places = {member: place for member, place in places.items() if place}
    order = {place: rank for rank, place in enumerate(sorted(set(places.values())))}
    return [
        replace(member, rank=order[places[member]], origin=NAME) if member in places else member for member in members
    ]


def _in_order(members: Sequence[Member], traces: Sequence[Found]) -> list[Member]:
    """Ranks by host and GPU for what is left, where a host is known or a trace has several processes."""
    several = {number for number, found in enumerate(traces) if len(found.processes) > 1}
    left = [each for each in members if each.rank is None and (each.host or each.trace in several)]
    free = (rank for rank in count() if rank not in {member.rank for member in members})
    ordered = sorted(left, key=lambda each: (each.host, -1 if each.device is None else each.device, each.source))
    numbers = dict(zip(ordered, free, strict=False))
    return [replace(each, rank=numbers[each], origin=ORDER) if each in numbers else each for each in members]


def _without_twins(members: Iterable[Member], traces: Sequence[Found]) -> Iterator[Member]:
    """All members by rank; of several of one rank only the best is used, if it can be."""
    seen: set[int] = set()
    for member in sorted(members, key=lambda each: _by_rank(each, traces[each.trace])):
        yield replace(member, used=member.usable and member.rank not in seen)
        if member.usable and member.rank is not None:
            seen.add(member.rank)


def _by_rank(member: Member, found: Found) -> tuple[bool, int, bool, tuple[bool, int, int], str, int]:
    """By rank, and of one rank the best first: a whole trace, then the one with more steps, then more events."""
    unranked = member.rank is None
    worse = (False, 0, 0) if unranked else (not found.whole, -found.steps, -found.events)
    return unranked, member.rank or 0, not member.usable, worse, member.source, member.process or 0


def _on_node(member: Member, world: int | None, gpus: int | None) -> Member:
    if member.rank is None or not gpus or not world or world <= gpus:
        return member
    return replace(member, node=member.rank // gpus)


def label(member: Member) -> str:
    """What a member is called: ``rank 3``, or its file where its rank is not known."""
    if member.rank is None:
        return member.source.replace("\\", "/").rsplit("/", 1)[-1]
    return f"rank {member.rank}"
