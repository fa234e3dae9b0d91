"""The remarks before a comparison: other work, GPUs or profilers, and traces of a side that are no repeats."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from overlapscope.comparison.figures import RangeChange
from overlapscope.comparison.side import Run, Side, matching_of
from overlapscope.comparison.work import COMPARABLE_SHARE, SAME_SHARE, Work, common_work
from overlapscope.formatting import counted, safe, share, size
from overlapscope.measure.devices import device_keys
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace

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
INCOMPLETE = "incomplete"
"""The code of the warning that a trace lacks what every trace of its format has."""
OTHER_WORK = "other-work"
"""The code of the warning that the two sides do different things, so that the change of the time says nothing."""
_OTHER_GPU, _OTHER_PROFILER, _MIXED_WORK, _MIXED_GPUS = "other-gpu", "other-profiler", "mixed-work", "mixed-gpus"
_INCOMPARABLE = (OTHER_WORK, INCOMPLETE, _OTHER_GPU, _OTHER_PROFILER, _MIXED_WORK, _MIXED_GPUS)


def is_comparable(remarks: Sequence[Remark]) -> bool:
    """Whether the change of the time can be the effect of a change of the program."""
    return not any(remark.code in _INCOMPARABLE for remark in remarks)


def remarks(before: Side, after: Side, work: Work, ranges: Sequence[RangeChange]) -> tuple[Remark, ...]:
    """All remarks about two sides, those that make a comparison worthless first."""
    within = before.typical.window.name
    return (
        *_work(work, ranges, within),
        *_origins(before, after),
        *_amounts(before, after),
        *_lost(before, after),
        *_on_both(before, after),
    )


def _work(work: Work, ranges: Sequence[RangeChange], within: str | None) -> Iterator[Remark]:
    if work.data_share < COMPARABLE_SHARE:
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
    if least < SAME_SHARE:
        comparable = least >= COMPARABLE_SHARE
        yield Remark(
            "partly-other-work" if comparable else OTHER_WORK,
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


def _origins(before: Side, after: Side) -> Iterator[Remark]:
    """The remarks on other GPUs, profilers or ranks."""
    gpus = _each(before, _gpus), _each(after, _gpus)
    if gpus[0] != gpus[1]:
        what = "It is not known whether the GPUs are the same" if _UNKNOWN in "".join(gpus) else "Other GPUs"
        yield Remark(
            _OTHER_GPU,
            f"{what}: {gpus[0]} before, {gpus[1]} after. Kernel and copy times differ with the GPU, so that the effect "
            "of a change of the program cannot be told from theirs.",
        )
    tools = _each(before, _tool), _each(after, _tool)
    if tools[0] != tools[1]:
        wall = "the time is compared without them" if before.unprofiled else "and in the time"
        yield Remark(
            _OTHER_PROFILER,
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
    """The remark on other numbers of occurrences."""
    counts = _each(before, lambda run: str(run.occurrences)), _each(after, lambda run: str(run.occurrences))
    if before.per_occurrence:
        yield Remark(
            "other-count",
            f"{safe(before.typical.window.name or '')} occurs {counts[0]} times before, {counts[1]} times after: "
            "figures are for one occurrence, and kernels and copies are matched in the first ones that both have.",
        )


def _lost(before: Side, after: Side) -> Iterator[Remark]:
    for run in (*before.runs, *after.runs):
        name = _name(run.trace)
        if lacking := run.trace.health.incomplete:
            text = "; ".join(f"{warning.count:,} {warning.message}" for warning in lacking)
            yield Remark(INCOMPLETE, f"{name} cannot be compared: {text}.")
        elif run.trace.health.damaged:
            yield Remark(DAMAGED, f"{name} has lost data; overlapscope audit says what.")


def _on_both(before: Side, after: Side) -> Iterator[Remark]:
    """The remarks on traces that are compared with themselves."""
    one, two = ({run.trace.metadata.path for run in side.runs} for side in (before, after))
    for path in sorted(one & two):
        yield Remark("same-trace", f"{safe(PurePath(path).name)} is on both sides.")


def _each(side: Side, words: Callable[[Run], str]) -> str:
    """The distinct words for the traces of a side."""
    return ", ".join(sorted({words(run) for run in side.runs}))


def _gpus(run: Run) -> str:
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


def left_out(*sides: Sequence[Trace]) -> Iterator[Remark]:
    """The remarks on traces that have lost data and do not count, since their side has others."""
    for side in sides:
        lost = [trace for trace in side if trace.health.damaged]
        for trace in lost if len(lost) < len(side) else ():
            message = f"{_name(trace)} has lost data and is left out; overlapscope audit says what."
            yield Remark(DAMAGED, message)


def on_repeats(before: Side, after: Side) -> Iterator[Remark]:
    """The remarks on traces of one side that are no repeats of each other."""
    for label, side in (("before", before), ("after", after)):
        others = [run for run in side.runs if run is not side.typical]
        odd = [run for run in others if not common_work(matching_of(side.typical, run)).comparable]
        if odd:
            yield Remark(
                _MIXED_WORK,
                f"The traces {label} do not do the same work: {counted(len(odd), 'trace')} of {len(side.runs)}, such "
                f"as {_name(odd[0].trace)}, have little in common with {_name(side.typical.trace)}. Their median is "
                "of no program.",
            )
        gpus = sorted({_gpus(run) for run in side.runs})
        if len(gpus) > 1:
            yield Remark(_MIXED_GPUS, f"The traces {label} are from different GPUs: {', '.join(gpus)}.")
        ranks = {run.trace.metadata.rank for run in side.runs} - {None}
        if len(ranks) > 1:
            yield Remark(
                "several-ranks",
                f"The traces {label} are of {len(ranks)} ranks, not repeats of one: their spread is that of the ranks. "
                "overlapscope fleet is for the ranks of one job.",
            )


def _name(trace: Trace) -> str:
    return safe(PurePath(trace.metadata.path).name)
