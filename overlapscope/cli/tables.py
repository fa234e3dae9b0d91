"""``overlapscope copies``, ``gaps``, ``findings`` and ``ranges``: a table of a trace as text, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.options import Output, Selection, TracePath
from overlapscope.cli.output import ExitCode, deliver, render_to
from overlapscope.errors import OutputError

if TYPE_CHECKING:
    from overlapscope.model.columns import Int64
    from overlapscope.model.trace import Trace

_TEXT_ROWS = 20
"""Rows of a table that a terminal shows where ``--top`` does not say."""


TableFormat = StrEnum("TableFormat", ["TEXT", "CSV", "PARQUET"])
"""Output format of a table."""


@dataclass(frozen=True)
class TableOutput:
    """How a table is written, as the options say."""

    top: Annotated[
        int | None,
        typer.Option(min=1, help=f"Only so many rows, the most expensive first; text shows {_TEXT_ROWS} otherwise."),
    ] = None
    form: Annotated[
        TableFormat | None,
        typer.Option("--format", help="text, csv or parquet; by the name of the output file where it is left out."),
    ] = None
    output: Output = None

    @property
    def format(self) -> TableFormat:
        """The format that ``--format`` names, or else the name of the file."""
        if self.form is not None:
            return self.form
        name = "" if self.output is None else self.output.name.removesuffix(".gz")
        return next((form for form in TableFormat if name.endswith(f".{form}")), TableFormat.TEXT)


@dataclass(frozen=True)
class TableKind:
    """One table of an analysis: its rows in the order of their cost, and its columns in a text.

    ``of_gpu_work``: the table of a trace without GPU work is no result. ``called`` has headings other than the names of
    the columns.
    """

    title: str
    help: str
    columns: tuple[str, ...]
    costly_first: Callable[[Any], Int64] | None = None
    of_gpu_work: bool = True
    called: Mapping[str, str] = field(default_factory=dict)


def _costly_copies(table: Any) -> Int64:
    import numpy as np

    return np.lexsort((-np.maximum(table.exposed_ns, table.blocked_ns), -table.no_kernel_ns))


_COPIES = TableKind(
    "Copies",
    """List the copies: duration, hidden, exposed and blocked time, time without a kernel, cause, and place.

    Copies with the most time without a kernel come first. With --format csv or parquet all copies are listed, in the
    order of time, with more columns.
    """,
    (
        "start_ns", "duration_ns", "hidden_ns", "exposed_ns", "blocked_ns", "no_kernel_ns", "code", "cause",
        "direction", "memory", "size_bytes", "device", "stream", "op", "range",
    ),
    _costly_copies,
)  # fmt: skip
_GAPS = TableKind(
    "Time without a kernel",
    """List the stretches in which a GPU ran no kernel: length, cause, rule, and the call to look at.

    The longest come first. With --format csv or parquet all are listed, in the order of time, with more columns.
    """,
    ("start_ns", "duration_ns", "code", "cause", "device", "api", "op", "range"),
    lambda table: (-table.duration_ns).argsort(kind="stable"),
)
_FINDINGS = TableKind(
    "Findings",
    """List the findings as a table, ranked; audit says what they mean and how to fix them.""",
    (
        "rank", "code", "name", "kind", "severity", "confidence", "no_kernel_ns", "idle_ns", "blocked_ns", "saving_ns",
        "change", "copies", "device", "api", "range",
    ),
)  # fmt: skip
_RANGES = TableKind(
    "Ranges",
    """List the named ranges, which --within selects: how often each occurs, and what the GPUs did meanwhile.

    Each occurrence counts up to the end of the device work issued in it. Host and after are medians of an occurrence;
    the other times are of all occurrences together. Ranges nest, so their times do not add up.
    """,
    (
        "name", "occurrences", "host_ns", "after_ns", "blocked_ns", "wall_ns", "kernel_busy_ns", "copy_busy_ns",
        "overlap_ns",
    ),
    of_gpu_work=False,
    called={
        "host_ns": "median host",
        "after_ns": "median after",
        "blocked_ns": "total blocked",
        "wall_ns": "total wall",
        "kernel_busy_ns": "total kernel busy",
        "copy_busy_ns": "total copy busy",
        "overlap_ns": "total overlap",
    },
)  # fmt: skip


def _declare(name: str, kind: TableKind) -> None:
    """Make the command that lists the table of this name of an analysis."""

    def list_rows(path: TracePath, part: Selection, how: TableOutput, run: Run) -> ExitCode:
        if how.format is TableFormat.PARQUET and how.output is None:
            raise OutputError("parquet is no text: name a file with --output")
        with run.opened(path, how.output) as (trace, progress):
            progress.begin(name)
            table = getattr(part.analyse(trace, on_phase=progress.begin), name)
        _write(trace, table, kind, how, run)
        no_result = kind.of_gpu_work and bool(trace.health.no_device_work)
        run.note_without_device_work(trace, required=no_result)
        return ExitCode.UNUSABLE if no_result else ExitCode.CLEAN

    list_rows.__doc__ = kind.help
    command(name)(list_rows)


def _write(trace: Trace, whole: Any, kind: TableKind, how: TableOutput, run: Run) -> None:
    most = _TEXT_ROWS if how.top is None and how.format is TableFormat.TEXT else how.top
    rows = slice(most) if most is None or kind.costly_first is None else kind.costly_first(whole)[:most]
    table = whole.take(rows)
    if how.format is TableFormat.TEXT:
        _write_text(trace, table, len(whole), kind, how, run)
        return
    if len(table) < len(whole):
        run.note(f"{len(table):,} of {len(whole):,} rows")
    from overlapscope.export.tables import csv_texts, write_parquet

    arrow = table.to_arrow()
    if how.format is TableFormat.CSV:
        deliver("".join(csv_texts(arrow)), how.output)
    elif how.output is not None:
        from overlapscope.atomic_files import writing

        with writing(how.output) as file:
            write_parquet(arrow, file)


def _write_text(trace: Trace, table: Any, total: int, kind: TableKind, how: TableOutput, run: Run) -> None:
    from overlapscope.document.nodes import Node, Paragraph, Tone
    from overlapscope.document.text import show
    from overlapscope.model.columns import public_name
    from overlapscope.report.tables import text_table

    title = kind.title if len(table) == total else f"{kind.title}: {len(table):,} of {total:,} (--top shows more)"
    other = [public_name(spec) for spec in table.columns() if public_name(spec) not in kind.columns]
    parts: list[Node] = [text_table(title, table, kind.columns, trace.start_ns, kind.called)]
    if not len(table):
        parts = [Paragraph(f"{kind.title}: none")]
    elif other and not run.quiet:
        parts.append(Paragraph(f"more columns with --format csv: {', '.join(other)}", Tone.NOTE))
    render_to(how.output, lambda console: show(parts, console))


for _name, _kind in {"copies": _COPIES, "gaps": _GAPS, "findings": _FINDINGS, "ranges": _RANGES}.items():
    _declare(_name, _kind)
