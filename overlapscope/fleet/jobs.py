"""The jobs in one set of traces, told apart by what the traces say and by where they lie."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations, islice, takewhile
from math import inf, isfinite
from pathlib import PurePosixPath
from types import MappingProxyType

from overlapscope.fleet.clocks import LEAST_MATCHED, MOST_MATCHED
from overlapscope.fleet.ranks import ORDER, TraceInfo, named, ranked, says_rank
from overlapscope.formatting import time

CLOCKS_DIFFER_NS = 60_000_000_000
"""Clocks of the hosts of one job differ by less than this.

A longer pause between traces that share no collective is one between jobs.
"""
MORE_EVEN = 10.0
"""Hosts of one job: distances between the ends of their collectives are more even by so much than with other hosts.

The others are those that have the same ranks as one of the two. Within a job distances vary by microseconds; of two
jobs whose steps take equally long to a percent, it is not told which host is of which.
"""
WORLD_SIZE, TIME, FOLDER, NAME, HOST, RANK = "world size", "time", "folder", "file name", "host", "rank"
"""What jobs are told apart by."""
_FIRST_MOMENT_NS = 10**17  # earlier, a clock counts from something else than 1970
_MOST_GROUPS = 128  # of hosts: each is compared with each
_NUMBER = re.compile(r"\d+")
Traces = Sequence[TraceInfo]
Ends = Callable[[int], Mapping[int, int]]
"""For a trace, when its collectives ended, by their numbers, on its own clock."""


@dataclass(frozen=True)
class JobTraces:
    """The traces of one job by number; ``by`` says what tells it from others, ``name`` which one it is by that."""

    traces: tuple[int, ...]
    by: tuple[str, ...] = ()
    name: str = ""


def jobs_of(traces: Sequence[TraceInfo], ends: Ends = lambda _: MappingProxyType({})) -> tuple[JobTraces, ...]:
    """The jobs of all traces, those of one world size together; one without a name where there is nothing to tell.

    ``ends`` tells jobs of several hosts apart.
    """
    traces = [replace(trace, number=number) for number, trace in enumerate(traces)]
    strangers = _of_no_rank(traces)
    ranks = [trace for trace in traces if trace not in strangers]
    worlds = _grouped(ranks, lambda trace: str(trace.world_size or ""))
    jobs = []
    for world, members in worlds.items():
        for job in _of_one_world(members, ends):
            name = f"{WORLD_SIZE} {world}" + (f", {job.name}" if job.name else "")
            jobs.append(JobTraces(job.traces, (WORLD_SIZE, *job.by), name) if len(worlds) > 1 else job)
    if strangers:
        jobs = [replace(job, by=(RANK, *job.by), name=job.name or "ranks of one job") for job in jobs]
        jobs.append(JobTraces(tuple(sorted(_numbers(strangers))), (RANK,), "no rank, and no collectives"))
    return tuple(sorted(jobs, key=lambda job: min(job.traces)))


def _numbers(traces: Iterable[TraceInfo]) -> tuple[int, ...]:
    return tuple(trace.number for trace in traces)


def _of_no_rank(traces: Traces) -> set[TraceInfo]:
    """Traces of other programs beside a job: nothing says a rank or a world size, and they have no collective."""
    if not any(trace.collectives and says_rank(trace) for trace in traces):
        return set()
    used = (trace for trace in traces if trace.usable and trace.processes)
    return {trace for trace in used if not (trace.world_size or trace.collectives or says_rank(trace))}


def _of_one_world(traces: Traces, ends: Ends) -> list[JobTraces]:
    """The jobs of one world size: a rank has one recording in each."""
    most = max((len(each) for each in _recordings(traces)), default=1)
    if most == 1:
        cuts = _long_pauses(traces)
        return _named(_by_time(traces, cuts), TIME) if cuts else [JobTraces(_numbers(traces))]
    groups = {
        TIME: _by_time(traces, [start for _, start in sorted(_pauses(traces))[1 - most :]]),
        FOLDER: _grouped(traces, _folder_in(traces)),
        HOST: _grouped(traces, lambda trace: named(trace.source).host),
        NAME: _grouped(traces, lambda trace: _NUMBER.sub("*", PurePosixPath(trace.source).name)),
    }
    telling = [
        by
        for by, parts in groups.items()
        if len(parts) > 1 and not any(len(each) > 1 for part in parts.values() for each in _recordings(part))
    ]
    fewest = min(telling, key=lambda by: len(groups[by]), default=None)
    if fewest is None:
        return [JobTraces(_numbers(traces))]
    return _named(_with_all_hosts(groups[HOST], ends) if fewest == HOST else groups[fewest], fewest)


def _with_all_hosts(groups: Mapping[str, Traces], ends: Ends) -> Mapping[str, Traces]:
    """The hosts of one job together, where each has only some of its ranks and the others are elsewhere."""
    ranks = {
        name: frozenset(each.rank for each in ranked(traces) if each.rank is not None)
        for name, traces in groups.items()
    }
    world = max((trace.world_size or 0 for traces in groups.values() for trace in traces), default=0)
    if min(map(len, ranks.values())) >= world or len(groups) > _MOST_GROUPS:
        return groups
    first = {name: dict(islice(ends(traces[0].number).items(), MOST_MATCHED)) for name, traces in groups.items()}
    return {", ".join(names): [trace for name in names for trace in groups[name]] for names in _joined(first, ranks)}


def _joined(ends: Mapping[str, Mapping[int, int]], ranks: Mapping[str, frozenset[int]]) -> list[tuple[str, ...]]:
    """The names of the hosts that are of one job together.

    Two are, where the distances between the ends of the same collectives in both are more even, many times, than those
    with any host that has the same ranks as one of the two.

    Args:
        ends: the ends of the collectives of a trace of each host.
        ranks: the ranks of each host.
    """
    pairs = [(one, other) for one, other in combinations(ends, 2) if not ranks[one] & ranks[other]]
    uneven = {frozenset(pair): _unevenness(ends[pair[0]], ends[pair[1]]) for pair in pairs}
    together = {name: {name} for name in ends}
    for one, other in sorted(pairs, key=lambda pair: uneven[frozenset(pair)]):
        spread, merged = uneven[frozenset((one, other))], together[one] | together[other]
        even = isfinite(spread) and spread * MORE_EVEN <= _rivals(one, other, uneven, ranks)
        if even and sum(len(ranks[name]) for name in merged) == len(set().union(*(ranks[name] for name in merged))):
            together |= dict.fromkeys(merged, merged)
    return list(dict.fromkeys(tuple(name for name in ends if name in names) for names in together.values()))


def _unevenness(one: Mapping[int, int], other: Mapping[int, int]) -> float:
    """The range of the distances between the ends of the same collectives; infinite with too few in common."""
    distances = [one[number] - other[number] for number in one.keys() & other.keys()]
    return max(float(max(distances) - min(distances)), 1.0) if len(distances) >= LEAST_MATCHED else inf


def _rivals(one: str, other: str, uneven: Mapping[frozenset[str], float], ranks: Mapping[str, frozenset[int]]) -> float:
    """The least unevenness of one of two hosts with a host that has ranks of the other; 0 where there is none."""
    pairs = (
        frozenset((name, rival))
        for name, partner in ((one, other), (other, one))
        for rival in ranks
        if rival != partner and ranks[rival] & ranks[partner]
    )
    return min((uneven[pair] for pair in pairs if pair in uneven), default=0.0)


def _recordings(traces: Traces) -> Iterator[list[list[TraceInfo]]]:
    """The recordings of each rank that has several traces."""
    of_rank: dict[int, dict[int, TraceInfo]] = {}
    for member in ranked(traces):
        if member.rank is not None:
            of_rank.setdefault(member.rank, {})[member.trace] = traces[member.trace]
    return (_split(list(each.values())) for each in of_rank.values() if len(each) > 1)


def _split(traces: Sequence[TraceInfo]) -> list[list[TraceInfo]]:
    """The traces of one rank, those of one recording together."""
    recordings: list[list[TraceInfo]] = []
    for trace in traces:
        same = next((group for group in recordings if _same_recording(group[0], trace)), None)
        if same is None:
            recordings.append([trace])
        else:
            same.append(trace)
    return recordings


def _same_recording(one: TraceInfo, other: TraceInfo) -> bool:
    """Whether two traces of one rank can be the same recording.

    They cannot where they were recorded at different times, on different hosts, in different processes, or where they
    have no collective in common. What is not known tells nothing apart, and what began at the same moment is the same.
    """
    if (one.content and one.content == other.content) or (one.start_ns and one.start_ns == other.start_ns):
        return True
    if not (one.usable and other.usable):
        return True
    hosts = {named(each.source).host for each in (one, other)} - {""}
    processes = [{process for process, _ in each.processes if process is not None} for each in (one, other)]
    return not (
        (one.timed and other.timed and not _overlap(one, other))
        or len(hosts) > 1
        or (all(processes) and processes[0] != processes[1])
        or (one.collectives and other.collectives and not one.collectives & other.collectives)
    )


def _pauses(traces: Iterable[TraceInfo]) -> list[tuple[int, int]]:
    """The pauses between traces, none of which covers them: length, and the moment at which the next one begins."""
    ordered = sorted((each.start_ns or 0, each.end_ns or 0) for each in traces if each.timed)
    pauses, until = [], ordered[0][1] if ordered else 0
    for start, end in ordered:
        if start > until:
            pauses.append((start - until, start))
        until = max(until, end)
    return pauses


def _overlap(one: TraceInfo, other: TraceInfo) -> bool:
    return (one.start_ns or 0) < (other.end_ns or 0) and (other.start_ns or 0) < (one.end_ns or 0)


def _long_pauses(traces: Traces) -> list[int]:
    """Pauses longer than clocks of one job differ, across which ranks share no collective, or are only counted."""
    members = [member for member in ranked(traces) if member.rank is not None]
    counted_only = any(member.origin == ORDER for member in members)
    ranks, cuts = [traces[member.trace] for member in members], []
    for length, start in _pauses(ranks):
        before, after = set[int](), set[int]()
        for trace in ranks:
            if trace.timed:
                (after if (trace.start_ns or 0) >= start else before).update(trace.collectives)
        if length > CLOCKS_DIFFER_NS and before and after and (counted_only or not before & after):
            cuts.append(start)
    return cuts


def _by_time(traces: Traces, cuts: Sequence[int]) -> Mapping[str, Traces]:
    """Traces grouped by the cut before which they began."""
    edges = sorted(cuts)
    return _grouped(traces, lambda trace: str(bisect(edges, trace.start_ns or 0)) if trace.timed else "")


def _named(groups: Mapping[str, Traces], by: str) -> list[JobTraces]:
    return [
        JobTraces(_numbers(traces), (by,), _moment(traces) if by == TIME else f"{by} {name}")
        for name, traces in groups.items()
    ]


def _moment(traces: Traces) -> str:
    start = min(trace.start_ns for trace in traces if trace.start_ns is not None)
    if start < _FIRST_MOMENT_NS:
        return f"recorded from {time(start)} on"
    return f"recorded on {datetime.fromtimestamp(start // 10**9, UTC):%Y-%m-%d at %H:%M:%S} UTC"


def _folder_in(traces: Traces) -> Callable[[TraceInfo], str]:
    """A function that gives the first folder of a trace in which the traces differ."""
    folders = [PurePosixPath(trace.source).parent.parts for trace in traces]
    common = len(list(takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))))
    return lambda trace: "".join(PurePosixPath(trace.source).parent.parts[common : common + 1]) or "."


def _grouped(traces: Traces, key: Callable[[TraceInfo], str]) -> Mapping[str, Traces]:
    """Traces grouped by a text; one without a text joins those that lie nearest."""
    texts = [(trace, key(trace)) for trace in traces]
    known = [(PurePosixPath(trace.source).parts, text) for trace, text in texts if text]
    groups: dict[str, list[TraceInfo]] = {}
    for trace, text in texts:
        groups.setdefault(text or _nearest(PurePosixPath(trace.source).parts, known), []).append(trace)
    return groups


def _nearest(path: Sequence[str], known: Sequence[tuple[Sequence[str], str]]) -> str:
    """The text of the path that begins most like this one; empty where there is none."""

    def alike(entry: tuple[Sequence[str], str]) -> int:
        return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(path, entry[0], strict=False))))

    return max(known, key=alike)[1] if known else ""
