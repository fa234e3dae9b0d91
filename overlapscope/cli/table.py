"""What the commands ``copies``, ``gaps``, ``findings`` and ``ranges`` share: a table as text, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.messages import ExitCode, complaining, refuse_to_replace, say, say_without_device_work
from overlapscope.cli.options import TableFormat
from overlapscope.cli.output import deliver, render_to
from overlapscope.cli.progress import Phases, phases
from overlapscope.cli.selection import Selection
from overlapscope.errors import OutputError

if TYPE_CHECKING:
    from overlapscope.model.columns import Int64, Table
    from overlapscope.model.trace import Trace

_TEXT_ROWS = 20
"""Rows of a table that a terminal shows where ``--top`` does not say."""
Top = Annotated[
    int | None,
    typer.Option(min=1, help=f"Only so many rows, the most expensive first; text shows {_TEXT_ROWS} otherwise."),
]
TableFormatOption = Annotated[
    TableFormat | None,
    typer.Option("--format", help="text, csv or parquet; by the name of the output file where it is left out."),
]


@dataclass(frozen=True)
class TableOutput:
    """How a trace is opened and its table written, as the options say."""

    form: TableFormat | None
    output: Path | None
    top: int | None
    cache: bool
    quiet: bool
    debug: bool

    @property
    def format(self) -> TableFormat:
        """The format that is asked for, or that the name of the file means."""
        if self.form is not None:
            return self.form
        name = "" if self.output is None else self.output.name.removesuffix(".gz")
        return next((form for form in TableFormat if name.endswith(f".{form}")), TableFormat.TEXT)


@dataclass(frozen=True, eq=False)
class Found:
    """A table, its rows in the order of their cost, and what of it is shown as text."""

    table: Table
    order: Int64
    title: str
    shown: tuple[str, ...]


def table_command(path: Path, how: TableOutput, find: Callable[[Trace, Phases], Found], *, of_gpu: bool = True) -> None:
    """Read a trace, find a table, and write it; of a trace without GPU work, a table ``of_gpu`` work is no result."""
    with complaining(debug=how.debug):
        if how.format is TableFormat.PARQUET and how.output is None:
            raise OutputError("parquet is no text: name a file with --output")
        refuse_to_replace(path, how.output)
        from overlapscope.read.opening import open_trace

        with phases(path, quiet=how.quiet) as progress:
            progress.begin("reading")
            trace = open_trace(path, progress=progress.read, cache=how.cache)
            found = find(trace, progress)
        _write(trace, found, how)
        no_result = of_gpu and bool(trace.health.no_device_work)
        say_without_device_work(trace, quiet=how.quiet and not no_result)
    if no_result:
        raise typer.Exit(ExitCode.UNUSABLE)


def diagnosed(trace: Trace, selection: Selection, progress: Phases, *, simulate: bool = False) -> Any:
    """The diagnosis of what is selected; only findings need a simulation of their fixes."""
    from overlapscope.diagnosis.config import DiagnosisConfig
    from overlapscope.diagnosis.run import diagnose

    config = DiagnosisConfig() if simulate else DiagnosisConfig(simulate=False)
    return diagnose(trace, selection.window(trace), config, progress.begin)


def _write(trace: Trace, found: Found, how: TableOutput) -> None:
    whole = found.table
    most = _TEXT_ROWS if how.top is None and how.format is TableFormat.TEXT else how.top
    table = whole if most is None else whole.take(found.order[:most])
    if how.format is TableFormat.TEXT:
        _write_text(trace, found, table, how)
        return
    if len(table) < len(whole):
        say(f"{len(table):,} of {len(whole):,} rows", quiet=how.quiet)
    from overlapscope.export.columns import csv_texts, write_parquet

    arrow = table.to_arrow()
    if how.format is TableFormat.CSV:
        deliver("".join(csv_texts(arrow)), how.output)
    elif how.output is not None:
        from overlapscope.atomic_files import writing

        with writing(how.output) as file:
            write_parquet(arrow, file)


def _write_text(trace: Trace, found: Found, table: Table, how: TableOutput) -> None:
    from rich.console import Console, Group
    from rich.text import Text

    from overlapscope.model.columns import public_name
    from overlapscope.report.layout import fitted
    from overlapscope.report.table_text import cells_of

    total = len(found.table)
    title = found.title if len(table) == total else f"{found.title}: {len(table):,} of {total:,} (--top shows more)"
    rows = cells_of(table, found.shown, trace.start_ns)
    other = [public_name(spec) for spec in table.columns() if public_name(spec) not in found.shown]

    def render(console: Console) -> None:
        if not rows:
            console.print(Text(f"{found.title}: none"))
            return
        console.print(Group(*fitted(title, rows, console.width)))
        if other and not how.quiet:
            console.print(Text(f"more columns with --format csv: {', '.join(other)}", style="dim"))

    render_to(how.output, render)
