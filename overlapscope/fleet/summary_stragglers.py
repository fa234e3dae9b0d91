"""What is said about late ranks: where each is late, why, and what the job would save."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overlapscope.fleet.causes import Cause, CopiesDiffer
from overlapscope.fleet.figures import KERNELS
from overlapscope.fleet.job import Job
from overlapscope.fleet.numbers import number_list
from overlapscope.fleet.ranks import label
from overlapscope.fleet.stragglers import Place, Straggler
from overlapscope.formatting import counted, numbers, share, time

DEFINITION = "Late: after the arrival of the median rank; in a step, the sum over its collectives."
_NO_CAUSE = (
    "Nothing takes clearly longer in it than in the other ranks: it may have begun late, or what differs is not "
    "recorded."
)
_MOST_CAUSES = 2
_MOST_NAMED, _MOST_FILES = 32, 8  # runs of late ranks, and files of ones without a number, in a list of all
_NEXT_TO_NOTHING = 0.01  # of what fixing all late ranks saves
_UNKNOWN = "not recorded"


@dataclass(frozen=True)
class Alike:
    """Late ranks of one round with the same cause, the latest first."""

    ranks: tuple[Straggler, ...]

    @property
    def first(self) -> Straggler:
        """The latest of them."""
        return self.ranks[0]


def alike(late: Sequence[Straggler]) -> tuple[Alike, ...]:
    """Late ranks by round and cause, in the order of the first of each."""
    found: dict[tuple[int, tuple[str, str] | None], list[Straggler]] = {}
    for each in late:
        cause = (each.causes[0].code, each.causes[0].kind) if each.causes else None
        found.setdefault((each.round, cause), []).append(each)
    return tuple(Alike(tuple(ranks)) for ranks in found.values())


def late_lines(job: Job, late: Alike) -> Iterator[str]:
    """What is said about late ranks with one cause, sentence by sentence: who, where and why, then the details."""
    first, several = late.first, len(late.ranks) > 1
    then = "Once these are fixed, " if first.round > 1 else ""
    who = _who(job, late) if not then else _names(job, late)
    verb = "are up to" if several else "is"
    yield f"{then}{who} {verb} {time(first.place.late_ns)} late at {_where(first.place)}{_in_short(job, late)}."
    if first.began_late_ns:
        began = f"{_one(job, late)} began its first step {time(first.began_late_ns)} after the median rank"
        yield f"{began}; what came before is not in the trace."
    if not first.causes:
        yield _NO_CAUSE
    for number, cause in enumerate(first.causes[:_MOST_CAUSES]):
        yield f"{'Also' if number else 'Cause'}: {_why(job, first, cause)}"
        yield from () if number else _finding(job, first, cause)


def late_list(job: Job) -> str:
    """All late ranks by their numbers, or by their files where these are not known."""
    members = [job.members[each.member] for each in job.late.ranks]
    ranks = [member.rank for member in members if member.rank is not None]
    if len(ranks) == len(members):
        return number_list(ranks, _MOST_NAMED)
    left = len(members) - _MOST_FILES
    return ", ".join(map(label, members[:_MOST_FILES])) + (f" and {left} more" if left > 0 else "")


def saved(job: Job) -> str:
    """What fixing all late ranks would save the job in a step; empty where it saves nothing."""
    late = job.late
    if late.saving_ns <= 0:
        return ""
    a_step_ns = late.saving_ns / late.steps
    most = "up to " if job.absent.ranks else ""
    return f"{most}{time(a_step_ns)} a step ({share(a_step_ns, job.figures.step_ns)})"


def saving_line(job: Job) -> str:
    """What fixing all late ranks would save the job, beside the latest alone; empty where it saves nothing."""
    late, text = job.late, saved(job)
    if not text:
        return ""
    saving, several = late.ranks[0].saving, len(late.ranks) > 1
    if several and saving is not None:
        little = saving.alone_ns <= _NEXT_TO_NOTHING * late.saving_ns
        alone = "next to nothing" if little else time(saving.alone_ns / late.steps)
        text += f", {label(job.members[late.ranks[0].member])} alone {alone}"
    which = f"all {len(late.ranks)} late ranks ({late_list(job)})" if several else "that"
    of = "" if job.common.shared.all() else f" of the {_shared_time(job)}"
    return f"Fixing {which} would save the job {text}, simulated across the matched collectives{of}."


def _shared_time(job: Job) -> str:
    return (
        "time that all ranks recorded"
        if job.common.outside
        else f"{counted(job.late.steps, 'step')} that all ranks have"
    )


def late_figures(late: Sequence[Straggler], unit: float) -> list[tuple[str, str, str]]:
    """Of each late rank and in a step: its lateness, what fixing it alone saves, and with those before; to a us."""

    def saved(each: Straggler) -> tuple[float | None, ...]:
        if each.saving is None:
            return (None, None)
        found = (each.saving.alone_ns, each.saving.with_earlier_ns)
        return tuple(max(round(value, -3), 0) / each.saving.steps for value in found)

    columns = zip(*((each.late_a_step_ns, *saved(each)) for each in late), strict=True)
    lateness, alone, earlier = (numbers(column, unit) for column in columns)
    return list(zip(lateness, alone, earlier, strict=True))


def most_worth(job: Job, most: int) -> list[int]:
    """The places of up to so many late ranks, in order: those whose fix saves most, alone or after those before."""
    worth, before = list[float](), dict[int, int]()
    for each in job.late.ranks:
        part = int(job.clocks.part[each.member])
        alone, earlier = (each.saving.alone_ns, each.saving.with_earlier_ns) if each.saving else (0, 0)
        worth.append(round(max(alone, earlier - before.get(part, 0)), -3))  # to a us, as it is shown
        before[part] = max(earlier, before.get(part, 0))
    return sorted(sorted(range(len(worth)), key=lambda place: (-worth[place], place))[:most])


def cause_name(job: Job, late: Straggler) -> str:
    """What the cause of a late rank is called."""
    return _name(job, late, late.causes[0]) if late.causes else _UNKNOWN


def place_name(place: Place) -> str:
    """The collective at which a rank is latest."""
    return f"{place.op} {place.position}" if place.position else place.op


def _who(job: Job, late: Alike) -> str:
    """The late ranks at the begin of a sentence; a file's name stays as it is."""
    names = _names(job, late)
    if job.absent.ranks and late.first is job.late.ranks[0]:
        return f"Of the recorded ranks, {names}"
    return names if job.members[late.first.member].rank is None else names.capitalize()


def _names(job: Job, late: Alike) -> str:
    members = [job.members[each.member] for each in late.ranks]
    ranks = [member.rank for member in members if member.rank is not None]
    if len(ranks) < len(members):
        others = len(members) - 1
        return label(members[0]) + (f" and {others} more" if others else "")
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {number_list(ranks)}"


def _one(job: Job, late: Alike) -> str:
    return "It" if len(late.ranks) == 1 else label(job.members[late.first.member]).capitalize()


def _in_short(job: Job, late: Alike) -> str:
    """The cause in a few words: the memory of their copies where that differs, else what the finding is called."""
    differ = late.first.copies
    if differ and all(_kinds(each.copies) == _kinds(differ) for each in late.ranks):
        its = "its" if len(late.ranks) == 1 else "their"
        return ": " + "; ".join(_memory(each, its) for each in differ)
    return f": {cause_name(job, late.first)}" if late.first.causes else ""


def _kinds(copies: Sequence[CopiesDiffer]) -> list[tuple[str, str]]:
    return [(each.direction, each.memory) for each in copies]


def _memory(found: CopiesDiffer, its: str) -> str:
    of = "" if found.others == found.of else f"{found.others} of "
    others = f"those of {of}the other {found.of} are" if found.of > 1 else "those of the other rank are"
    return f"{its} {found.direction} copies are {found.memory}, {others} {found.others_memory}"


def _name(job: Job, late: Straggler, cause: Cause) -> str:
    """What a cause is called: the finding's title where there is one."""
    if not cause.code:
        return f"slower {KERNELS}"
    found = _row(job, late, cause)
    name = cause.code if found is None else f"{cause.code} {found['name']}"
    return name + (f": {cause.kind}" if cause.kind else "")


def _where(place: Place) -> str:
    name = place_name(place)
    if place.of <= 1:
        return name
    every = "every step" if place.steps == place.of else f"{place.steps} of {place.of} steps"
    return f"{name} of {every}"


def _why(job: Job, late: Straggler, cause: Cause) -> str:
    own, others = time(cause.own_ns), time(cause.others_ns)
    if cause.code:
        return f"{_name(job, late, cause)}, GPU idle for {own} a step; median of the other ranks: {others}."
    return f"its {KERNELS} take {own} a step; median of the other ranks: {others}."


def _finding(job: Job, late: Straggler, cause: Cause) -> Iterator[str]:
    found = _row(job, late, cause) if cause.code else None
    if found is None:
        return
    where = f" At {found['where']}." if found["where"] else ""
    yield f"{found['message']}{where}"
    fix = [line for line in str(found["fix"]).splitlines() if line.strip()]
    if fix:
        yield f"Fix: {' / '.join(fix[:2])}"


def _row(job: Job, late: Straggler, cause: Cause) -> Mapping[Hashable, Any] | None:
    """The finding of the late rank that a cause is about."""
    found = job.findings
    mine = found[(found["member"] == late.member) & (found["code"] == cause.code) & (found["kind"] == cause.kind)]
    rows = mine.sort_values("order", kind="stable").to_dict("records")
    return rows[0] if rows else None
