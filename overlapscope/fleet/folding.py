"""Ranks that are alike, as one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlapscope.fleet.config import DEFAULT, FleetConfig
from overlapscope.fleet.figures import STEP
from overlapscope.fleet.job import Job
from overlapscope.fleet.numbers import rank_list
from overlapscope.fleet.rank_map import RankRow
from overlapscope.fleet.ranks import label
from overlapscope.formatting import counted

_AT_A_GLANCE = 4


@dataclass(frozen=True)
class Fold:
    """Ranks with the same findings whose times differ by little; ``first`` stands for them."""

    rows: tuple[RankRow, ...]

    @property
    def first(self) -> RankRow:
        """The rank that is drawn."""
        return self.rows[0]


def folded(job: Job, rows: Sequence[RankRow], config: FleetConfig = DEFAULT) -> tuple[Fold, ...]:
    """The rows in their order, each with those after it that are alike.

    Alike are ranks with the same findings whose lateness and whose every time in an average step, that of kernels, of
    collectives, of copies and idle, differ from those of the first by less than a share of its step.
    """
    folds: dict[object, list[list[RankRow]]] = {}
    findings = _findings(job)
    for row in rows:
        mine = folds.setdefault((findings.get(row.member), bool(row.late_ns)), [])
        if mine and _alike(job, mine[-1][0], row, config):
            mine[-1].append(row)
        else:
            mine.append([row])
    place = {row.member: number for number, row in enumerate(rows)}
    found = [Fold(tuple(each)) for groups in folds.values() for each in groups]
    return tuple(sorted(found, key=lambda fold: place[fold.first.member]))


def fold_name(job: Job, fold: Fold) -> str:
    """The ranks of a row, or its files."""
    members = [job.members[row.member] for row in fold.rows]
    ranks = [member.rank for member in members if member.rank is not None]
    if len(members) == 1:
        return label(members[0])
    return rank_list(ranks) if len(ranks) == len(members) else f"{label(members[0])} and {len(members) - 1} more"


def alike_rule(config: FleetConfig = DEFAULT) -> str:
    """When ranks are one row, in a sentence."""
    return (
        "Ranks with the same findings whose times in an average step are within "
        f"{100 * config.alike:.0f} % of the step are one row, drawn as its first."
    )


def counted_ranks(fold: Fold) -> str:
    """How many ranks a row stands for, where they are not counted at a glance."""
    return counted(len(fold.rows), "rank") if len(fold.rows) > _AT_A_GLANCE else ""


def _findings(job: Job) -> dict[int, frozenset[tuple[str, str]]]:
    found = job.findings[["member", "code", "kind"]]
    return {
        int(str(member)): frozenset(zip(rows["code"], rows["kind"], strict=True))
        for member, rows in found.groupby("member")
    }


def _alike(job: Job, one: RankRow, other: RankRow, config: FleetConfig) -> bool:
    times = job.figures.times
    most = config.alike * int(times[STEP][one.member])
    apart = (abs(int(values[one.member]) - int(values[other.member])) for values in times.values())
    return max(apart) <= most and abs(one.late_ns - other.late_ns) <= most
