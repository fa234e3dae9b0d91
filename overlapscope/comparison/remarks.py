"""What is to be known before two sides are compared: other work, other GPUs, other profilers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.ranges import RangeChange
from overlapscope.comparison.side import Run, Side
from overlapscope.comparison.work import Work
from overlapscope.formatting import safe, share, size
from overlapscope.measure.devices import device_keys
from overlapscope.model.frames import Row

_NO_EFFECT = " The change of the time is no effect of a fix."
_UNKNOWN = "unknown GPU"
_TOOLS = {"kineto": "torch.profiler", "nsys": "Nsight Systems"}


@dataclass(frozen=True)
class Remark(Row):
    """A warning about a comparison; its ``code`` stays the same between versions."""

    code: str
    message: str


DAMAGED = "damaged"
"""The code of the warning that a trace has lost data."""

OTHER_WORK = "other-work"
"""The code of the warning that the two sides do different things, so that the change of the time says nothing."""


INCOMPLETE = "incomplete"
"""The code of the warning that a trace lacks what every trace of its format has."""
OTHER_GPU, OTHER_PROFILER = "other-gpu", "other-profiler"
MIXED_WORK, MIXED_GPUS = "mixed-work", "mixed-gpus"
_INCOMPARABLE = (OTHER_WORK, INCOMPLETE, OTHER_GPU, OTHER_PROFILER, MIXED_WORK, MIXED_GPUS)


def is_comparable(said: Sequence[Remark]) -> bool:
    """Whether the change of the time can be the effect of a change of the program."""
    return not any(remark.code in _INCOMPARABLE for remark in said)


PARTLY_OTHER_WORK = "partly-other-work"
"""The code of the warning that some of the work is on one side only."""


def remarks(
    before: Side, after: Side, work: Work, ranges: Sequence[RangeChange], config: CompareConfig
) -> tuple[Remark, ...]:
    """All that there are, what makes a comparison worthless first."""
    within = before.typical.window.name
    return (
        *_work(work, ranges, within, config),
        *_places(before, after),
        *_amounts(before, after),
        *_lost(before, after),
        *_on_both(before, after),
    )


def _work(work: Work, ranges: Sequence[RangeChange], within: str | None, config: CompareConfig) -> Iterator[Remark]:
    if work.data_share < config.comparable_share:
        yield Remark(
            OTHER_WORK,
            f"Not the same work: {size(work.before_bytes)} are copied before, {size(work.after_bytes)} after, in "
            f"copies of other sizes, and kernels take other times.{_NO_EFFECT}{_hint(ranges, within)}",
        )
        return
    if work.repeated is not None:
        one, two = work.repeated
        yield Remark(
            OTHER_WORK,
            f"Not the same number of steps or layers: where kernels run {one:,} times before, they run {two:,} times "
            f"after.{_NO_EFFECT}{_hint(ranges, within)}",
        )
        return
    least = min(work.before_share, work.after_share)
    if least < config.same_share:
        comparable = least >= config.comparable_share
        yield Remark(
            PARTLY_OTHER_WORK if comparable else OTHER_WORK,
            f"{'Partly other work' if comparable else 'Not the same work'}: {share(work.before_share, 1)} of what the "
            f"GPU computes before, and {share(work.after_share, 1)} of it after, has a counterpart on the other side."
            + ("" if comparable else _NO_EFFECT)
            + _hint(ranges, within),
        )


def _hint(ranges: Sequence[RangeChange], within: str | None) -> str:
    """A range that both sides have, one of them more often, other than the one that is compared."""
    both = [(entry, entry.before, entry.after) for entry in ranges if entry.before and entry.after]
    other = [
        (entry.name, one, two)
        for entry, one, two in both
        if one.occurrences != two.occurrences and entry.name != within
    ]
    if not other:
        return ""
    name, one, two = other[0]
    counts = f"{one.occurrences} times before, {two.occurrences} times after"
    return f" {safe(name)} occurs {counts}: --within {shlex.quote(safe(name))} compares one with one."


def _places(before: Side, after: Side) -> Iterator[Remark]:
    """Other GPUs, profilers or ranks."""
    gpus = _each(before, gpus_of), _each(after, gpus_of)
    if gpus[0] != gpus[1]:
        what = "It is not known whether the GPUs are the same" if _UNKNOWN in "".join(gpus) else "Other GPUs"
        yield Remark(
            OTHER_GPU,
            f"{what}: {gpus[0]} before, {gpus[1]} after. Kernel and copy times differ with the GPU, so that the effect "
            "of a change of the program cannot be told from theirs.",
        )
    tools = _each(before, _tool), _each(after, _tool)
    if tools[0] != tools[1]:
        wall = "the time is compared without them" if before.unprofiled else "and in the time"
        yield Remark(
            OTHER_PROFILER,
            f"Other profilers: {tools[0]} before, {tools[1]} after. Their own cost is in the host's times, blocked "
            f"time and idle time; {wall}. The effect of a change of the program cannot be told from theirs.",
        )
    elif not before.unprofiled and _calibrated(before) != _calibrated(after):
        known = "before" if _calibrated(before) else "after"
        yield Remark(
            "one-calibration",
            f"Only the traces {known} say what the profiler costs, so that times are compared as recorded.",
        )
    ranks = _each(before, _rank), _each(after, _rank)
    if ranks[0] != ranks[1]:
        yield Remark("other-rank", f"Other ranks: {ranks[0]} before, {ranks[1]} after.")


def _amounts(before: Side, after: Side) -> Iterator[Remark]:
    """Other numbers of occurrences."""
    counts = _each(before, lambda run: str(run.occurrences)), _each(after, lambda run: str(run.occurrences))
    if before.per_occurrence:
        yield Remark(
            "other-count",
            f"{safe(before.typical.window.name or '')} occurs {counts[0]} times before, {counts[1]} times after: "
            "figures are for one occurrence, and kernels and copies are matched in the first ones that both have.",
        )


def _lost(before: Side, after: Side) -> Iterator[Remark]:
    for run in (*before.runs, *after.runs):
        name = safe(PurePath(run.trace.metadata.path).name)
        if lacking := run.trace.health.incomplete:
            text = "; ".join(f"{warning.count:,} {warning.message}" for warning in lacking)
            yield Remark(INCOMPLETE, f"{name} cannot be compared: {text}.")
        elif run.trace.health.damaged:
            yield Remark(DAMAGED, f"{name} has lost data; overlapscope audit says what.")


def _on_both(before: Side, after: Side) -> Iterator[Remark]:
    """Traces that are compared with themselves."""
    one, two = ({run.trace.metadata.path for run in side.runs} for side in (before, after))
    for path in sorted(one & two):
        yield Remark("same-trace", f"{safe(PurePath(path).name)} is on both sides.")


def _each(side: Side, what: Callable[[Run], str]) -> str:
    """What the traces of a side have, each once."""
    return ", ".join(sorted({what(run) for run in side.runs}))


def gpus_of(run: Run) -> str:
    """The GPUs of a trace, by their names."""
    names = [run.trace.metadata.device_name(key.device) or _UNKNOWN for key in device_keys(run.trace)]
    return " + ".join(f"{names.count(name)} x {safe(name)}" for name in dict.fromkeys(names)) or "none"


def _tool(run: Run) -> str:
    return _TOOLS[run.trace.metadata.format]


def _rank(run: Run) -> str:
    rank = run.trace.metadata.rank
    return "unknown" if rank is None else str(rank)


def _calibrated(side: Side) -> bool:
    return all(run.is_unprofiled for run in side.runs)
