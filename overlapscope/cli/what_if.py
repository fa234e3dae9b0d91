"""``overlapscope what-if``: simulate a program with some changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.options import Format, Output, Selection, TracePath
from overlapscope.cli.output import (
    check_figure,
    deliver,
    deliver_json,
    refuse_to_replace,
    render_to,
    require_device_work,
)
from overlapscope.cli.progress import Phases
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.whatif.changes import NAMES

if TYPE_CHECKING:
    from overlapscope.dependencies.simulate import CriticalPath
    from overlapscope.model.trace import Trace
    from overlapscope.whatif.change import Change
    from overlapscope.whatif.prediction import Prediction

CHANGES_HELP = (
    f"{', '.join(NAMES)}; =N for prefetch, workers and faster-link (GB/s); :within=NAME,stream=N,source=TEXT limits it"
    ", and kind=gc or the like no-host-work."
)
_BETWEEN = re.compile(r",(?!\s*(?:within|range|stream|source|kind)\s*=)")  # a comma that no place follows


def split_changes(text: str) -> list[str]:
    """Several changes in one text.

    >>> split_changes("pin:within=copy,stream=7,prefetch=2")
    ['pin:within=copy,stream=7', 'prefetch=2']
    """
    return _BETWEEN.split(text)


def complete_change(begun: str) -> list[str]:
    """Names of changes that begin like this, for shell completion."""
    return [name for name in NAMES if name.startswith(begun)]


@dataclass(frozen=True)
class _ChangedPart(Selection):
    """The part to predict; ``--device`` selects the copies to change."""

    device: Annotated[
        int | None, typer.Option("--device", min=0, help="Change only copies of the GPUs of this number.")
    ] = None


@command("what-if")
def what_if_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    path: TracePath,
    change: Annotated[list[str], typer.Option(help=CHANGES_HELP, autocompletion=complete_change)],
    part: _ChangedPart = _ChangedPart(),
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the critical path before and after the changes.")
    ] = False,
    output_format: Annotated[
        Format, typer.Option("--format", help="text, json, markdown, or csv: the times with and without the profiler.")
    ] = Format.TEXT,
    figure: Annotated[Path | None, typer.Option(help="Draw the timeline before and after: .png, .svg or .pdf.")] = None,
    output: Output = None,
    run: Run = Run(),
) -> None:
    """Predict the time of a program with some changes, by simulating its trace."""
    check_figure(figure)
    refuse_to_replace(path, output, figure)
    changes = _understood(change, run)
    with run.opened(path) as (trace, progress):
        prediction, paths = _predict(trace, changes, part, progress, explain=explain)
    _write(prediction, paths, part.device, output_format, output)
    if figure is not None:
        from overlapscope.plot.timeline import save_timelines

        save_timelines(prediction, figure)


def _understood(texts: list[str], run: Run) -> Sequence[Change]:
    """The changes; a note says the present name of a change that was asked for by an old one."""
    from overlapscope.whatif.catalogue import change_of, understood

    texts = [each for text in texts for each in split_changes(text)]
    for text in texts:
        name = text.partition(":")[0].partition("=")[0].strip()
        kind = change_of(name)
        if kind is not None and kind.name != name:
            run.note(f"{name} is called {kind.name} now; the old name is still accepted")
        if ":range=" in text or ",range=" in text:
            run.note("range= is called within= now; the old name is still accepted")
    return understood(texts)


def _predict(
    trace: Trace, changes: Sequence[Change], part: Selection, progress: Phases, *, explain: bool
) -> tuple[Prediction, dict[str, CriticalPath]]:
    """The prediction, and with ``explain`` its critical paths before and after the changes."""
    require_device_work(trace, "simulate")
    analysis = part.analyse(trace, on_phase=progress.begin)
    progress.begin("simulating")
    prediction = analysis.what_if([_limited(trace, each, analysis.window.device) for each in changes])
    wanted = ("before", "after") if explain else ()
    return prediction, {name: prediction.critical_path(changed=name == "after") for name in wanted}


def _limited(trace: Trace, change: Change, number: int | None) -> Change:
    """A change of the copies of the selected GPU."""
    if number is None:
        return change
    if change.changes_calls:
        raise ChangeNotUnderstood(f"{change.name} is about calls, not the copies of a GPU: leave --device out")
    rows = (trace.copies.device == number).nonzero()[0]
    return replace(change, copies=tuple(rows.tolist()))


def _write(
    prediction: Prediction, paths: dict[str, CriticalPath], device: int | None, form: Format, output: Path | None
) -> None:
    if form is Format.JSON:
        shown: dict[str, Any] = {"critical_path": {name: each.to_dict() for name, each in paths.items()}}
        deliver_json(prediction.to_dict() | {"device": device} | (shown if paths else {}), output)
    elif form is Format.CSV:
        deliver(prediction.to_pandas().to_csv(), output)
    else:
        from overlapscope.document.markdown import markdown_of
        from overlapscope.document.text import show_lines
        from overlapscope.report.prediction import prediction_parts

        parts = prediction_parts(prediction, paths, device)
        if form is Format.MARKDOWN:
            deliver(markdown_of(parts), output)
        else:
            render_to(output, lambda console: show_lines(parts, console))
