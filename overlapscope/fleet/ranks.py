"""The rank of each trace, and what ranks are called.

A rank comes from the content of a trace, else from its file's name, else from the order of hosts and GPUs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from os.path import commonprefix
from pathlib import PurePath, PurePosixPath

CONTENT, NAME, ORDER, UNKNOWN = "content", "name", "order", ""
"""What a rank was taken from."""
_RANK = re.compile(r"(?<![a-z])(?:global[_-]?)?(?:rank|worker)[_.=-]?(\d+)(?!\d)", re.IGNORECASE)
_COORDINATE = re.compile(r"(?<![a-z0-9])(pp|dp|cp|tp|ep)[_-]?(\d+)(?![a-z0-9])", re.IGNORECASE)
_TORCH = re.compile(r"(?:^|_)(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)_\d+\.\d+\.pt\.trace\.json(?:\.gz)?$")
"""The host, the process and the time, as torch's handler writes them; a host's name has no underscore."""
_FILE_TYPE = re.compile(r"(\.pt)?(\.trace)?\.(json|sqlite)(\.gz|\.tmp)?$")
_SEPARATORS = "-_./ "
_MOST_RUNS = 6
_OUTERMOST_FIRST = ("pp", "dp", "cp", "tp", "ep")


@dataclass(frozen=True)
class TraceInfo:
    """What one trace says about its ranks: what it recorded, and the processes with GPU work and their first GPUs.

    ``start_ns`` and ``end_ns`` are Unix times, ``collectives`` the smallest numbers of its collectives. It is ``whole``
    where nothing of it is lost. ``number`` is its place among all traces.
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
    number: int = 0

    @property
    def timed(self) -> bool:
        """Whether it is known when it was recorded."""
        return self.start_ns is not None and self.end_ns is not None


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
class Ranks:
    """The members of a job by rank, and what is missing: ranks below the number of ranks, or between others."""

    members: tuple[Member, ...]
    world_size: int | None
    missing: tuple[int, ...]

    @property
    def twice(self) -> dict[int, tuple[str, ...]]:
        """Ranks of which there are several traces, each with these, the one that is used first."""
        counts = Counter(member.rank for member in self.members if member.rank is not None)
        several = [rank for rank, number in counts.items() if number > 1]
        return {rank: tuple(each.source for each in self.members if each.rank == rank) for rank in several}


@dataclass(frozen=True)
class Named:
    """Rank, host and place as a file's name says them; None and empty where it says nothing.

    ``place`` has the number of each dimension of parallelism, the outermost first: ``(("pp", 0), ("tp", 3))``.
    """

    rank: int | None = None
    host: str = ""
    place: tuple[tuple[str, int], ...] = ()


def named(source: str) -> Named:
    """Read a file's name: of torch, torchtitan, Megatron, SGLang and vLLM, or with ``rank`` or ``worker`` in it.

    >>> named("trace/node-3_4711.1694128201545.pt.trace.json.gz").host
    'node-3'
    >>> named("job-r1__node-3.internal_4712.1694128201545.pt.trace.json").host
    'node-3.internal'
    >>> named("iteration_10/rank12_trace.json").rank, named("rank-3.json.gz").rank
    (12, 3)
    >>> named("1756-TP-1-DP-0.trace.json.gz").place
    (('dp', 0), ('tp', 1))
    """
    name = PurePosixPath(source).name
    torch, rank = _TORCH.search(name), _RANK.search(name)
    numbers = {dimension.lower(): int(number) for dimension, number in _COORDINATE.findall(name)}
    return Named(
        rank=int(rank[1]) if rank else None,
        host=torch["host"] if torch and rank is None else "",
        place=tuple((dimension, numbers[dimension]) for dimension in _OUTERMOST_FIRST if dimension in numbers),
    )


def ranks_of(traces: Sequence[TraceInfo], numbers: Sequence[int] | None = None) -> Ranks:
    """The ranks of the traces of a job; these have the numbers from 0 on, or those that are given."""
    world = max((trace.world_size for trace in traces if trace.world_size), default=None)
    gpus = max((trace.gpus for trace in traces if trace.gpus), default=None)
    members = []
    for member in _without_twins(ranked(traces), traces):
        number = member.trace if numbers is None else numbers[member.trace]
        node = member.rank // gpus if member.rank is not None and gpus and world and world > gpus else None
        members.append(replace(member, trace=number, node=node))
    ranks = {member.rank for member in members if member.rank is not None}
    missing = tuple(rank for rank in range(world or max(ranks, default=-1) + 1) if rank not in ranks)
    return Ranks(tuple(members), world, missing if ranks else ())


def ranked(traces: Sequence[TraceInfo]) -> list[Member]:
    """The members of all traces with their ranks, in the order of traces."""
    return _by_order(_by_parallelism(list(_members(traces))), traces)


def says_rank(trace: TraceInfo) -> bool:
    """Whether the trace or its name says which rank it is, or has several processes, which are ranks by their GPUs."""
    return _said(trace)[0] is not None or bool(named(trace.source).place) or len(trace.processes) > 1


def unranked(traces: Sequence[TraceInfo]) -> Ranks:
    """All traces that can be used, none of them a rank: for traces that are of no job."""
    members = (replace(member, rank=None, origin=UNKNOWN, used=member.usable) for member in _members(traces))
    return Ranks(tuple(members), None, ())


def _members(traces: Sequence[TraceInfo]) -> Iterator[Member]:
    for number, trace in enumerate(traces):
        rank, origin, host = _said(trace)
        for process, device in trace.processes or ((None, None),):
            yield Member(number, trace.source, process, device, trace.usable, rank, origin, host)


def _said(trace: TraceInfo) -> tuple[int | None, str, str]:
    """Rank, origin and host by content and name; neither says which of several processes is which rank."""
    name = named(trace.source)
    if len(trace.processes) > 1:
        return None, UNKNOWN, name.host
    if trace.recorded_rank is not None:
        return trace.recorded_rank, CONTENT, name.host
    return name.rank, UNKNOWN if name.rank is None else NAME, name.host


def _by_parallelism(members: Sequence[Member]) -> list[Member]:
    """Ranks by the numbers of tensor, pipeline and data parallelism, where names have these and no rank of the job.

    Ranks count within a replica where files of one rank differ in these numbers, and all files with a rank have some.
    """
    places = {member: place for member in members if (place := named(member.source).place)}
    ranks = {member: member.rank for member in members if member.rank is not None}
    in_replica = ranks.keys() <= places.keys() and len({places[each] for each in ranks}) > len(set(ranks.values()))
    places = {member: place for member, place in places.items() if in_replica or member.rank is None}
    order = {place: rank for rank, place in enumerate(sorted(set(places.values())))}
    return [
        replace(member, rank=order[places[member]], origin=NAME) if member in places else member for member in members
    ]


def _by_order(members: Sequence[Member], traces: Sequence[TraceInfo]) -> list[Member]:
    """Ranks by host and GPU for what is left, where a host is known or a trace has several processes."""
    left = [each for each in members if each.rank is None and (each.host or len(traces[each.trace].processes) > 1)]
    ranks = {member.rank for member in members}
    ordered = sorted(left, key=lambda each: (each.host, -1 if each.device is None else each.device, each.source))
    numbers = dict(zip(ordered, (rank for rank in count() if rank not in ranks), strict=False))
    return [replace(each, rank=numbers[each], origin=ORDER) if each in numbers else each for each in members]


def _without_twins(members: Iterable[Member], traces: Sequence[TraceInfo]) -> Iterator[Member]:
    """All members by rank; of several of one rank only the best is used, if it is usable."""
    seen: set[int] = set()
    for member in sorted(members, key=lambda each: _by_rank(each, traces[each.trace])):
        yield replace(member, used=member.usable and member.rank not in seen)
        if member.usable and member.rank is not None:
            seen.add(member.rank)


def _by_rank(member: Member, trace: TraceInfo) -> tuple[bool, int, bool, tuple[bool, int, int], str, int]:
    """The order of members: by rank, and of one rank a whole trace first, then the one with more steps or events."""
    unranked = member.rank is None
    worse = (False, 0, 0) if unranked else (not trace.whole, -trace.steps, -trace.events)
    return unranked, member.rank or 0, not member.usable, worse, member.source, member.process or 0


def label(member: Member) -> str:
    """The name of a member: ``rank 3``, or its file where its rank is not known."""
    if member.rank is None:
        return member.source.replace("\\", "/").rsplit("/", 1)[-1]
    return f"rank {member.rank}"


def labels(members: Sequence[Member]) -> str:
    """The name of several members: ``ranks 3-5``, or the file of the first and how many more there are."""
    ranks = [member.rank for member in members if member.rank is not None]
    if len(members) == 1 or len(ranks) < len(members):
        return label(members[0]) + (f" and {len(members) - 1} more" if len(members) > 1 else "")
    return rank_list(ranks)


def number_list(numbers: Iterable[int], most: int = _MOST_RUNS) -> str:
    """Numbers in order, neighbours as one, cut where there are more than ``most`` of these.

    >>> number_list([3, 1, 2, 7]), number_list(range(0, 40, 3))
    ('1-3, 7', '0, 3, 6, 9, 12, 15 and 8 more')
    """
    ordered = sorted(set(numbers))
    breaks = [place for place, (one, other) in enumerate(pairwise(ordered), 1) if other != one + 1]
    runs = [ordered[begin:end] for begin, end in pairwise([0, *breaks, len(ordered)])] if ordered else []
    shown = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:most])
    left = sum(map(len, runs[most:]))
    return f"{shown} and {left} more" if left else shown


def rank_list(ranks: Collection[int]) -> str:
    """Ranks as a list with its noun.

    >>> rank_list([2]), rank_list([5, 6, 7, 55])
    ('rank 2', 'ranks 5-7, 55')
    """
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {number_list(ranks)}"


def short_names(names: Sequence[str], width: int) -> list[str]:
    """Names whole where all fit into so many characters, else without their file types, else with what differs.

    >>> short_names(["trace_6.json.gz", "trace_7.json.gz"], 15), short_names(["trace_6.json.gz", "trace_7.json.gz"], 9)
    (['trace_6.json.gz', 'trace_7.json.gz'], ['trace_6', 'trace_7'])
    """
    stems = [_FILE_TYPE.sub("", name) for name in names]
    told_apart = stems if len(set(stems)) == len(set(names)) else list(names)
    return next((each for each in (list(names), told_apart) if max(map(len, each)) <= width), distinct(told_apart))


def distinct(names: Sequence[str]) -> list[str]:
    """Names of files without the begin and the end that all of them share.

    >>> distinct(["gemm-pageable-side.json.gz", "gemm-pinned-side.json.gz"]), distinct(["rank 1", "rank 12"])
    (['pageable', 'pinned'], ['rank 1', 'rank 12'])
    """
    if len(set(names)) < 2 or all(name.startswith("rank ") for name in names):  # noqa: PLR2004 - nothing to tell apart
        return list(names)
    first, last = _common(names), _common([name[::-1] for name in names])
    return [name[len(first) : len(name) - len(last)] for name in names]


def distinct_paths(sources: Sequence[str]) -> list[str]:
    """Paths without the folders that all of them lie in.

    >>> distinct_paths(["job/a/rank3.json", "job/b/rank3.json"]), distinct_paths(["a/one.json", "a/two.json"])
    (['a/rank3.json', 'b/rank3.json'], ['one.json', 'two.json'])
    """
    parts = [PurePath(source).parts for source in sources]
    differing = [place for place, names in enumerate(zip(*parts, strict=False)) if len(set(names)) > 1]
    first = differing[0] if differing else min(map(len, parts), default=1) - 1
    return ["/".join(each[first:]) for each in parts]


def _common(names: Sequence[str]) -> str:
    """The begin that all names share, up to a separator."""
    text = commonprefix(list(names))  # noqa: RUF071 - names are no paths
    return text[: max(text.rfind(sign) for sign in _SEPARATORS) + 1]
