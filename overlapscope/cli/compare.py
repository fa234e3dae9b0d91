"""``overlapscope compare``: what changed between two traces of a program, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.options import Format, Output, Within, trace_files
from overlapscope.cli.output import (
    ExitCode,
    check_figure,
    deliver,
    deliver_json,
    refuse_to_replace,
    render_to,
    require_device_work,
)
from overlapscope.cli.what_if import split_changes

if TYPE_CHECKING:
    from overlapscope.comparison.result import Comparison

_SIDE = "A trace, a folder of traces of one program, or a quoted pattern such as 'runs/*.json.gz'"


@command("compare")
def compare_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=f"{_SIDE}.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Likewise, after the change.")],
    within: Within = None,
    predicted: Annotated[
        str | None,
        typer.Option(
            metavar="CHANGES",
            help="Compare the time after with what is predicted for these changes, such as pin,non-blocking, or for "
            "the plan of the trace before: plan.",
        ),
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="text, json, markdown, or csv: the figures.")
    ] = Format.TEXT,
    html: Annotated[Path | None, typer.Option(help="Write the comparison as an HTML page here.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw both timelines on one axis: .png, .svg or .pdf.")] = None,
    output: Output = None,
    run: Run = Run(),
) -> ExitCode:
    """Compare a program before and after a change: what changed, which findings are gone or new, and why.

    Several traces a side give medians, and a change within their spread is not called one.

    Exit status: 0 when the traces were compared, 1 when some data of them was lost or no effect can be told, as between
    other work or other GPUs, 2 when there is no result.
    """
    check_figure(figure)
    sides = trace_files(before), trace_files(after)
    for path in (path for side in sides for path in side):
        refuse_to_replace(path, output, html, figure)
    comparison = _compared(sides, within, predicted, run)
    _write(comparison, output_format, output)
    if html is not None:
        from overlapscope.html.page import save_comparison

        save_comparison(comparison, html)
        run.note(f"{html}: open it in a browser")
    if figure is not None:
        from overlapscope.plot.timeline import save_timelines

        save_timelines(comparison, figure)
    return _status(comparison)


def _compared(sides: tuple[list[Path], list[Path]], within: str | None, predicted: str | None, run: Run) -> Comparison:
    from overlapscope.comparison.compare import compare
    from overlapscope.read.opening import open_trace

    changes = None if predicted is None else split_changes(predicted)
    with run.phases(sides[1][0]) as progress:
        before, after = ([open_trace(path, progress=progress.read, cache=run.cache) for path in side] for side in sides)
        for trace in (*before, *after):
            require_device_work(trace, "compare")
        return compare(before, after, within, changes, on_phase=progress.begin)


def _write(comparison: Comparison, form: Format, output: Path | None) -> None:
    if form is Format.JSON:
        deliver_json(comparison.to_dict(), output)
    elif form is Format.CSV:
        deliver(comparison.to_pandas().to_csv(index=False), output)
    else:
        from overlapscope.comparison.document import comparison_document
        from overlapscope.document.markdown import markdown_of
        from overlapscope.document.text import show

        document = comparison_document(comparison)
        if form is Format.MARKDOWN:
            deliver(markdown_of(document), output)
        else:
            render_to(output, lambda console: show(document, console, ends_empty=False))


def _status(comparison: Comparison) -> ExitCode:
    from overlapscope.comparison.remarks import DAMAGED

    lost = any(remark.code == DAMAGED for remark in comparison.remarks)
    return ExitCode.PARTIAL if lost or not comparison.comparable else ExitCode.CLEAN
