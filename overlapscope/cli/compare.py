"""``overlapscope compare``: what changed between two traces of a program, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.changes import split_changes
from overlapscope.cli.messages import ExitCode, complaining, refuse_to_replace, require_device_work, say
from overlapscope.cli.options import Cache, Debug, Format, Output, Quiet, Within
from overlapscope.cli.output import deliver, deliver_json, render_to
from overlapscope.cli.progress import phases
from overlapscope.cli.trace_files import trace_files

if TYPE_CHECKING:
    from overlapscope.comparison.result import Comparison

_SIDE = "A trace, a folder of traces of one program, or a quoted pattern such as 'runs/*.json.gz'"


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
    output_format: Annotated[Format, typer.Option("--format", help="text, json, or csv: the figures.")] = Format.TEXT,
    html: Annotated[Path | None, typer.Option(help="Write the comparison as an HTML page here.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw both timelines on one axis: .png, .svg or .pdf.")] = None,
    output: Output = None,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare a program before and after a change: what changed, which findings are gone or new, and why.

    Several traces a side give medians, and a change within their spread is not called one.

    Exit status: 0 when the traces were compared, 1 when some data of them was lost or no effect can be told, as between
    other work or other GPUs, 2 when there is no result.
    """
    with complaining(debug=debug):
        if figure is not None:
            from overlapscope.plot.files import check_suffix

            check_suffix(figure)
        sides = trace_files(before), trace_files(after)
        for path in (path for side in sides for path in side):
            refuse_to_replace(path, output, html, figure)
        found = _compared(sides, within, predicted, cache=cache, quiet=quiet)
        _write(found, output_format, output)
        if html is not None:
            from overlapscope.html.comparison_page import save_comparison

            save_comparison(found, html)
            say(f"{html}: open it in a browser", quiet=quiet)
        if figure is not None:
            from overlapscope.plot.before_after import save_before_after

            save_before_after(found, figure)
    raise typer.Exit(_status(found))


def _compared(
    sides: tuple[list[Path], list[Path]], within: str | None, predicted: str | None, *, cache: bool, quiet: bool
) -> Comparison:
    from overlapscope.comparison.compare import compare
    from overlapscope.read.opening import open_trace

    changes = None if predicted is None else split_changes(predicted)
    with phases(sides[1][0], quiet=quiet) as progress:
        progress.begin("reading")
        before, after = ([open_trace(path, progress=progress.read, cache=cache) for path in side] for side in sides)
        for trace in (*before, *after):
            require_device_work(trace, "compare")
        return compare(before, after, within, changes, on_phase=progress.begin)


def _write(found: Comparison, form: Format, output: Path | None) -> None:
    if form is Format.JSON:
        deliver_json(found.to_dict(), output)
    elif form is Format.CSV:
        deliver(found.to_pandas().to_csv(index=False), output)
    else:
        from overlapscope.comparison.text import render

        render_to(output, lambda console: render(found, console))


def _status(found: Comparison) -> ExitCode:
    from overlapscope.comparison.remarks import DAMAGED

    lost = any(remark.code == DAMAGED for remark in found.remarks)
    return ExitCode.PARTIAL if lost or not found.comparable else ExitCode.CLEAN
