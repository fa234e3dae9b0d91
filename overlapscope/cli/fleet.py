"""``overlapscope fleet``: many traces, the late ranks and their causes."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.command import COMMANDS, Listing, Run, command
from overlapscope.cli.output import ExitCode, deliver, refuse_to_replace, say
from overlapscope.errors import OutputError
from overlapscope.formatting import counted, size

if TYPE_CHECKING:
    from overlapscope.fleet.executors import Executor
    from overlapscope.fleet.job import Job
    from overlapscope.fleet.sources import Source
    from overlapscope.fleet.store import Outcome


class _MapsByDefault(Listing):
    """``fleet TRACES`` means ``fleet map TRACES``, and ``fleet --help`` shows what that takes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["map", *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shown, mapping = copy(self), self.commands["map"]
        shown.params, shown.help, shown.subcommand_metavar = mapping.params, mapping.help, "| reduce FOLDER"
        Listing.format_help(shown, ctx, formatter)


app = typer.Typer(cls=_MapsByDefault, no_args_is_help=True, help="Many traces: which ranks are late, and why.")

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BAR_WIDTH = 16
_KEEP, _REDUCE = "with -o FOLDER, ", "after overlapscope fleet reduce, "
"""What to do first where no folder keeps the tables, and where shards still write to it."""


@dataclass(frozen=True)
class Beside:
    """The files that a command writes beside the summary: a page, and reports of ranks."""

    page: Annotated[Path | None, typer.Option(help="Write one HTML page about the job here.")] = None
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="RANK|late", help="Write the report of this rank, or of four late ones, too."),
    ] = None

    def __post_init__(self) -> None:
        """Raise a usage error where ``--report`` names neither a rank nor the late ones."""
        for text in self.report or ():
            if text != "late" and not text.isdecimal():
                raise typer.BadParameter(f"{text!r} is neither a rank's number nor late", param_hint="--report")


@command("fleet map", without=("cache",))
def map_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    names: Annotated[
        list[str], typer.Argument(metavar="TRACES...", help="Folders, files, patterns (*, **) and URLs (s3://, gs://).")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Keep results and tables in this folder; a second run does what is new."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-j", min=1, help="Worker processes; each has one trace in memory.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS|FILE", help="Run on this Dask cluster instead: tcp://…, or a file.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Only this part of the traces, 1/N to N/N; then fleet reduce."),
    ] = None,
    beside: Beside = Beside(),
    run: Run = Run(),
) -> ExitCode:
    """Map each trace to its figures and findings, and say which ranks are late, and why.

    A trace that cannot be used is a row with its error. With -o, a run that was ended or found no room goes on where it
    stopped when it is run again. Each job of a job array runs one --shard; `overlapscope fleet reduce` comes last.

    Exit status: 0 when all traces were read completely, 1 when some data was lost, some traces could not be used or a
    report that was asked for has no trace, 2 when there is no result.
    """
    from overlapscope.fleet.executors import map_traces
    from overlapscope.fleet.sources import find_sources

    with _folder(output, shard) as folder:
        if beside.report and beside.page is None and output is None:
            raise OutputError("--report needs a place for the reports: give --page, or a folder with -o")
        number, of = _shard(shard)
        if of > 1 and (beside.page or beside.report):
            raise OutputError("--shard writes no page and no reports: ask overlapscope fleet reduce for them")
        sources = find_sources(names)
        for source in sources:
            refuse_to_replace(Path(source.name), beside.page)
        with _tally(sources[number - 1 :: of], quiet=run.quiet) as progress:
            done = map_traces(sources, folder, _executor(workers, scheduler), (number, of), progress)
        if of == 1:
            return _reduced(folder, beside, run, kept=output is not None)
        from overlapscope.fleet.sentences import bad_traces
        from overlapscope.fleet.tables import trace_rows

        run.note(f"shard {number} of {of}: {counted(len(done), 'trace')} done")
        bad = list(bad_traces(trace_rows(folder, done), _REDUCE))
        for line in bad:
            say(line)
        return ExitCode.PARTIAL if bad else ExitCode.CLEAN


@command("fleet reduce", without=("cache",))
def reduce_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that the shards wrote.")],
    beside: Beside = Beside(),
    run: Run = Run(),
) -> ExitCode:
    """Make the tables and the summary of the results of all shards.

    Exit status: as that of `overlapscope fleet`.
    """
    with _going_on():
        return _reduced(folder, beside, run)


for _name in ("map", "reduce"):
    app.command(_name, hidden=_name == "map")(COMMANDS[f"fleet {_name}"])


def _reduced(folder: Path, beside: Beside, run: Run, *, kept: bool = True) -> ExitCode:
    """Reduce, with the page and the reports beside it, or beside the tables where there is no page.

    What is said of tables depends on whether they are ``kept``.
    """
    from overlapscope.fleet.document import summaries
    from overlapscope.fleet.reduce import reduce_folder

    jobs, page, first = reduce_folder(folder), beside.page, "" if kept else _KEEP
    lacking, left_out = list[str](), list[str]()
    for member in (each for job in jobs for each in job.members):
        refuse_to_replace(Path(member.source), page)
    if page or beside.report:
        from overlapscope.html.fleet_page import save_fleet_page, write_reports

        target = page.with_name(f"{page.stem}-reports") if page else folder / "reports"
        paths, lacking, left_out = write_reports(jobs, beside.report or (), target)
        if page:
            save_fleet_page(jobs, folder, page, paths, first)
    deliver(summaries(jobs, first), None)
    for line in lacking:
        say(line)
    for line in left_out:
        run.note(line)
    return max(_status(jobs), ExitCode.PARTIAL if lacking else ExitCode.CLEAN)


def _status(jobs: Sequence[Job]) -> ExitCode:
    """The exit status by the worst trace, and by whether any could be used."""
    status = {each for job in jobs for each in job.traces["status"]}
    if status <= {"failed"}:
        return ExitCode.UNUSABLE
    return ExitCode.CLEAN if status == {"complete"} else ExitCode.PARTIAL


@contextmanager
def _folder(output: Path | None, shard: str | None) -> Iterator[Path]:
    """The folder of the results, or one that is gone afterwards."""
    if output is not None:
        with _going_on():
            yield output
        return
    if shard is not None:
        raise OutputError("--shard needs the folder that all shards write to: give it with -o")
    with tempfile.TemporaryDirectory(prefix="overlapscope-fleet-") as folder:
        yield Path(folder)


@contextmanager
def _going_on() -> Iterator[None]:
    """Say of a disk without room that nothing of the run is lost."""
    try:
        yield
    except OutputError as error:
        if getattr(error.__cause__, "errno", None) not in _NO_ROOM:
            raise
        raise OutputError(f"{error}; make room and run it again: it goes on where it stopped") from error


def _shard(text: str | None) -> tuple[int, int]:
    """The number of a shard and of all shards, from a text such as 3/8; 1 of 1 without a text."""
    parts = re.fullmatch(r"(\d+)/(\d+)", "1/1" if text is None else text)
    if not parts or not 1 <= int(parts[1]) <= int(parts[2]):
        rule = "give its number and how many there are, such as 1/8 for the first"
        raise typer.BadParameter(f"{text!r} is no shard: {rule}", param_hint="--shard")
    return int(parts[1]), int(parts[2])


def _executor(workers: int | None, scheduler: str | None) -> Executor:
    from overlapscope.fleet.executors import DaskCluster, Processes

    return Processes(workers or os.cpu_count() or 1) if scheduler is None else DaskCluster(scheduler)


@contextmanager
def _tally(sources: Sequence[Source], *, quiet: bool) -> Iterator[Callable[[Source, Outcome], None]]:
    """Say on a terminal how many traces are done, how fast, and how long the rest will take, unless ``quiet``.

    It gives what to call with each trace and its outcome.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (BarColumn(_BAR_WIDTH), MofNCompleteColumn(), TextColumn("traces  {task.fields[rate]}  left:"))
    bar = Progress(*shown, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task, began, read = bar.add_task("", total=len(sources), rate=""), monotonic(), 0

    def done(source: Source, outcome: Outcome) -> None:
        nonlocal read
        read += 0 if outcome.kept else source.size_bytes
        finished, passed = int(bar.tasks[0].completed) + 1, max(monotonic() - began, 1e-3)
        bar.update(task, advance=1, rate=f"{finished / passed:.1f}/s, {size(int(read / passed))}/s")

    with bar:
        yield done
