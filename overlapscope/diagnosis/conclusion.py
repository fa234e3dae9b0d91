"""The findings of a trace on the basis on which reports state times: without the profiler, where its cost is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from overlapscope.diagnosis.finding import UNPROFILED, Diagnosis, Finding, Place

_SIMULATED = (
    *("rank", "severity", "confidence", "confirm_with", "where", "places", "evidence", "message", "fix", "ran"),
    *("idle_ns", "copying_ns", "blocked_ns"),
)
"""What a finding has of the simulated program; its rows, change and savings are those of the trace."""
_Key = tuple[str, str | None, int | None, int | None]


def concluded(simulated: Diagnosis, recorded: Diagnosis) -> Diagnosis:
    """The diagnosis that reports state: causes and their times without the profiler, rows and savings of the trace.

    Args:
        simulated: the diagnosis of the program as it runs without the profiler; the recorded one where that is unknown.
        recorded: the diagnosis of the trace, with its plan.
    """
    if simulated.trace is recorded.trace:
        return recorded
    return replace(simulated, findings=tuple(_paired(simulated.findings, recorded.findings)), plan=recorded.plan)


def _paired(simulated: Iterable[Finding], recorded: Iterable[Finding]) -> Iterator[Finding]:
    """The simulated findings, each as the recorded one of its rule, kind and GPU with other times."""
    known: dict[_Key, list[Finding]] = defaultdict(list)
    for finding in recorded:
        known[_key(finding)].append(finding)
    for finding in simulated:
        others = known[_key(finding)]
        if others:
            other = others.pop(0)
            values = {name: getattr(finding, name) for name in _SIMULATED}
            more = None if other.saves_more == UNPROFILED else other.saves_more  # both times are without the profiler
            yield replace(other, **values, saves_more=more, recorded_idle_ns=other.idle_ns)
        else:  # too short to be a finding in the trace, whose rows are others
            yield replace(finding, copies=(), calls=(), idle_rows=(), recorded_idle_ns=None)


def _key(finding: Finding) -> _Key:
    where: Place = finding.where
    return finding.code, finding.kind, where.process, where.device
