"""``overlapscope audit``: measure the overlap of copies in traces, and diagnose what is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from overlapscope.cli.messages import ExitCode, complain, say
from overlapscope.errors import OutputError, OverlapscopeError
from overlapscope.formatting import safe
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit
from overlapscope.report.data import SCHEMA, Audit


class Format(StrEnum):
    """Output format of a result."""

    TEXT = "text"
    JSON = "json"


def audit_command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Kineto JSON or Nsight Systems SQLite.")],
    within: Annotated[
        str | None, typer.Option("--within", "--range", help="Only the ranges of this name (* and ? match).")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="text or json.")] = Format.TEXT,
    figure: Annotated[Path | None, typer.Option(help="Write the timeline here: .png, .svg or .pdf.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the result here instead of printing it.")] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
) -> None:
    """Measure how well copies overlap kernels, and diagnose why the GPU was idle.

    Exit status: 0 when all traces were read completely, 1 when some data was lost or some traces could not be used, 2
    when there is no result.
    """
    audits: list[Audit] = []
    failures: list[dict[str, str]] = []
    try:
        if figure is not None:
            _check_figure(figure, paths)
        for path in paths:
            _try_one(path, within, audits, failures, debug=debug)
        _write(audits, failures, output_format, output)
        if figure is not None and audits:
            _draw(audits[0], figure)
    except OverlapscopeError as error:
        complain(error, debug=debug)
        raise typer.Exit(ExitCode.UNUSABLE) from error
    raise typer.Exit(_status(audits, failures))


def _check_figure(figure: Path, paths: list[Path]) -> None:
    """Raise before anything is read where the figure cannot be drawn."""
    from overlapscope.plot.files import check_suffix

    if len(paths) != 1:
        raise OutputError("--figure draws one trace: give a single PATH with it")
    check_suffix(figure)


def _try_one(
    path: Path, within: str | None, audits: list[Audit], failures: list[dict[str, str]], *, debug: bool
) -> None:
    """Audit one trace; an unusable trace is reported and does not stop the others."""
    try:
        result = _audit_one(path, within)
    except OverlapscopeError as error:
        complain(error, debug=debug)
        failures.append({"path": str(path), "code": error.code, "message": str(error)})
        return
    audits.append(result)
    if not result.devices:
        advice = " Profile with the CUDA activity." if result.trace.health.has("no-device-work") else ""
        say(f"{path}: {result.verdict}{advice}")


def _audit_one(path: Path, within: str | None) -> Audit:
    with _progress(path) as progress:
        trace = open_trace(path, progress=progress)
    return audit(trace, within)


def _status(audits: list[Audit], failures: list[dict[str, str]]) -> ExitCode:
    usable = [result for result in audits if result.devices]
    if not usable:
        return ExitCode.UNUSABLE
    damaged = failures or len(usable) < len(audits) or any(result.trace.health.damaged for result in usable)
    return ExitCode.PARTIAL if damaged else ExitCode.CLEAN


def _write(audits: list[Audit], failures: list[dict[str, str]], form: Format, output: Path | None) -> None:
    if form is Format.JSON:
        result: dict[str, Any] = {"schema": SCHEMA, "traces": [entry.to_dict() for entry in audits]}
        if failures:
            result["errors"] = failures
        text = json.dumps(result, indent=1, allow_nan=False) + "\n"
        _deliver(text, output)
    elif output is None:
        from rich.console import Console

        _render_all(audits, Console(highlight=False))
    else:
        from io import StringIO

        from rich.console import Console

        buffer = StringIO()
        _render_all(audits, Console(file=buffer, width=140, highlight=False))
        _deliver(buffer.getvalue(), output)


def _render_all(audits: list[Audit], console: Any) -> None:
    from overlapscope.report.terminal import render

    for number, result in enumerate(audits):
        if number:
            console.rule(style="dim")
        render(result, console)


def _deliver(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{output}: cannot be written ({error.strerror or error})") from error


def _draw(result: Audit, figure: Path) -> None:
    from overlapscope.plot.timeline import save_timeline

    window = result.window
    save_timeline(result.trace, figure, (window.first_ns, window.last_ns) if window.name is not None else None)


@contextmanager
def _progress(path: Path) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on a terminal while a trace is read."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(safe(path.name, 40), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
