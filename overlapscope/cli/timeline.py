"""``overlapscope timeline``: a figure of a trace, or of a trace before and after some changes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from overlapscope.cli.messages import ExitCode, complain, refuse_to_replace, say
from overlapscope.errors import OutputError, OverlapscopeError, WindowEmpty
from overlapscope.read.opening import open_trace
from overlapscope.words import safe

if TYPE_CHECKING:
    from overlapscope.model.trace import Trace
    from overlapscope.plot.style import Appearance
    from overlapscope.timeline.shown import Shown


T = TypeVar("T")


class Width(StrEnum):
    """Of a two-column paper."""

    COLUMN = "column"
    PAGE = "page"


class Font(StrEnum):
    """Like Arial, or like Times."""

    SANS = "sans"
    SERIF = "serif"


class Palette(StrEnum):
    """For screens and colour print, or for print without colours."""

    COLOUR = "colour"
    GREY = "grey"


def timeline_command(  # noqa: PLR0913, PLR0917 - the options of a figure
    path: Annotated[Path, typer.Argument(help="Kineto JSON or Nsight Systems SQLite.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure: .png, .svg or .pdf.")],
    range_name: Annotated[str | None, typer.Option("--range", help="Show the ranges of this name.")] = None,
    occurrence: Annotated[int | None, typer.Option(min=1, help="With --range: only this one, 1 for the first.")] = None,
    step: Annotated[int | None, typer.Option(help="Show this step of torch's profiler.")] = None,
    finding: Annotated[str | None, typer.Option(help="Show what this finding is about, such as OVL001.")] = None,
    from_ms: Annotated[float | None, typer.Option("--from", help="Begin, in ms on the whole figure's axis.")] = None,
    to_ms: Annotated[float | None, typer.Option("--to", help="End, likewise.")] = None,
    what_if: Annotated[list[str] | None, typer.Option(help="Draw the window below as it would be with this.")] = None,
    stream: Annotated[list[int] | None, typer.Option(help="Only this stream; may be repeated.")] = None,
    thread: Annotated[list[int] | None, typer.Option(help="Only this host thread; may be repeated.")] = None,
    show_range: Annotated[list[str] | None, typer.Option(help="Only ranges of this name (* and ? match).")] = None,
    queue: Annotated[bool, typer.Option(help="Add a strip of the work that was issued and had not begun.")] = False,
    arrows: Annotated[bool, typer.Option(help="Draw arrows from calls to their work, up to 40.")] = False,
    scale_bar: Annotated[bool, typer.Option(help="A scale bar instead of a time axis.")] = False,
    legend: Annotated[bool, typer.Option(help="A legend below.")] = True,
    width: Annotated[Width, typer.Option(help="Of a two-column paper.")] = Width.COLUMN,
    font: Annotated[Font, typer.Option(help="Like Arial, or like Times.")] = Font.SANS,
    palette: Annotated[Palette, typer.Option(help="colour, or grey for print without colours.")] = Palette.COLOUR,
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
) -> None:
    """Draw a trace's timeline for a paper, and print a caption to start from."""
    from overlapscope.plot.files import check_suffix
    from overlapscope.plot.style import Appearance
    from overlapscope.timeline.shown import Shown, check_shown

    shown = Shown(_some(show_range), _some(thread), _some(stream), queue=queue)
    look = Appearance(width.value, font.value, palette.value, legend, arrows, scale_bar)
    try:
        check_suffix(output)
        if sum(choice is not None for choice in (range_name, step, finding, from_ms if to_ms is None else to_ms)) > 1:
            raise OutputError("choose the window by one of --range, --step, --finding and --from/--to")
        if occurrence is not None and range_name is None:
            raise OutputError("--occurrence goes with --range")
        refuse_to_replace(path, output)
        trace = open_trace(path)
        check_shown(trace, shown)
        if what_if:
            if finding is not None or step is not None or from_ms is not None or to_ms is not None or occurrence:
                raise OutputError("--what-if predicts for the whole trace or for --range, such as ProfilerStep#1")
            _before_after(trace, output, what_if, range_name, shown, look)
            return
        window = _window(trace, range_name, occurrence, step, finding, (from_ms, to_ms))
        _one(trace, output, window, shown, look)
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error


def _some(values: Sequence[T] | None) -> tuple[T, ...] | None:
    return tuple(values) if values else None


def _one(trace: Trace, output: Path, window: tuple[int, int] | None, shown: Shown, look: Appearance) -> None:
    from overlapscope.plot.timeline import save_timeline
    from overlapscope.timeline.arrows import arrows
    from overlapscope.timeline.caption import caption
    from overlapscope.timeline.lanes import lanes
    from overlapscope.timeline.view import work_window

    stretch = window or work_window(trace)
    if not lanes(trace, stretch, shown):
        raise WindowEmpty("nothing to draw: no ranges, calls or device work in this window")
    if look.arrows and not len(arrows(trace, *stretch)):
        say("no arrows: more than 40 kernels and copies in this window, or none whose call is known")
    save_timeline(trace, output, window, shown=shown, look=look)
    typer.echo(safe(caption(trace, window, shown)))


def _before_after(
    trace: Trace, output: Path, changes: list[str], name: str | None, shown: Shown, look: Appearance
) -> None:
    from overlapscope.plot.before_after import save_before_after
    from overlapscope.replay.what_if import what_if

    prediction = what_if(trace, changes, name)
    save_before_after(prediction, output, shown=shown, look=look)
    typer.echo(safe(f"Above, as measured; below, simulated: {prediction.sentence}"))


def _window(
    trace: Trace,
    name: str | None,
    occurrence: int | None,
    step: int | None,
    finding: str | None,
    between: tuple[float | None, float | None],
) -> tuple[int, int] | None:
    from overlapscope.timeline import view

    if name is not None:
        return view.of_occurrence(trace, name, occurrence)
    if step is not None:
        return view.of_step(trace, step)
    if between != (None, None):
        return view.of_time(trace, *between)
    return None if finding is None else _of_finding(trace, finding)


def _of_finding(trace: Trace, code: str) -> tuple[int, int]:
    from overlapscope.diagnosis.engine import diagnose
    from overlapscope.timeline import view

    diagnosis = diagnose(trace)
    found = {entry.code: entry for entry in reversed(diagnosis.findings)}
    if code.upper() not in found:
        raise WindowEmpty(f"no finding {safe(code)} in the trace: there is {', '.join(sorted(found)) or 'none'}")
    return view.of_finding(diagnosis, found[code.upper()])
