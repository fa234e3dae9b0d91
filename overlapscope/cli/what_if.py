"""``overlapscope what-if``: simulate a program with some changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.changes import CHANGES_HELP, complete_change, note_old_name, split_changes
from overlapscope.cli.messages import complaining, refuse_to_replace, require_device_work
from overlapscope.cli.options import Cache, Debug, Format, From, Output, Quiet, Step, To, TracePath, Within
from overlapscope.cli.output import deliver, deliver_json, print_lines, render_to
from overlapscope.cli.progress import phases
from overlapscope.cli.selection import Selection
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import time

if TYPE_CHECKING:
    from overlapscope.dependencies.critical_path import CriticalPath
    from overlapscope.model.trace import Trace
    from overlapscope.whatif.change import Change
    from overlapscope.whatif.prediction import Prediction


def what_if_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    path: TracePath,
    change: Annotated[list[str], typer.Option(help=CHANGES_HELP, autocompletion=complete_change)],
    within: Within = None,
    step: Step = None,
    from_ms: From = None,
    to_ms: To = None,
    device: Annotated[
        int | None, typer.Option("--device", min=0, help="Change only copies of the GPUs of this number.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the critical path before and after the changes.")
    ] = False,
    output_format: Annotated[
        Format, typer.Option("--format", help="text, json, or csv: the times with and without the profiler.")
    ] = Format.TEXT,
    figure: Annotated[Path | None, typer.Option(help="Draw the timeline before and after: .png, .svg or .pdf.")] = None,
    output: Output = None,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the time of a program with some changes, by simulating its trace.

    A time interval counts up to the end of the device work issued in it.
    """
    selection = Selection(within, step, from_ms, to_ms, device)
    with complaining(debug=debug):
        if figure is not None:
            from overlapscope.plot.files import check_suffix

            check_suffix(figure)
        refuse_to_replace(path, output, figure)
        change = [each for text in change for each in split_changes(text)]
        for text in change:
            note_old_name(text, quiet=quiet)
        found, paths = _predict(path, change, selection, explain=explain, cache=cache, quiet=quiet)
        _write(found, paths, device, output_format, output)
        if figure is not None:
            from overlapscope.plot.before_after import save_before_after

            save_before_after(found, figure)


def _predict(
    path: Path, texts: list[str], selection: Selection, *, explain: bool, cache: bool, quiet: bool
) -> tuple[Prediction, dict[str, CriticalPath]]:
    """The prediction, and with ``explain`` the critical paths."""
    from overlapscope.read.opening import open_trace
    from overlapscope.whatif.catalogue import understood
    from overlapscope.whatif.what_if import what_if

    changes = understood(texts)
    with phases(path, quiet=quiet) as progress:
        progress.begin("reading")
        trace = open_trace(path, progress=progress.read, cache=cache)
        require_device_work(trace, "simulate")
        trace, name = _ranged(trace, selection)
        progress.begin("simulating")
        found = what_if(trace, [_limited(trace, each, selection) for each in changes], name)
        wanted = ("before", "after") if explain else ()
        return found, {name: found.critical_path(changed=name == "after") for name in wanted}


def _ranged(trace: Trace, selection: Selection) -> tuple[Trace, str | None]:
    """The trace and the name of the selected range; a time interval becomes a range."""
    if not selection.is_interval:
        return trace, selection.range_name
    from overlapscope.measure.windows import with_range

    first_ns, last_ns = selection.interval_ns(trace)
    begin = 0 if selection.from_ms is None else selection.from_ms
    name = f"{begin:g} ms on" if selection.to_ms is None else f"{begin:g} to {selection.to_ms:g} ms"
    return with_range(trace, name, first_ns, last_ns), name


def _limited(trace: Trace, change: Change, selection: Selection) -> Change:
    """A change of the copies of the selected GPU."""
    number = selection.device_of(trace)
    if number is None:
        return change
    if change.about_calls:
        raise ChangeNotUnderstood(f"{change.name} is about calls, not the copies of a GPU: leave --device out")
    rows = (trace.copies.device == number).nonzero()[0]
    return replace(change, copies=tuple(rows.tolist()))


def _write(
    found: Prediction, paths: dict[str, CriticalPath], device: int | None, form: Format, output: Path | None
) -> None:
    if form is Format.JSON:
        shown: dict[str, Any] = {"critical_path": {name: each.to_dict() for name, each in paths.items()}}
        deliver_json(found.to_dict() | {"device": device} | (shown if paths else {}), output)
    elif form is Format.CSV:
        deliver(found.to_pandas().to_csv(), output)
    else:
        only = [] if device is None else [f"  only copies of GPU {device}"]
        render_to(output, lambda console: print_lines([*_lines(found), *only, *_path_lines(paths)], console))


def _lines(found: Prediction) -> list[str]:
    made_of = ", ".join(f"{name} {time(ns)}" for name, ns in found.made_of.items())
    return [
        found.sentence,
        f"  critical path: {made_of}",
        *(f"  {text}" for text in (*found.assumptions, *found.wide)),
    ]


def _path_lines(paths: dict[str, CriticalPath]) -> list[str]:
    from overlapscope.report.critical_path import critical_path_lines

    return [line for name, each in paths.items() for line in critical_path_lines(name, each)]
