"""What the summary says about one straggler: where it is late, why, and what the job would save."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from overlapscope.fleet.causes import Cause, CopiesDiffer
from overlapscope.fleet.figures import KERNELS
from overlapscope.fleet.job import Job
from overlapscope.fleet.ranks import label
from overlapscope.fleet.stragglers import Place, Straggler
from overlapscope.formatting import share, time

_NO_CAUSE = (
    "Nothing that it does takes clearly longer than in the other ranks: it may have begun late, or what differs is not "
    "recorded."
)


def straggler_lines(job: Job, late: Straggler) -> Iterator[str]:
    """What is said about one straggler, sentence by sentence: first who, where and why, then the details."""
    yield f"{_who(job, late)} arrives last at {_place(late)}{_in_short(job, late)}."
    steps = max(int(job.figures.steps[late.member]), 1)
    if late.began_late_ns:
        began = time(late.began_late_ns)
        yield f"It began its first step {began} after the median rank; what came before is not in the trace."
    if not late.causes:
        yield _NO_CAUSE
    for cause in late.causes[:1]:
        yield f"Cause: {_why(job, late, cause)}"
        yield from _finding(job, late, cause)
    saving = late.replay.saving_ns
    if saving > 0:
        most = "up to " if job.absent.ranks else ""
        portion = share(saving / steps, job.figures.step_ns)
        text = f"Fixing that would save the job {most}{time(saving / steps)} a step ({portion}), simulated across the "
        yield f"{text}matched collectives."


def _who(job: Job, late: Straggler) -> str:
    """The straggler at the begin of a sentence; a file's name stays as it is."""
    member = job.members[late.member]
    if job.absent.ranks:
        return f"Of the recorded ranks, {label(member)}"
    return label(member) if member.rank is None else f"Rank {member.rank}"


def short_line(job: Job, late: Straggler) -> str:
    """One straggler in a sentence."""
    why = _name(job, late, late.causes[0]) if late.causes else "no cause recorded"
    return f"{label(job.members[late.member])}: last at {_place(late)}; {why}."


def _place(late: Straggler) -> str:
    return f"{_where(late.place)}, {time(late.place.late_ns)} after the median rank"


def _in_short(job: Job, late: Straggler) -> str:
    """The cause in a few words: the memory of its copies where that differs, else what its finding is called."""
    if late.copies:
        return ": " + "; ".join(map(_memory, late.copies))
    return f": {_name(job, late, late.causes[0])}" if late.causes else ""


def _memory(found: CopiesDiffer) -> str:
    of = "" if found.others == found.of else f"{found.others} of "
    others = f"those of {of}the other {found.of} are" if found.of > 1 else "those of the other rank are"
    return f"its {found.direction} copies are {found.memory}, {others} {found.others_memory}"


def _name(job: Job, late: Straggler, cause: Cause) -> str:
    """What a cause is called: the finding's title where there is one."""
    if not cause.code:
        return f"its {KERNELS} take longer"
    found = _row(job, late, cause)
    name = cause.code if found is None else f"{cause.code} {found['name']}"
    return name + (f": {cause.kind}" if cause.kind else "")


def _where(place: Place) -> str:
    name = f"{place.op} {place.position}" if place.position else place.op
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
    """The finding of the straggler that a cause is about."""
    found = job.findings
    mine = found[(found["member"] == late.member) & (found["code"] == cause.code) & (found["kind"] == cause.kind)]
    rows = mine.sort_values("order", kind="stable").to_dict("records")
    return rows[0] if rows else None
