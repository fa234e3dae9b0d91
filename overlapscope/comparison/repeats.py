"""What is to be known of several traces of one side: other work, GPUs or ranks among them, and lost data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.matching import first, match
from overlapscope.comparison.remarks import DAMAGED, MIXED_GPUS, MIXED_WORK, Remark, gpus_of
from overlapscope.comparison.side import Run, Side
from overlapscope.comparison.work import common_work
from overlapscope.formatting import counted, safe
from overlapscope.model.trace import Trace


def left_out(*sides: Sequence[Trace]) -> Iterator[Remark]:
    """Traces that have lost data and do not count, since their side has others."""
    for side in sides:
        lost = [trace for trace in side if trace.health.damaged]
        for trace in lost if len(lost) < len(side) else ():
            message = f"{_name(trace)} has lost data and is left out; overlapscope audit says what."
            yield Remark(DAMAGED, message)


def about_runs(before: Side, after: Side, config: CompareConfig) -> Iterator[Remark]:
    """Traces of one side that are no repeats of each other."""
    for label, side in (("before", before), ("after", after)):
        others = [run for run in side.runs if run is not side.typical]
        odd = [run for run in others if _other_work(side.typical, run, config)]
        if odd:
            yield Remark(
                MIXED_WORK,
                f"The traces {label} do not do the same work: {counted(len(odd), 'trace')} of {len(side.runs)}, such "
                f"as {_name(odd[0].trace)}, have little in common with {_name(side.typical.trace)}. Their median is "
                "of no program.",
            )
        gpus = sorted({gpus_of(run) for run in side.runs})
        if len(gpus) > 1:
            yield Remark(MIXED_GPUS, f"The traces {label} are from different GPUs: {', '.join(gpus)}.")
        ranks = {run.trace.metadata.rank for run in side.runs} - {None}
        if len(ranks) > 1:
            yield Remark(
                "several-ranks",
                f"The traces {label} are of {len(ranks)} ranks, not repeats of one: their spread is that of the ranks. "
                "overlapscope fleet is for the ranks of one job.",
            )


def _other_work(typical: Run, run: Run, config: CompareConfig) -> bool:
    """Whether a trace does other work than the typical one of its side."""
    count = min(typical.occurrences, run.occurrences)
    windows = first(typical.window, count), first(run.window, count)
    matching = match(typical.graph, run.graph, windows)
    work = common_work(typical.graph, run.graph, matching, windows, config)
    shares = work.before_share, work.after_share, work.data_share
    return min(shares) < config.comparable_share or work.repeated is not None


def _name(trace: Trace) -> str:
    return safe(PurePath(trace.metadata.path).name)
