"""``overlapscope timeline`` and ``transfers``: draw figures of a trace, and of measurements of a machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.output import check_figure, note_old_code, print_lines, refuse_to_replace, render_to, say
from overlapscope.errors import OutputError, TraceNotFound, UnknownTraceFormat, WindowEmpty
from overlapscope.formatting import safe

if TYPE_CHECKING:
    from overlapscope.analysis.analysis import Analysis, Source
    from overlapscope.measure.windows import Window
    from overlapscope.model.trace import Trace
    from overlapscope.plot.style import Appearance
    from overlapscope.timeline.view import Shown


T = TypeVar("T")


Width = StrEnum("Width", {"COLUMN": "column", "PAGE": "page"})
"""Width of the figure: one column or the page of a two-column paper."""
Font = StrEnum("Font", {"SANS": "sans", "SERIF": "serif"})
"""Font of the figure: similar to Arial, or to Times."""
Palette = StrEnum("Palette", {"COLOUR": "colour", "GREY": "grey"})
"""Palette of the figure: for screens and colour print, or for greyscale print."""

Clock = StrEnum("Clock", {"WINDOW": "window", "TRACE": "trace"})
"""Where the time axis starts at 0: with the window, or with the trace."""


@dataclass(frozen=True)
class _Part:
    """The part of a trace that a figure shows, as the options have it."""

    within: Annotated[
        str | None, typer.Option("--within", "--range", help="Show the ranges of this name (* and ? match).")
    ] = None
    occurrence: Annotated[
        int | None, typer.Option(min=1, help="With --within: only this occurrence, 1 for the first.")
    ] = None
    step: Annotated[int | None, typer.Option(help="Show this step of torch's profiler.")] = None
    finding: Annotated[str | None, typer.Option(help="Show the longest interval of this finding.")] = None
    from_ms: Annotated[float | None, typer.Option("--from", help="Begin, in ms since the begin of the trace.")] = None
    to_ms: Annotated[float | None, typer.Option("--to", help="End, in ms since the begin of the trace.")] = None

    def __post_init__(self) -> None:
        """Raise `OutputError` where options contradict each other."""
        begin_or_end = self.from_ms if self.to_ms is None else self.to_ms
        if sum(choice is not None for choice in (self.within, self.step, self.finding, begin_or_end)) > 1:
            raise OutputError("choose the window by one of --within, --step, --finding and --from/--to")
        if self.occurrence is not None and self.within is None:
            raise OutputError("--occurrence goes with --within")

    def window(self, trace: Trace) -> tuple[Source, Window | None]:
        """What to draw, and the window to show: of a finding, a part of the whole trace's analysis."""
        from overlapscope.analysis.window import between_ms, window_of
        from overlapscope.measure.windows import of_occurrence

        if self.within is not None:
            return trace, of_occurrence(trace, self.within, self.occurrence)
        if self.step is not None:
            return trace, window_of(trace, step=self.step)
        if self.finding is not None:
            return _of_finding(trace, self.finding)
        whole = self.from_ms is None and self.to_ms is None
        return trace, None if whole else between_ms(trace, self.from_ms, self.to_ms)


@command("timeline")
def timeline_command(  # noqa: PLR0913, PLR0917 - the options of a figure
    path: Annotated[Path, typer.Argument(help="Kineto JSON or Nsight Systems SQLite.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure: .png, .svg or .pdf.")],
    part: _Part = _Part(),
    what_if: Annotated[
        list[str] | None, typer.Option(help="Draw the simulated timeline with this change below; may be repeated.")
    ] = None,
    stream: Annotated[list[int] | None, typer.Option(help="Only this stream; may be repeated.")] = None,
    thread: Annotated[list[int] | None, typer.Option(help="Only this host thread; may be repeated.")] = None,
    show_range: Annotated[list[str] | None, typer.Option(help="Only ranges of this name (* and ? match).")] = None,
    queue: Annotated[bool, typer.Option(help="Add the queue depth: work that was issued and has not started.")] = False,
    why_idle: Annotated[bool, typer.Option(help="Show why each GPU ran no kernel.")] = True,
    kernel_names: Annotated[
        bool, typer.Option("--kernel-names", help="Write names of kernels also where they have to be shortened.")
    ] = False,
    arrows: Annotated[bool, typer.Option(help="Draw arrows from calls to their work, up to 40.")] = False,
    scale_bar: Annotated[bool, typer.Option(help="Draw a scale bar instead of a time axis.")] = False,
    legend: Annotated[bool, typer.Option(help="Draw a legend below.")] = True,
    width: Annotated[Width, typer.Option(help="Column or page width of a two-column paper.")] = Width.COLUMN,
    font: Annotated[Font, typer.Option(help="Similar to Arial, or to Times.")] = Font.SANS,
    palette: Annotated[Palette, typer.Option(help="In colour, or in grey for greyscale print.")] = Palette.COLOUR,
    codes: Annotated[bool, typer.Option("--codes", help="Name findings by the codes of their rules.")] = False,
    clock: Annotated[
        Clock, typer.Option(help="Start the time axis at 0 with the window, or with the trace, as tables do.")
    ] = Clock.WINDOW,
    run: Run = Run(),
) -> None:
    """Draw the timeline of a trace for a paper, and print a caption for it."""
    from overlapscope.plot.style import Appearance
    from overlapscope.timeline.view import Shown, check_shown

    shown = Shown(_some(show_range), _some(thread), _some(stream), queue=queue, why_idle=why_idle)
    look = Appearance(
        width.value,
        font.value,
        palette.value,
        legend,
        arrows,
        scale_bar,
        kernel_names=kernel_names,
        codes=codes,
        clock=clock.value,
    )
    check_figure(output)
    with run.opened(path, output) as (trace, progress):
        check_shown(trace, shown)
        progress.begin("drawing" if part.finding is None and not what_if else "simulating and drawing")
        if what_if:
            caption = _before_after(*part.window(trace), output, what_if, shown, look)
        else:
            caption = _one(*part.window(trace), output, shown, look)
    render_to(None, lambda console: print_lines([caption], console))
    run.note_without_device_work(trace)


def _some(values: Sequence[T] | None) -> tuple[T, ...] | None:
    return tuple(values) if values else None


def _one(source: Source, window: Window | None, output: Path, shown: Shown, look: Appearance) -> str:
    """Draw one timeline, and return its caption."""
    from overlapscope.plot.timeline import save_timeline
    from overlapscope.timeline.caption import caption
    from overlapscope.timeline.lanes import arrows, lanes
    from overlapscope.timeline.view import drawn, edges_of

    analysis, part = drawn(source, window)
    if not lanes(analysis, part, shown):
        raise WindowEmpty("nothing to draw: no ranges, calls or device work in this window")
    if look.arrows and not len(arrows(analysis.trace, *edges_of(analysis.trace, part))):
        say("no arrows: more than 40 kernels and copies in this window, or none with a known call")
    save_timeline(analysis, output, part, shown=shown, look=look)
    return caption(analysis, part)


def _before_after(
    source: Source, window: Window | None, output: Path, changes: list[str], shown: Shown, look: Appearance
) -> str:
    """Draw a timeline before and after changes, and return its caption."""
    from overlapscope.analysis.analysis import what_if
    from overlapscope.plot.timeline import save_timelines

    prediction = what_if(source, changes, window)
    save_timelines(prediction, output, shown=shown, look=look)
    return f"Above, as measured; below, simulated: {prediction.sentence}"


def _of_finding(trace: Trace, code: str) -> tuple[Analysis, Window]:
    from overlapscope.analysis.analysis import analyse
    from overlapscope.diagnosis.catalogue import MOVED
    from overlapscope.timeline import view

    note_old_code(code)
    analysis = analyse(trace)
    diagnosis = analysis.diagnosis
    findings = {finding.code: finding for finding in reversed(diagnosis.findings)}
    now = MOVED.get(code.upper(), code.upper())
    if now not in findings:
        raise WindowEmpty(f"no finding {safe(code)} in the trace: there is {', '.join(sorted(findings)) or 'none'}")
    return analysis, view.of_finding(diagnosis, findings[now])


@command("transfers")
def transfers_command(
    measured: Annotated[
        Path, typer.Argument(metavar="JSON", help="Output of python -m overlapscope.workloads.pinning_sweep.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure: .png, .svg or .pdf.")],
) -> None:
    """Draw the time of each way to copy tensors to the GPU, by their size and for many small ones."""
    from overlapscope.plot.transfers import save_transfers

    refuse_to_replace(measured, output, what="what was measured")
    measurements = _measurements(measured)
    try:
        save_transfers(measurements, output)
    except (KeyError, TypeError, ValueError) as error:
        raise UnknownTraceFormat(f"{measured}: lacks data for the figure ({error!r})") from error


def _measurements(path: Path) -> dict[str, object]:
    try:
        measured = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceNotFound(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise UnknownTraceFormat(f"{path}: is no JSON") from error
    if not isinstance(measured, dict) or not str(measured.get("schema")).startswith("overlapscope.transfers/"):
        raise UnknownTraceFormat(f"{path}: not written by overlapscope.workloads.pinning_sweep")
    return measured
