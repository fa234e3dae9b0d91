"""``overlapscope audit``: measure the overlap of copies in traces, and diagnose what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.fail_on import FailOn, complete_fail_on, parse_fail_on
from overlapscope.cli.messages import ExitCode, complain, complaining, refuse_to_replace, say
from overlapscope.cli.options import Cache, Debug, DeviceNumber, Format, From, Output, Quiet, Step, To, Within
from overlapscope.cli.output import deliver, deliver_json, render_to
from overlapscope.cli.progress import phases
from overlapscope.cli.selection import Selection
from overlapscope.errors import OutputError, OverlapscopeError
from overlapscope.formatting import counted, encodable

if TYPE_CHECKING:
    from rich.console import Console

    from overlapscope.report.data import Audit


@dataclass
class _Results:
    """What became of the traces.

    ``left_out`` has for each audit the number of findings that ``--top`` leaves out; ``met`` is whether one of them has
    what ``--fail-on`` names.
    """

    audits: list[Audit] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    met: bool = False


def audit_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Kineto JSON or Nsight Systems SQLite.")],
    within: Within = None,
    step: Step = None,
    from_ms: From = None,
    to_ms: To = None,
    device: DeviceNumber = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="text, json, or csv: the findings, one per row.")
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
    per_rank: Annotated[
        bool, typer.Option("--per-rank", help="Print each of several traces by itself, not one answer about all.")
    ] = False,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure how well copies overlap kernels, and diagnose why the GPU was idle.

    Exit status: 0 when all traces were read completely, 1 when some data was lost or some traces could not be used, 2
    when there is no result, 3 when --fail-on found what it names.
    """
    selection, results = Selection(within, step, from_ms, to_ms, device), _Results()
    with complaining(debug=debug):
        if figure is not None:
            _check_figure(figure, paths)
        for path in paths:
            refuse_to_replace(path, output, figure)
        for path in paths:
            try:
                _audit_one(path, selection, results, top, fail_on, cache=cache, quiet=quiet)
            except OverlapscopeError as error:
                complain(error, debug=debug)
                results.failures.append({"path": str(path), "code": error.code, "message": str(error)})
        _write(results, output_format, output, per_rank=per_rank, quiet=quiet)
        if figure is not None and results.audits:
            _draw(results.audits[0], figure, selection)
    raise typer.Exit(_status(results))


def _check_figure(figure: Path, paths: list[Path]) -> None:
    """Raise before anything is read where the figure cannot be drawn."""
    from overlapscope.plot.files import check_suffix

    if len(paths) != 1:
        raise OutputError("--figure draws one trace: give a single PATH with it")
    check_suffix(figure)


def _audit_one(  # noqa: PLR0913 - what the options say
    path: Path,
    selection: Selection,
    results: _Results,
    top: int | None,
    fail_on: FailOn | None,
    *,
    cache: bool,
    quiet: bool,
) -> None:
    """Audit one trace; one that cannot be used does not stop the others."""
    from overlapscope.read.opening import open_trace
    from overlapscope.report.content import AuditConfig, audit

    with phases(path, quiet=quiet) as progress:
        progress.begin("reading")
        trace = open_trace(path, progress=progress.read, cache=cache)
        config = AuditConfig() if top is None else AuditConfig(costly_copies=top)
        found = audit(trace, selection.window(trace), config, progress.begin)
    findings = found.diagnosis.findings
    results.met |= fail_on is not None and fail_on.met_by(found.diagnosis)
    results.left_out.append(0 if top is None else max(len(findings) - top, 0))
    results.audits.append(replace(found, diagnosis=replace(found.diagnosis, findings=findings[:top])))


def _status(results: _Results) -> ExitCode:
    usable = [result for result in results.audits if result.devices]
    if not usable:
        return ExitCode.UNUSABLE
    if results.met:
        return ExitCode.FOUND
    lost = len(usable) < len(results.audits) or any(result.trace.health.damaged for result in usable)
    return ExitCode.PARTIAL if lost or results.failures else ExitCode.CLEAN


def _write(results: _Results, form: Format, output: Path | None, *, per_rank: bool, quiet: bool) -> None:
    if form is Format.TEXT and len(results.audits) > 1 and not per_rank:
        from overlapscope.fleet.audits import job_of_audits
        from overlapscope.fleet.summary import summary

        text = summary(job_of_audits(results.audits), "with overlapscope fleet -o FOLDER, ")
        deliver(f"{text}\n--per-rank prints each trace by itself.\n", output)
        return
    if form is Format.TEXT:
        render_to(output, lambda console: _render(results, console, quiet=quiet))
    elif form is Format.JSON:
        from overlapscope.report.data import SCHEMA

        result: dict[str, Any] = {"schema": SCHEMA, "traces": [entry.to_dict() for entry in results.audits]}
        deliver_json(result | ({"errors": results.failures} if results.failures else {}), output)
    else:
        deliver("".join(_csv(results.audits)), output)
    is_text, usable = form is Format.TEXT, any(found.devices for found in results.audits)
    for found, count in zip(results.audits, results.left_out, strict=True):
        if not found.devices and not (is_text and output is None):
            say(f"{found.trace.metadata.path}: {found.verdict}", quiet=quiet and usable)
        if count and not is_text:
            say(f"{found.trace.metadata.path}: {_left_out(count)}", quiet=quiet)


def _csv(audits: list[Audit]) -> Iterator[str]:
    """The findings of all traces, with the path of each."""
    import pyarrow as pa

    from overlapscope.export.columns import csv_texts
    from overlapscope.report.finding_table import finding_table

    for number, found in enumerate(audits):
        table = finding_table(found.diagnosis).to_arrow()
        path = encodable(found.trace.metadata.path)
        names, *rows = csv_texts(table.add_column(0, "path", pa.array([path] * len(table), "str")))
        yield from rows if number else (names, *rows)


def _render(results: _Results, console: Console, *, quiet: bool) -> None:
    from overlapscope.report.terminal import render

    for number, (found, left_out) in enumerate(zip(results.audits, results.left_out, strict=True)):
        if number:
            console.rule(style="dim")
        render(found, console)
        if left_out and not quiet:
            console.print(_left_out(left_out), style="dim")


def _left_out(count: int) -> str:
    return f"{counted(count, 'more finding')} left out by --top"


def _draw(result: Audit, figure: Path, selection: Selection) -> None:
    from overlapscope.plot.timeline import save_timeline

    window, part = result.window, replace(selection, device=None) != Selection()
    save_timeline(result.trace, figure, window if part else None, idle=result.diagnosis.devices)
