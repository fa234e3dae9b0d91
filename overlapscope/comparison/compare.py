"""`compare`: two sides of traces, before and after a change of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from overlapscope.analysis.analysis import Analysis, Source, analyse, silent
from overlapscope.comparison.figures import figures_of, range_changes
from overlapscope.comparison.findings import finding_changes
from overlapscope.comparison.hybrids import Program
from overlapscope.comparison.matching import Matching
from overlapscope.comparison.reached import reached
from overlapscope.comparison.remarks import is_comparable, left_out, on_repeats, remarks
from overlapscope.comparison.result import Comparison
from overlapscope.comparison.side import Run, Side, matching_of, sides_of
from overlapscope.comparison.why import Why, why
from overlapscope.comparison.work import common_work
from overlapscope.diagnosis.causes import Cause
from overlapscope.errors import RangeNotFound
from overlapscope.formatting import safe
from overlapscope.measure.places import STEPS, steps
from overlapscope.measure.windows import Window
from overlapscope.whatif.change import Change

Traces = Source | Sequence[Source]
"""One side: a trace, its path or an analysis, or several of the same program."""


def compare(
    before: Traces,
    after: Traces,
    within: str | None = None,
    predicted: Sequence[Change | str] | Change | str | None = None,
    on_phase: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare the traces of a program before and after a change: figures, findings, and why the time differs.

    Args:
        before: an opened trace, its path or an analysis, or several of the same program; medians count then, and a
            change within their spread is none. Of several, traces that have lost data are left out.
        after: the trace or traces after the change.
        within: only the host ranges of this name (``*`` and ``?`` match). Where it occurs more often on one side,
            figures are for one occurrence. Without it the whole traces are compared, or their steps of torch's profiler
            where these differ in number.
        predicted: changes, as `overlapscope.what_if` takes them, to predict the time after from the trace before;
            ``"plan"`` for the whole plan of its audit.
        on_phase: called with the name of each part of the work when it begins.

    Raises:
        TypeError: a side is not made of traces.
        ValueError: a side has no trace.
        RangeNotFound: a trace has no such range.
        ChangeNotUnderstood: a change of ``predicted`` is none that we know.
    """
    on_phase = on_phase or silent
    given = [_analysed(side) for side in (before, after)]
    sides = [_usable(side) for side in given]
    name = _steps_where_they_differ((*sides[0], *sides[1])) if within is None else within
    on_phase("measuring")
    one, two = sides_of(*([_run(analysis, name) for analysis in side] for side in sides))
    on_phase("comparing")
    matching = matching_of(one.typical, two.typical)
    work, ranges = common_work(matching), range_changes(one.typical, two.typical)
    lost = left_out(*([analysis.trace for analysis in side] for side in given))
    said = (*lost, *on_repeats(one, two), *remarks(one, two, work, ranges))
    comparable = is_comparable(said)
    on_phase("simulating")
    changes = [predicted] if isinstance(predicted, Change | str) else predicted
    return Comparison(
        before=one,
        after=two,
        figures=figures_of(one, two),
        findings=finding_changes(one, two),
        ranges=ranges,
        work=work,
        why=_why(one, two, matching) if comparable else None,
        reached=None if changes is None or not comparable else reached(one, changes, two.wall_ns(two.typical)),
        remarks=said,
    )


def _analysed(side: Traces) -> list[Analysis]:
    """The traces of a side, each with its analysis."""
    sources = list(side) if isinstance(side, Sequence) and not isinstance(side, str) else [side]
    if not sources:
        raise ValueError("compare takes at least one trace a side")
    return [analyse(source) for source in sources]


def _run(analysis: Analysis, within: str | None) -> Run:
    try:
        return Run(analyse(analysis, within))
    except RangeNotFound as error:
        raise RangeNotFound(f"{safe(PurePath(analysis.trace.metadata.path).name)}: {error}") from error


def _usable(side: list[Analysis]) -> list[Analysis]:
    """The traces of a side that have not lost data; all where there is none."""
    return [analysis for analysis in side if not analysis.trace.health.damaged] or side


def _steps_where_they_differ(analyses: Sequence[Analysis]) -> str | None:
    """All steps of torch's profiler, where every trace is compared as a whole, has steps, and not all have as many."""
    counts = {len(steps(analysis.trace)) for analysis in analyses}
    whole = all(analysis.window.is_whole for analysis in analyses)
    return STEPS if whole and len(counts) > 1 and 0 not in counts else None


def _why(before: Side, after: Side, matching: Matching) -> Why:
    """Why the typical traces differ."""
    one, two = (_program(side, window) for side, window in zip((before, after), matching.windows, strict=True))
    each = len(matching.windows[0].start_ns) if before.per_occurrence else 1
    return why(one, two, matching, recorded=not before.unprofiled, each=each)


def _program(side: Side, window: Window) -> Program:
    run = side.typical
    idle = {cause: run.idle_ns(cause) / side.divisor(run) for cause in Cause}
    return Program.of(run.analysis.baseline, window, idle)
