"""``overlapscope audit``: measure the overlap of copies in traces, and diagnose what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.options import Format, Output, Selection
from overlapscope.cli.output import ExitCode, check_figure, deliver, deliver_json, refuse_to_replace, render_to, say
from overlapscope.errors import OutputError
from overlapscope.formatting import counted, encodable

if TYPE_CHECKING:
    from rich.console import Console

    from overlapscope.diagnosis.finding import Diagnosis
    from overlapscope.report.data import Audit


def _severities() -> list[str]:
    """The severities that fail an audit, the most severe first; a finding that only informs fails nothing."""
    from overlapscope.diagnosis.finding import Severity

    return [severity.value for severity in Severity if severity is not Severity.INFO]


@dataclass(frozen=True)
class FailOn:
    """A severity, or a share of the window for which a GPU was idle because of findings."""

    severity: str | None = None
    share: float | None = None

    def met_by(self, diagnosis: Diagnosis) -> bool:
        """Whether a finding is at least this severe, or findings explain at least this much idle time of one GPU."""
        if self.share is not None:
            return max(_idle_shares(diagnosis), default=0.0) >= self.share
        severities = _severities()
        severe = severities[: severities.index(self.severity or severities[0]) + 1]
        return any(str(finding.severity) in severe for finding in diagnosis.findings)


def parse_fail_on(text: str) -> FailOn:
    """Read a severity or a percentage.

    >>> parse_fail_on("high").severity, parse_fail_on("5 %").share
    ('high', 0.05)
    """
    if text.lower() in _severities():
        return FailOn(severity=text.lower())
    number = text.removesuffix("%").strip()
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not text.endswith("%") or not 0 < share <= 1:
        raise typer.BadParameter(f"{text!r} is neither {', '.join(_severities())} nor a percentage such as 5%")
    return FailOn(share=share)


def complete_fail_on(begun: str) -> list[str]:
    """Severities that begin like this, for shell completion."""
    return [name for name in _severities() if name.startswith(begun)]


def _idle_shares(diagnosis: Diagnosis) -> list[float]:
    """For each GPU, the share of the window in which it was idle for a reason that is a finding."""
    shares, severities = [], _severities()
    for device in diagnosis.devices:
        findings = [finding for finding in diagnosis.findings if diagnosis.device_of(finding) is device]
        idle_ns = sum(finding.idle_ns for finding in findings if str(finding.severity) in severities)
        shares.append(idle_ns / device.span_ns if device.span_ns else 0.0)
    return shares


@dataclass
class _Results:
    """The audits of the traces, and the errors of those that cannot be used.

    ``left_out`` has for each audit the number of findings that ``--top`` leaves out; ``met`` is whether one of them has
    what ``--fail-on`` names.
    """

    audits: list[Audit] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    met: bool = False


@command("audit")
def audit_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Kineto JSON or Nsight Systems SQLite.")],
    part: Selection = Selection(),
    output_format: Annotated[
        Format, typer.Option("--format", help="text, json, markdown, or csv: the findings, one per row.")
    ] = Format.TEXT,
    figure: Annotated[Path | None, typer.Option(help="Write the timeline here: .png, .svg or .pdf.")] = None,
    output: Output = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only so many findings and expensive copies, the first of each.")
    ] = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            metavar="SEVERITY|SHARE",
            parser=parse_fail_on,
            autocompletion=complete_fail_on,
            help="Exit with status 3 where a finding is at least this severe (hazard, high, medium, low), or where "
            "findings explain GPU idle time of at least this share of the window, such as 5%.",
        ),
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Print the tables too: GPUs, copies, blocking calls.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Print all: every finding and step of the plan, and the tables.")
    ] = False,
    per_rank: Annotated[
        bool, typer.Option("--per-rank", help="Print each of several traces by itself, not one answer about all.")
    ] = False,
    run: Run = Run(),
) -> ExitCode:
    """Measure how well copies overlap kernels, and diagnose why the GPU was idle.

    Exit status: 0 when all traces were read completely, 1 when some data was lost or some traces could not be used, 2
    when there is no result, 3 when --fail-on found what it names.
    """
    if figure is not None and len(paths) != 1:
        raise OutputError("--figure draws one trace: give a single PATH with it")
    check_figure(figure)
    for path in paths:
        refuse_to_replace(path, output, figure)
    results = _Results()
    for path in paths:
        with run.surviving(path, results.failures):
            _audit_one(path, part, results, top, fail_on, run)
    if output_format is Format.TEXT and (per_rank or len(results.audits) <= 1):
        detail = _Detail(part.words, tables=tables, every=every)
        render_to(output, lambda console: _render(results, console, detail))
    else:
        _write(results, output_format, output)
    _note_what_is_missing(results, run, printed=output_format is Format.TEXT and output is None)
    if figure is not None and results.audits:
        _draw(results.audits[0], figure)
    return _status(results)


def _audit_one(
    path: Path, part: Selection, results: _Results, top: int | None, fail_on: FailOn | None, run: Run
) -> None:
    """Audit one trace, and add the audit to the results."""
    from overlapscope.analysis.analysis import analyse
    from overlapscope.analysis.config import Config
    from overlapscope.report.content import audit

    config = None if top is None else Config(costly_copies=top)
    with run.opened(path) as (trace, progress):
        result = audit(analyse(part.analyse(trace, progress.begin), config=config))
    results.met |= fail_on is not None and fail_on.met_by(result.conclusion)
    results.left_out.append(0 if top is None else max(len(result.conclusion.findings) - top, 0))
    results.audits.append(result.of_first(top))


def _status(results: _Results) -> ExitCode:
    usable = [result for result in results.audits if result.devices]
    if not usable:
        return ExitCode.UNUSABLE
    if results.met:
        return ExitCode.FOUND
    lost = len(usable) < len(results.audits) or any(result.trace.health.damaged for result in usable)
    return ExitCode.PARTIAL if lost or results.failures else ExitCode.CLEAN


@dataclass(frozen=True)
class _Detail:
    """The options that select the window, as they are typed, and how much is printed of an audit."""

    selection: str
    tables: bool
    every: bool


def _write(results: _Results, form: Format, output: Path | None) -> None:
    """Write the audits as data, as Markdown, or as one text about several ranks."""
    if form is Format.TEXT:
        from overlapscope.fleet.document import summary
        from overlapscope.fleet.job import job_of_audits

        text = summary(job_of_audits(results.audits), "with overlapscope fleet -o FOLDER, ")
        deliver(f"{text}\n--per-rank prints each trace by itself.\n", output)
    elif form is Format.JSON:
        from overlapscope.report.data import SCHEMA

        document: dict[str, Any] = {"schema": SCHEMA, "traces": [entry.to_dict() for entry in results.audits]}
        deliver_json(document | ({"errors": results.failures} if results.failures else {}), output)
    elif form is Format.MARKDOWN:
        from overlapscope.document.markdown import markdown_of
        from overlapscope.report.document import audit_document

        deliver("\n".join(markdown_of(audit_document(each)) for each in results.audits), output)
    else:
        deliver("".join(_csv(results.audits)), output)


def _note_what_is_missing(results: _Results, run: Run, *, printed: bool) -> None:
    """Say which traces have no GPU work, and how many findings ``--top`` leaves out, unless the text says so."""
    usable = any(result.devices for result in results.audits)
    for result, count in zip(results.audits, results.left_out, strict=True):
        if not result.devices and not printed:
            say(f"{result.trace.metadata.path}: {result.verdict}", quiet=run.quiet and usable)
        if count:
            run.note(f"{result.trace.metadata.path}: {counted(count, 'more finding')} left out by --top")


def _csv(audits: list[Audit]) -> Iterator[str]:
    """The findings of all traces, with the path of each."""
    import pyarrow as pa

    from overlapscope.analysis.tables import rows_of
    from overlapscope.export.tables import csv_texts

    for number, result in enumerate(audits):
        table = rows_of(result.diagnosis.findings).to_arrow()
        path = encodable(result.trace.metadata.path)
        names, *rows = csv_texts(table.add_column(0, "path", pa.array([path] * len(table), "str")))
        yield from rows if number else (names, *rows)


def _render(results: _Results, console: Console, detail: _Detail) -> None:
    from overlapscope.document.text import show
    from overlapscope.report.document import audit_document
    from overlapscope.report.screen import first_screen

    for number, result in enumerate(results.audits):
        if number:
            console.rule(style="dim")
        if detail.every:
            show(audit_document(result), console)
            continue
        show(first_screen(result, console.width, detail.selection), console, ends_empty=detail.tables)
        if detail.tables:
            show(audit_document(result).having(["figures"]).parts, console)


def _draw(result: Audit, figure: Path) -> None:
    from overlapscope.plot.timeline import save_timeline

    save_timeline(result.analysis, figure)
