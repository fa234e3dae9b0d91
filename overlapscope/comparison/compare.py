"""`compare`: two sides of traces, before and after a change of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from overlapscope.comparison.config import DEFAULT, CompareConfig
from overlapscope.comparison.figures import figures
from overlapscope.comparison.findings import finding_changes
from overlapscope.comparison.hybrids import Program
from overlapscope.comparison.matching import Matching, first, match
from overlapscope.comparison.ranges import STEPS, range_changes
from overlapscope.comparison.reached import Reached, reached
from overlapscope.comparison.remarks import is_comparable, remarks
from overlapscope.comparison.repeats import about_runs, left_out
from overlapscope.comparison.result import Comparison
from overlapscope.comparison.side import Run, Side, sides_of
from overlapscope.comparison.why import Why, why
from overlapscope.comparison.work import common_work
from overlapscope.diagnosis.causes import Cause
from overlapscope.diagnosis.run import silent
from overlapscope.errors import RangeNotFound
from overlapscope.formatting import safe
from overlapscope.measure.places import steps
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.whatif.change import Change

Traces = Trace | Sequence[Trace]


def compare(
    before: Traces,
    after: Traces,
    within: str | None = None,
    predicted: Sequence[Change | str] | Change | str | None = None,
    config: CompareConfig = DEFAULT,
    on_phase: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare the traces of a program before and after a change: figures, findings, and why the time differs.

    Args:
        before: an opened trace, or several of the same program; medians count then, and a change within their spread is
            none. Of several, those that have lost data are left out.
        after: likewise.
        within: only the host ranges of this name (``*`` and ``?`` match). Where it occurs more often on one side,
            figures are for one occurrence. Without it the whole traces are compared, or their steps of torch's profiler
            where these differ in number.
        predicted: changes, as `overlapscope.what_if` takes them, to predict the time after from the trace before;
            ``"plan"`` for the whole plan of its audit.
        config: thresholds, with their reasons.
        on_phase: called with the name of each part of the work when it begins.

    Raises:
        TypeError: a side is not made of opened traces.
        ValueError: a side has no trace.
        RangeNotFound: a trace has no such range.
        ChangeNotUnderstood: a change of ``predicted`` is none that we know.
    """
    on_phase = on_phase or silent
    given = [_opened(side) for side in (before, after)]
    sides = [_usable(side) for side in given]
    name = _steps_where_they_differ((*sides[0], *sides[1])) if within is None else within
    on_phase("measuring")
    runs = [[_run(trace, name, config) for trace in side] for side in sides]
    one, two = sides_of(*runs)
    on_phase("comparing")
    ends = one.typical, two.typical
    count = min(run.occurrences for run in ends)
    windows = first(ends[0].window, count), first(ends[1].window, count)
    matching = match(ends[0].graph, ends[1].graph, windows)
    work = common_work(ends[0].graph, ends[1].graph, matching, windows, config)
    aligned = range_changes(*ends, config.listed)
    said = (*left_out(*given), *about_runs(one, two, config), *remarks(one, two, work, aligned, config))
    comparable = is_comparable(said)
    on_phase("simulating")
    return Comparison(
        before=one,
        after=two,
        figures=figures(one, two, config),
        findings=finding_changes(one, two, config),
        ranges=aligned,
        work=work,
        why=_why(one, two, matching, windows, config) if comparable else None,
        reached=None if predicted is None or not comparable else _reached(one, two, predicted, config),
        remarks=said,
        config=config,
    )


def _opened(side: object) -> tuple[Trace, ...]:
    """The traces of a side."""
    traces = tuple(side) if isinstance(side, Sequence) and not isinstance(side, str) else (side,)
    wrong = next((each for each in traces if not isinstance(each, Trace)), None)
    if wrong is not None:
        raise TypeError(f"compare takes opened traces, such as open_trace({str(wrong)!r})")
    if not traces:
        raise ValueError("compare takes at least one trace a side")
    return tuple(each for each in traces if isinstance(each, Trace))


def _run(trace: Trace, within: str | None, config: CompareConfig) -> Run:
    try:
        return Run.of(trace, within, config.audit)
    except RangeNotFound as error:
        raise RangeNotFound(f"{safe(PurePath(trace.metadata.path).name)}: {error}") from error


def _usable(side: tuple[Trace, ...]) -> tuple[Trace, ...]:
    """The traces of a side that have not lost data; all where there is none."""
    return tuple(trace for trace in side if not trace.health.damaged) or side


def _steps_where_they_differ(traces: Sequence[Trace]) -> str | None:
    """All steps of torch's profiler, where every trace has some and not all have as many."""
    counts = {len(steps(trace)) for trace in traces}
    return STEPS if len(counts) > 1 and 0 not in counts else None


def _why(
    before: Side, after: Side, matching: Matching, windows: tuple[Window, Window], config: CompareConfig
) -> Why | None:
    """Why the typical traces differ; None where one is not simulated."""
    programs = [_program(side, window) for side, window in zip((before, after), windows, strict=True)]
    if programs[0] is None or programs[1] is None:
        return None
    each = len(windows[0].start_ns) if before.per_occurrence else 1
    return why(programs[0], programs[1], matching, config, recorded=not before.unprofiled, each=each)


def _program(side: Side, window: Window) -> Program | None:
    run = side.typical
    idle = {cause: run.idle_ns(cause) / side.divisor(run) for cause in Cause}
    return None if run.base is None else Program.of(run.base, window, idle)


def _reached(
    before: Side, after: Side, predicted: Sequence[Change | str] | Change | str, config: CompareConfig
) -> Reached:
    changes = [predicted] if isinstance(predicted, Change | str) else predicted
    return reached(before, changes, after.wall_ns(after.typical), config.audit.diagnosis)
