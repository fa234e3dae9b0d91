"""``overlapscope check``: compare a trace with limits, and end with an exit status of its own where one is broken."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.messages import ExitCode, complaining, refuse_to_replace, say
from overlapscope.cli.options import Cache, Debug, Output, Quiet, TracePath
from overlapscope.cli.output import deliver, deliver_json, print_lines, render_to
from overlapscope.cli.progress import phases
from overlapscope.errors import BudgetNotUnderstood

if TYPE_CHECKING:
    from overlapscope.budget.baseline import Baseline
    from overlapscope.budget.limits import Budget
    from overlapscope.budget.result import CheckResult
    from overlapscope.model.trace import Trace


class CheckFormat(StrEnum):
    """Output format of a check."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "markdown"


@dataclass(frozen=True)
class _Asked:
    """What a trace is checked against, and whether its figures become the baseline."""

    budget: Budget
    baseline: Path | None
    update: bool

    def stored(self) -> Baseline | None:
        """The baseline to compare with, if any."""
        if self.baseline is None or self.update:
            return None
        if not self.baseline.exists():
            raise BudgetNotUnderstood(f"{self.baseline}: no such baseline; --update-baseline writes it")
        from overlapscope.budget.files import read_baseline

        return read_baseline(self.baseline)


def check_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    path: TracePath,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Limits: the table tool.overlapscope.check of a pyproject.toml, or check of another TOML file. "
            "Without it, of overlapscope.toml or pyproject.toml in this folder."
        ),
    ] = None,
    baseline: Annotated[Path | None, typer.Option(help="Also compare with the figures in this file.")] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the figures of this trace to the file of --baseline.")
    ] = False,
    output_format: Annotated[
        CheckFormat, typer.Option("--format", help="Of the result: for people, for programs, or a table for comments.")
    ] = CheckFormat.TEXT,
    output: Output = None,
    junit: Annotated[Path | None, typer.Option(help="Write the result as JUnit XML here too.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write the result as Markdown here too.")] = None,
    annotations: Annotated[
        bool, typer.Option("--annotations", help="Print each broken limit as an annotation of GitHub Actions too.")
    ] = False,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Check a trace against limits that follow from the structure of the program, not from its wall time.

    Exit status: 0 when all limits are kept, 1 when they are and some data of the trace was lost, 2 when there is no
    result, as with an error in the configuration, 3 when a limit is broken or cannot be measured.
    """
    if update_baseline and baseline is None:
        raise typer.BadParameter("--update-baseline needs --baseline FILE")
    if annotations and output is None and output_format is not CheckFormat.TEXT:
        raise typer.BadParameter("--annotations go to standard output: name a file for the result with --output")
    with complaining(debug=debug):
        _refuse_to_replace(path, config, baseline, (output, junit, summary), update=update_baseline)
        asked = _Asked(_budget(config, has_baseline=baseline is not None), baseline, update_baseline)
        result = _checked(path, asked, cache=cache, quiet=quiet)
        _write_also(result, junit, summary)
        _write(result, output_format, output)
        if annotations:
            _annotate(result)
    raise typer.Exit(_status(result))


def _refuse_to_replace(
    path: Path, config: Path | None, baseline: Path | None, results: tuple[Path | None, ...], *, update: bool
) -> None:
    """Raise `OutputError` where a result would overwrite something that is read."""
    from overlapscope.budget.files import CONFIGURATIONS

    written = (*results, baseline) if update else results
    refuse_to_replace(path, *written)
    for limits in map(Path, CONFIGURATIONS) if config is None else (config,):
        refuse_to_replace(limits, *written, what="the configuration")
    if baseline is not None:
        refuse_to_replace(baseline, *results, what="the baseline")


def _budget(config: Path | None, *, has_baseline: bool) -> Budget:
    """The limits of a file, or of the first one in this folder that has some; none where a baseline is enough."""
    from overlapscope.budget.files import CONFIGURATIONS, found_budget, read_budget
    from overlapscope.budget.limits import Budget

    if config is not None:
        return read_budget(config, has_baseline=has_baseline)
    found = found_budget(Path(), has_baseline=has_baseline)
    if found is None and not has_baseline:
        raise BudgetNotUnderstood(f"no limits: there are none in {' or '.join(CONFIGURATIONS)} here; name a --config")
    return found or Budget()


def _checked(path: Path, asked: _Asked, *, cache: bool, quiet: bool) -> CheckResult:
    from overlapscope.budget.check import check
    from overlapscope.read.opening import open_trace

    before = asked.stored()
    with phases(path, quiet=quiet) as progress:
        progress.begin("reading")
        trace = open_trace(path, progress=progress.read, cache=cache)
        progress.begin("checking")
        result = check(trace, asked.budget, before)
        if asked.update and asked.baseline is not None:
            _update(trace, asked.budget, asked.baseline, quiet=quiet)
    return result


def _update(trace: Trace, budget: Budget, target: Path, *, quiet: bool) -> None:
    from overlapscope.budget.check import baseline_of
    from overlapscope.budget.files import write_baseline

    write_baseline(baseline_of(trace, budget), target)
    say(f"{target}: has the figures of this trace now", quiet=quiet)


def _write(result: CheckResult, form: CheckFormat, output: Path | None) -> None:
    if form is CheckFormat.JSON:
        deliver_json(result.to_dict(), output)
    elif form is CheckFormat.TEXT:
        from overlapscope.budget.text import lines_of

        render_to(output, lambda console: print_lines(lines_of(result), console))
    else:
        from overlapscope.budget.junit import junit_of
        from overlapscope.budget.markdown import markdown_of

        deliver({CheckFormat.JUNIT: junit_of, CheckFormat.MARKDOWN: markdown_of}[form](result), output)


def _write_also(result: CheckResult, junit: Path | None, summary: Path | None) -> None:
    for form, target in ((CheckFormat.JUNIT, junit), (CheckFormat.MARKDOWN, summary)):
        if target is not None:
            _write(result, form, target)


def _annotate(result: CheckResult) -> None:
    from overlapscope.budget.annotations import annotations_of

    lines = annotations_of(result, os.environ.get("GITHUB_WORKSPACE", ""))
    deliver("".join(f"{line}\n" for line in lines), None)


def _status(result: CheckResult) -> ExitCode:
    if not result.passed:
        return ExitCode.FOUND
    return ExitCode.PARTIAL if result.trace.health.damaged else ExitCode.CLEAN
