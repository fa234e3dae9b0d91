"""``overlapscope fleet``: many traces, the late ranks and their causes."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from overlapscope.cli.groups import Listing
from overlapscope.cli.messages import ExitCode, complaining, refuse_to_replace, say
from overlapscope.cli.options import Debug, Quiet
from overlapscope.cli.output import deliver
from overlapscope.cli.tally import tally
from overlapscope.errors import OutputError
from overlapscope.formatting import counted

if TYPE_CHECKING:
    from overlapscope.fleet.job import Job
    from overlapscope.fleet.task import Executor


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

Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Keep results and tables in this folder; a second run does what is new."),
]
Page = Annotated[Path | None, typer.Option(help="Write one HTML page about the job here.")]
Reports = Annotated[
    list[str] | None,
    typer.Option("--report", metavar="RANK|late", help="Write the report of this rank, or of four late ones, too."),
]


@app.command("map", hidden=True)
def map_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    names: Annotated[
        list[str], typer.Argument(metavar="TRACES...", help="Folders, files, patterns (*, **) and URLs (s3://, gs://).")
    ],
    output: Folder = None,
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
    page: Page = None,
    report: Reports = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Map each trace to its figures and findings, and say which ranks are late, and why.

    A trace that cannot be used is a row with its error. With -o, a run that was ended or found no room goes on where it
    stopped when it is run again. Each job of a job array runs one --shard; `overlapscope fleet reduce` comes last.

    Exit status: 0 when all traces were read completely, 1 when some data was lost, some traces could not be used or a
    report that was asked for has no trace, 2 when there is no result.
    """
    from overlapscope.fleet.gather import trace_rows
    from overlapscope.fleet.heading import KEEP, REDUCE, bad_traces
    from overlapscope.fleet.run import map_traces
    from overlapscope.fleet.sources import find_sources

    with complaining(debug=debug), _folder(output, shard) as folder:
        asked = _asked(report)
        if asked and page is None and output is None:
            raise OutputError("--report needs a place for the reports: give --page, or a folder with -o")
        part = _shard(shard)
        if part.of > 1 and (page or asked):
            raise OutputError("--shard writes no page and no reports: ask overlapscope fleet reduce for them")
        sources = find_sources(names)
        for source in sources:
            refuse_to_replace(Path(source.name), page)
        mine = part.share(sources)
        with tally(mine, quiet=quiet) as progress:
            done = map_traces(sources, folder, _executor(workers, scheduler), part, progress)
        if part.of > 1:
            say(f"shard {part.number} of {part.of}: {counted(len(mine), 'trace')} done", quiet=quiet)
            bad = list(bad_traces(trace_rows(folder, done), REDUCE))
            for line in bad:
                say(line)
            raise typer.Exit(ExitCode.PARTIAL if bad else ExitCode.CLEAN)
        status = _reduced(folder, page, asked, "" if output else KEEP, quiet=quiet)
    raise typer.Exit(status)


@app.command("reduce")
def reduce_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that the shards wrote.")],
    page: Page = None,
    report: Reports = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make the tables and the summary of the results of all shards.

    Exit status: as that of `overlapscope fleet`.
    """
    with complaining(debug=debug), _going_on():
        status = _reduced(folder, page, _asked(report), quiet=quiet)
    raise typer.Exit(status)


def _reduced(folder: Path, page: Path | None, asked: Sequence[str], first: str = "", *, quiet: bool) -> ExitCode:
    """Reduce, with the page and the reports beside it, or beside the tables where there is no page.

    ``first`` says what to do before the tables are there.
    """
    from overlapscope.fleet.reduce import reduce_folder
    from overlapscope.fleet.summary_jobs import summaries

    jobs, reports = reduce_folder(folder), None
    for member in (each for job in jobs for each in job.members):
        refuse_to_replace(Path(member.source), page)
    if asked:
        from overlapscope.html.fleet_reports import write_reports

        target = folder / "reports" if page is None else page.with_name(f"{page.stem}-reports")
        reports = write_reports(jobs, asked, target)
    if page is not None:
        from overlapscope.html.fleet_page import save_fleet_page

        save_fleet_page(jobs, folder, page, reports.paths if reports else None, first)
    deliver(summaries(jobs, first), None)
    for line in reports.lacking if reports else ():
        say(line)
    for line in reports.left_out if reports else ():
        say(line, quiet=quiet)
    return max(_status(jobs), ExitCode.PARTIAL if reports and reports.lacking else ExitCode.CLEAN)


def _status(jobs: Sequence[Job]) -> ExitCode:
    """By the worst trace, and by whether there is one that could be used."""
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


def _asked(report: Sequence[str] | None) -> Sequence[str]:
    """What ``--report`` asks for: numbers of ranks, or the late ones."""
    for text in report or ():
        if text != "late" and not text.isdecimal():
            raise typer.BadParameter(f"{text!r} is neither a rank's number nor late", param_hint="--report")
    return report or ()


def _shard(text: str | None) -> Any:
    from overlapscope.fleet.store import Shard

    try:
        return Shard() if text is None else Shard.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--shard") from error


def _executor(workers: int | None, scheduler: str | None) -> Executor:
    from overlapscope.fleet.processes import Processes

    if scheduler is not None:
        from overlapscope.fleet.cluster import DaskCluster

        return DaskCluster(scheduler)
    return Processes(workers or os.cpu_count() or 1)
