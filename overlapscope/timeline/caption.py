"""The caption of a timeline, to start from: what it shows, in three sentences."""

from __future__ import annotations

from collections.abc import Sequence

from overlapscope.analysis.analysis import Analysis, Source, analyse
from overlapscope.diagnosis.finding import Severity
from overlapscope.formatting import safe, share, time
from overlapscope.measure.devices import Activity, device_keys
from overlapscope.measure.windows import Window
from overlapscope.model.trace import Trace
from overlapscope.timeline.view import drawn


def caption(
    source: Source, window: tuple[int, int] | Window | None = None, *, within: str | Window | None = None
) -> str:
    """At most three sentences for a figure of a trace: its main finding, how busy its GPUs were, what was recorded.

    The figures are those of an audit of the window. A GPU computes while a kernel other than a collective runs; a copy
    is hidden while any kernel runs.

    Args:
        source: an opened trace, its path, or an analysis, whose window counts where no other is given.
        window: [start, end) in ns on the trace's clock; without one, the whole trace.
        within: the window by the name of a range (``*`` and ``?`` match), such as ``"ProfilerStep#3"``.

    Raises:
        WindowEmpty: nothing of the trace is in the window.
        RangeNotFound: the trace has no such range.
    """
    analysis, part = drawn(source, window, within)
    analysis = analyse(analysis, window=part)
    active = [each for each in analysis.activities if each.compute.total_ns or each.copies.total_ns]
    said = [_main_finding(analysis, len(active)), _busy(active, analysis.window)] if active else []
    return " ".join([*said, _recorded(analysis)])


def _main_finding(analysis: Analysis, gpus: int) -> str:
    """The first finding in words; wrong results come before lost time."""
    finding = next((each for each in analysis.recorded.findings if each.severity is not Severity.INFO), None)
    if finding is None:
        return f"No GPU lost more to a single cause than {time(analysis.recorded.report_threshold_ns)}."
    if finding.severity is Severity.HAZARD:
        return f"Results may be wrong because of {finding.waited_for}."
    gpu = "The GPU" if gpus == 1 else f"GPU {finding.where.device}"
    return f"{gpu} lost {share(finding.idle_ns, analysis.window.wall_ns)} of the time to {finding.waited_for}."


def _busy(active: Sequence[Activity], window: Window) -> str:
    """How much of the time the GPUs computed, and how many of their copies were hidden."""
    computed = [each.compute.total_ns / max(window.of(each.key.process).total_ns, 1) for each in active]
    copied = [each for each in active if each.copies.total_ns]
    hidden = [each.overlap.total_ns / each.copies.total_ns for each in copied]
    copy_ns = sum(each.copies.total_ns for each in copied)
    gpus = "The GPU" if len(active) == 1 else f"The {len(active)} GPUs"
    copies = f"{_span(hidden)} of {time(copy_ns)} of copies were hidden under kernels" if copied else "copied nothing"
    joined = "; " if copied else " and "
    return f"{gpus} computed for {_span(computed)} of the time{joined}{copies}."


def _span(shares: Sequence[float]) -> str:
    """The least and the largest share, or one where they read alike."""
    least, most = (share(each, 1) for each in (min(shares), max(shares)))
    return least if least == most else f"{least.removesuffix(' %')} to {most}"


def _recorded(analysis: Analysis) -> str:
    """The length of the window, its name, the hardware and the profiler."""
    trace, window = analysis.trace, analysis.window
    whole = "the whole trace" if window.is_whole else "a part of the trace"
    several = f"{len(window.start_ns)} occurrences of " if len(window.start_ns) > 1 else ""
    what = whole if window.name is None else f"{several}the range {safe(window.name)}"
    return f"Shown: {time(window.wall_ns)}, {what}{_hardware(trace)}, recorded by {safe(trace.metadata.tool)}."


def _hardware(trace: Trace) -> str:
    if trace.health.no_device_work:
        return " of a program without GPU work"
    used = sorted({key.device for key in device_keys(trace)})
    names = sorted({name for name in map(trace.metadata.device_name, used) if name})
    return f" on {' and '.join(safe(name) for name in names)}" if names else ""
