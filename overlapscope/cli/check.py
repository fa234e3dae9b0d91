"""``overlapscope check``: compare a trace with limits, and end with an exit status of its own where one is broken."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.options import Output, TracePath
from overlapscope.cli.output import ExitCode, deliver, deliver_json, refuse_to_replace, render_to
from overlapscope.errors import BudgetNotUnderstood

if TYPE_CHECKING:
    from overlapscope.budget.baseline import Baseline
    from overlapscope.budget.limits import Budget
    from overlapscope.budget.result import CheckResult


CheckFormat = StrEnum("CheckFormat", ["TEXT", "JSON", "JUNIT", "MARKDOWN"])
"""Output format of a check."""


@dataclass(frozen=True)
class _Limits:
    """The limits to check a trace against, as the options have them; the figures may become the baseline."""

    config: Annotated[
        Path | None,
        typer.Option(
            help="Limits: the table tool.overlapscope.check of a pyproject.toml, or check of another TOML file. "
            "Without it, of overlapscope.toml or pyproject.toml in this folder."
        ),
    ] = None
    baseline: Annotated[Path | None, typer.Option(help="Also compare with the figures in this file.")] = None
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the figures of this trace to the file of --baseline.")
    ] = False

    def __post_init__(self) -> None:
        """Raise a usage error where there is no file to write the figures to."""
        if self.update_baseline and self.baseline is None:
            raise typer.BadParameter("--update-baseline needs --baseline FILE")

    def refuse_to_replace(self, path: Path, *results: Path | None) -> None:
        """Raise `OutputError` where a result would overwrite a file that is read."""
        from overlapscope.budget.configuration import CONFIGURATIONS

        written = (*results, self.baseline) if self.update_baseline else results
        refuse_to_replace(path, *written)
        for limits in map(Path, CONFIGURATIONS) if self.config is None else (self.config,):
            refuse_to_replace(limits, *written, what="the configuration")
        if self.baseline is not None:
            refuse_to_replace(self.baseline, *results, what="the baseline")

    def budget(self) -> Budget:
        """The limits of a file, or of the first one in this folder that has some; none where a baseline is enough."""
        from overlapscope.budget.configuration import CONFIGURATIONS, budget_of_folder, read_budget
        from overlapscope.budget.limits import Budget

        has_baseline = self.baseline is not None
        if self.config is not None:
            return read_budget(self.config, has_baseline=has_baseline)
        budget = budget_of_folder(Path(), has_baseline=has_baseline)
        if budget is None and not has_baseline:
            names = " or ".join(CONFIGURATIONS)
            raise BudgetNotUnderstood(f"no limits: there are none in {names} here; name a --config")
        return budget or Budget()

    def stored(self) -> Baseline | None:
        """The baseline to compare with, if any."""
        if self.baseline is None or self.update_baseline:
            return None
        if not self.baseline.exists():
            raise BudgetNotUnderstood(f"{self.baseline}: no such baseline; --update-baseline writes it")
        from overlapscope.budget.baseline import read_baseline

        return read_baseline(self.baseline)


@command("check")
def check_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    path: TracePath,
    limits: _Limits = _Limits(),
    output_format: Annotated[
        CheckFormat, typer.Option("--format", help="Of the result: for people, for programs, or a table for comments.")
    ] = CheckFormat.TEXT,
    output: Output = None,
    junit: Annotated[Path | None, typer.Option(help="Write the result as JUnit XML here too.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write the result as Markdown here too.")] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Print each broken limit as an annotation of GitHub Actions too.")
    ] = False,
    run: Run = Run(),
) -> ExitCode:
    """Check a trace against limits that follow from the structure of the program, not from its wall time.

    Exit status: 0 when all limits are kept, 1 when they are and some data of the trace was lost, 2 when there is no
    result, as with an error in the configuration, 3 when a limit is broken or cannot be measured.
    """
    if annotations and output is None and output_format is not CheckFormat.TEXT:
        raise typer.BadParameter("--annotations go to standard output: name a file for the result with --output")
    limits.refuse_to_replace(path, output, junit, summary)
    result = _checked(path, limits, run)
    for form, target in ((CheckFormat.JUNIT, junit), (CheckFormat.MARKDOWN, summary)):
        if target is not None:
            _write(result, form, target)
    _write(result, output_format, output)
    if annotations:
        _annotate(result)
    return _status(result)


def _checked(path: Path, limits: _Limits, run: Run) -> CheckResult:
    from overlapscope.analysis.analysis import analyse
    from overlapscope.budget.baseline import write_baseline
    from overlapscope.budget.check import baseline_of, check

    budget, stored = limits.budget(), limits.stored()
    with run.opened(path) as (trace, progress):
        progress.begin("checking")
        analysis = analyse(trace)
        result = check(analysis, budget, stored)
        if limits.update_baseline and limits.baseline is not None:
            write_baseline(baseline_of(analysis, budget), limits.baseline)
            run.note(f"{limits.baseline}: has the figures of this trace now")
    return result


def _write(result: CheckResult, form: CheckFormat, output: Path | None) -> None:
    if form is CheckFormat.JSON:
        deliver_json(result.to_dict(), output)
    elif form is CheckFormat.TEXT:
        from overlapscope.budget.outputs import check_parts
        from overlapscope.document.text import show_lines

        render_to(output, lambda console: show_lines(check_parts(result), console))
    else:
        from overlapscope.budget.outputs import junit_of, markdown_of

        deliver({CheckFormat.JUNIT: junit_of, CheckFormat.MARKDOWN: markdown_of}[form](result), output)


def _annotate(result: CheckResult) -> None:
    from overlapscope.budget.outputs import annotations_of

    lines = annotations_of(result, os.environ.get("GITHUB_WORKSPACE", ""))
    deliver("".join(f"{line}\n" for line in lines), None)


def _status(result: CheckResult) -> ExitCode:
    if not result.passed:
        return ExitCode.FOUND
    return ExitCode.PARTIAL if result.trace.health.damaged else ExitCode.CLEAN
