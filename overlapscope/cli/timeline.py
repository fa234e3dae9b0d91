"""``overlapscope timeline``: draw the timeline of a trace, or of a trace before and after changes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from overlapscope.cli.messages import (
    ExitCode,
    complain,
    note_old_code,
    refuse_to_replace,
    say,
    say_without_device_work,
)
from overlapscope.cli.options import Cache, Debug, Quiet
from overlapscope.cli.output import print_lines, render_to
from overlapscope.cli.progress import phases
from overlapscope.errors import OutputError, OverlapscopeError, WindowEmpty
from overlapscope.formatting import safe

if TYPE_CHECKING:
    from overlapscope.diagnosis.finding import DeviceDiagnosis
    from overlapscope.measure.windows import Window
    from overlapscope.model.trace import Trace
    from overlapscope.plot.style import Appearance
    from overlapscope.timeline.shown import Shown


T = TypeVar("T")


class Width(StrEnum):
    """Width of the figure: one column or the page of a two-column paper."""

    COLUMN = "column"
    PAGE = "page"


class Font(StrEnum):
    """Font of the figure: similar to Arial, or to Times."""

    SANS = "sans"
    SERIF = "serif"


class Palette(StrEnum):
    """Palette of the figure: for screens and colour print, or for greyscale print."""

    COLOUR = "colour"
    GREY = "grey"


def timeline_command(  # noqa: PLR0913, PLR0917 - the options of a figure
    path: Annotated[Path, typer.Argument(help="Kineto JSON or Nsight Systems SQLite.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure: .png, .svg or .pdf.")],
    within: Annotated[
        str | None, typer.Option("--within", "--range", help="Show the ranges of this name (* and ? match).")
    ] = None,
    occurrence: Annotated[
        int | None, typer.Option(min=1, help="With --within: only this occurrence, 1 for the first.")
    ] = None,
    step: Annotated[int | None, typer.Option(help="Show this step of torch's profiler.")] = None,
    finding: Annotated[str | None, typer.Option(help="Show the longest interval of this finding.")] = None,
    from_ms: Annotated[float | None, typer.Option("--from", help="Begin, in ms since the begin of the trace.")] = None,
    to_ms: Annotated[float | None, typer.Option("--to", help="End, in ms since the begin of the trace.")] = None,
    what_if: Annotated[
        list[str] | None, typer.Option(help="Draw the simulated timeline with this change below; may be repeated.")
    ] = None,
    stream: Annotated[list[int] | None, typer.Option(help="Only this stream; may be repeated.")] = None,
    thread: Annotated[list[int] | None, typer.Option(help="Only this host thread; may be repeated.")] = None,
    show_range: Annotated[list[str] | None, typer.Option(help="Only ranges of this name (* and ? match).")] = None,
    queue: Annotated[bool, typer.Option(help="Add the queue depth: work that was issued and has not started.")] = False,
    why_idle: Annotated[bool, typer.Option(help="Show why each GPU was idle.")] = True,
    kernel_names: Annotated[
        bool, typer.Option("--kernel-names", help="Write names of kernels also where they have to be shortened.")
    ] = False,
    arrows: Annotated[bool, typer.Option(help="Draw arrows from calls to their work, up to 40.")] = False,
    scale_bar: Annotated[bool, typer.Option(help="Draw a scale bar instead of a time axis.")] = False,
    legend: Annotated[bool, typer.Option(help="Draw a legend below.")] = True,
    width: Annotated[Width, typer.Option(help="Column or page width of a two-column paper.")] = Width.COLUMN,
    font: Annotated[Font, typer.Option(help="Similar to Arial, or to Times.")] = Font.SANS,
    palette: Annotated[Palette, typer.Option(help="In colour, or in grey for greyscale print.")] = Palette.COLOUR,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw the timeline of a trace for a paper, and print a caption for it."""
    from overlapscope.plot.files import check_suffix
    from overlapscope.plot.style import Appearance
    from overlapscope.read.opening import open_trace
    from overlapscope.timeline.shown import Shown, check_shown

    shown = Shown(_some(show_range), _some(thread), _some(stream), queue=queue, why_idle=why_idle)
    look = Appearance(width.value, font.value, palette.value, legend, arrows, scale_bar, kernel_names=kernel_names)
    try:
        check_suffix(output)
        if sum(choice is not None for choice in (within, step, finding, from_ms if to_ms is None else to_ms)) > 1:
            raise OutputError("choose the window by one of --within, --step, --finding and --from/--to")
        if occurrence is not None and within is None:
            raise OutputError("--occurrence goes with --within")
        refuse_to_replace(path, output)
        if what_if and (finding is not None or step is not None or occurrence or (from_ms, to_ms) != (None, None)):
            raise OutputError("--what-if simulates the whole trace or --within a range, such as ProfilerStep#1")
        with phases(path, quiet=quiet) as progress:
            progress.begin("reading")
            trace = open_trace(path, progress=progress.read, cache=cache)
            check_shown(trace, shown)
            progress.begin("drawing" if finding is None and not what_if else "simulating and drawing")
            if what_if:
                caption = _before_after(trace, output, what_if, within, shown, look)
            else:
                window, idle = _window(trace, within, occurrence, step, finding, (from_ms, to_ms))
                caption = _one(trace, output, window, idle, shown, look)
        render_to(None, lambda console: print_lines([caption], console))
        say_without_device_work(trace, quiet=quiet)
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error


def _some(values: Sequence[T] | None) -> tuple[T, ...] | None:
    return tuple(values) if values else None


def _one(
    trace: Trace,
    output: Path,
    window: tuple[int, int] | Window | None,
    idle: Sequence[DeviceDiagnosis] | None,
    shown: Shown,
    look: Appearance,
) -> str:
    """Draw one timeline, and return its caption."""
    from overlapscope.diagnosis.idle_by_rule import idle_by_rule
    from overlapscope.plot.timeline import save_timeline
    from overlapscope.timeline.arrows import arrows
    from overlapscope.timeline.caption import caption
    from overlapscope.timeline.lanes import lanes
    from overlapscope.timeline.view import edges_of, measured_window, shown_window

    part = shown_window(trace, window)
    drawn = edges_of(trace, part)
    idle = idle_by_rule(trace, measured_window(trace, part)) if idle is None else idle
    if not lanes(trace, part, shown, idle):
        raise WindowEmpty("nothing to draw: no ranges, calls or device work in this window")
    if look.arrows and not len(arrows(trace, *drawn)):
        say("no arrows: more than 40 kernels and copies in this window, or none with a known call")
    save_timeline(trace, output, part, idle=idle, shown=shown, look=look)
    return caption(trace, part, shown, idle=idle)


def _before_after(
    trace: Trace, output: Path, changes: list[str], name: str | None, shown: Shown, look: Appearance
) -> str:
    """Draw a timeline before and after changes, and return its caption."""
    from overlapscope.plot.before_after import save_before_after
    from overlapscope.whatif.what_if import what_if

    prediction = what_if(trace, changes, name)
    save_before_after(prediction, output, shown=shown, look=look)
    return f"Above, as measured; below, simulated: {prediction.sentence}"


def _window(
    trace: Trace,
    name: str | None,
    occurrence: int | None,
    step: int | None,
    finding: str | None,
    between: tuple[float | None, float | None],
) -> tuple[tuple[int, int] | Window | None, Sequence[DeviceDiagnosis] | None]:
    """What to show; and why devices were idle, where a finding of the whole trace is shown."""
    from overlapscope.timeline import view

    if name is not None:
        return view.of_occurrence(trace, name, occurrence), None
    if step is not None:
        return view.of_step(trace, step), None
    if between != (None, None):
        return view.of_time(trace, *between), None
    return (None, None) if finding is None else _of_finding(trace, finding)


def _of_finding(trace: Trace, code: str) -> tuple[tuple[int, int], Sequence[DeviceDiagnosis]]:
    from overlapscope.diagnosis.catalogue import MOVED
    from overlapscope.diagnosis.run import diagnose
    from overlapscope.timeline import view

    note_old_code(code)
    diagnosis = diagnose(trace)
    found = {entry.code: entry for entry in reversed(diagnosis.findings)}
    now = MOVED.get(code.upper(), code.upper())
    if now not in found:
        raise WindowEmpty(f"no finding {safe(code)} in the trace: there is {', '.join(sorted(found)) or 'none'}")
    return view.of_finding(diagnosis, found[now]), diagnosis.devices
