"""Whether two traces of one rank are one recording twice, or recordings of different jobs or times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from overlapscope.fleet.names import named
from overlapscope.fleet.ranks import Found


def same_recording(one: Found, other: Found) -> bool:
    """Whether two traces of one rank can be the same recording.

    They cannot where they were recorded at different times, on different hosts, in different processes, or where they
    have no collective in common. What is not known tells nothing apart, and what began at the same moment is the same.
    """
    if (one.content and one.content == other.content) or (one.start_ns and one.start_ns == other.start_ns):
        return True
    if not (one.usable and other.usable):
        return True
    hosts, processes = ({named(each.source).host for each in (one, other)} - {""}), (_pids(one), _pids(other))
    apart_in_time = one.timed and other.timed and not _overlap(one, other)
    others = one.collectives and other.collectives and not one.collectives & other.collectives
    pids = all(processes) and processes[0] != processes[1]
    return not (apart_in_time or len(hosts) > 1 or pids or others)


def recordings(traces: Sequence[Found]) -> list[list[Found]]:
    """The traces of one rank, those of one recording together."""
    found: list[list[Found]] = []
    for trace in traces:
        same = next((group for group in found if same_recording(group[0], trace)), None)
        if same is None:
            found.append([trace])
        else:
            same.append(trace)
    return found


def pauses(traces: Iterable[Found]) -> list[tuple[int, int]]:
    """The pauses between traces, none of which covers them: length, and the moment at which the next one begins."""
    ordered = sorted((each.start_ns or 0, each.end_ns or 0) for each in traces if each.timed)
    found, until = [], ordered[0][1] if ordered else 0
    for start, end in ordered:
        if start > until:
            found.append((start - until, start))
        until = max(until, end)
    return found


def _overlap(one: Found, other: Found) -> bool:
    return (one.start_ns or 0) < (other.end_ns or 0) and (other.start_ns or 0) < (one.end_ns or 0)


def _pids(found: Found) -> set[int]:
    return {process for process, _ in found.processes if process is not None}
