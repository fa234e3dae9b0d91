"""What the time of each step of each rank went to, as plain data: the rank and time map of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from overlapscope.fleet.figures import COLLECTIVES, COPIES, KERNELS, MOVING, STEP, WAITING
from overlapscope.fleet.job import Job

OTHER = "memsets, host work of other steps"
"""What is left of a step."""


@dataclass(frozen=True)
class Cell:
    """One step of one rank on aligned clocks, and its parts: ``kernels``, ``exposed copies``, or the code of a rule."""

    step: int | None
    begin_ns: int
    end_ns: int
    parts: Mapping[str, int]


@dataclass(frozen=True)
class RankRow:
    """The steps of one rank; ``late_ns`` is its lateness in an average step, 0 where it is not late."""

    member: int
    late_ns: int
    cells: tuple[Cell, ...]


def rank_rows(job: Job) -> tuple[RankRow, ...]:
    """All ranks that are compared: the latest first, then those that wait least in collectives."""
    late = np.zeros(len(job.members), np.int64)
    for each in job.stragglers:
        late[each.member] = each.late_ns // max(int(job.figures.steps[each.member]), 1)
    used = np.flatnonzero(job.figures.steps > 0)
    share = job.figures.times[COLLECTIVES] / np.maximum(job.figures.times[STEP], 1)
    order = used[np.lexsort((used, share[used], -late[used]))]
    cells = _cells(job)
    return tuple(RankRow(member, int(late[member]), tuple(cells.get(member, ()))) for member in order.tolist())


def _cells(job: Job) -> dict[int, list[Cell]]:
    waits, idle = _waits(job), _idle(job)
    found: dict[int, list[Cell]] = {}
    for row in job.steps[job.steps["member"] >= 0].to_dict("records"):
        member, step = int(row["member"]), _number(row["step"])
        shift = int(job.clocks.offset_ns[member])
        exposed = int(row["exposed_collectives_ns"])
        waiting = min(waits.get((member, step), 0), exposed)
        parts = {
            KERNELS: int(row["kernels_ns"]),
            WAITING: waiting,
            MOVING: exposed - waiting,
            COPIES: int(row["exposed_copies_ns"]),
            **idle.get((member, step), {}),
        }
        begin, end = int(row["start_ns"]) - shift, int(row["end_ns"]) - shift
        parts[OTHER] = max(end - begin - sum(parts.values()), 0)
        found.setdefault(member, []).append(Cell(step, begin, end, {name: ns for name, ns in parts.items() if ns > 0}))
    return found


def _waits(job: Job) -> dict[tuple[int, int | None], int]:
    """The waiting of each member in each step."""
    rows, waits = job.arrived.rows, np.where(job.arrived.counts[job.arrived.rows.collective], job.arrived.waits_ns, 0)
    steps = [_number(step) for step in job.labels["step"].tolist()]
    found: dict[tuple[int, int | None], int] = {}
    for member, collective, wait in zip(rows.member.tolist(), rows.collective.tolist(), waits.tolist(), strict=True):
        key = member, steps[collective]
        found[key] = found.get(key, 0) + wait
    return found


def _idle(job: Job) -> dict[tuple[int, int | None], dict[str, int]]:
    """The idle time of each member in each step by rule, without that in which a copy ran."""
    found: dict[tuple[int, int | None], dict[str, int]] = {}
    for row in job.idle[job.idle["member"] >= 0].to_dict("records"):
        parts = found.setdefault((int(row["member"]), _number(row["step"])), {})
        code = str(row["code"])
        parts[code] = parts.get(code, 0) + int(row["idle_ns"]) - int(row["copying_ns"])
    return found


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None
