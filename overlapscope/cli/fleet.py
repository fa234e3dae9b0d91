"""``overlapscope fleet``: many traces, the straggler and its cause."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from overlapscope.cli.messages import ExitCode, complaining, refuse_to_replace, say
from overlapscope.cli.options import Debug, Quiet
from overlapscope.cli.output import deliver
from overlapscope.cli.tally import tally
from overlapscope.errors import OutputError
from overlapscope.formatting import counted

if TYPE_CHECKING:
    from overlapscope.fleet.job import Job
    from overlapscope.fleet.task import Executor


class _MapsByDefault(TyperGroup):
    """``fleet TRACES`` means ``fleet map TRACES``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["map", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_MapsByDefault, no_args_is_help=True, help="Many traces: which rank arrives last, and why.")

Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Keep results and tables in this folder; a second run does what is new."),
]
Page = Annotated[Path | None, typer.Option(help="Write one HTML page about the job here.")]
Reports = Annotated[
    list[str] | None,
    typer.Option("--report", metavar="RANK|late", help="Write the report of this rank, or of the late ones, too."),
]


@app.command("map")
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
    """Map each trace to its figures and findings, and say which rank arrives last, and why.

    A trace that cannot be used is a row with its error. `overlapscope fleet TRACES` is short for this command.

    Exit status: 0 when all traces were read completely, 1 when some data was lost or some traces could not be used, 2
    when there is no result.
    """
    from overlapscope.fleet.gather import statuses
    from overlapscope.fleet.run import map_traces
    from overlapscope.fleet.sources import find_sources

    with complaining(debug=debug), _folder(output, shard) as folder:
        part, sources = _shard(shard), find_sources(names)
        for source in sources:
            refuse_to_replace(Path(source.name), page)
        mine = part.share(sources)
        with tally(mine, quiet=quiet) as progress:
            done = map_traces(sources, folder, _executor(workers, scheduler), part, progress)
        if part.of > 1:
            say(f"shard {part.number} of {part.of}: {counted(len(mine), 'trace')} done", quiet=quiet)
            raise typer.Exit(ExitCode.CLEAN if statuses(folder, done) <= {"complete"} else ExitCode.PARTIAL)
        job = _reduced(folder, page, report or ())
    raise typer.Exit(_status(job))


@app.command("reduce")
def reduce_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that the shards wrote.")],
    page: Page = None,
    report: Reports = None,
    debug: Debug = False,
) -> None:
    """Make the tables and the summary of the results of all shards."""
    with complaining(debug=debug):
        job = _reduced(folder, page, report or ())
    raise typer.Exit(_status(job))


def _reduced(folder: Path, page: Path | None, asked: Sequence[str]) -> Job:
    """The job, with its page and the reports beside it, or beside its tables where there is no page."""
    from overlapscope.fleet.reduce import reduce_folder
    from overlapscope.fleet.summary import summary

    job = reduce_folder(folder)
    for member in job.members:
        refuse_to_replace(Path(member.source), page)
    reports: Mapping[int, Path] = {}
    if asked:
        from overlapscope.html.fleet_reports import asked_members, write_reports

        target = folder / "reports" if page is None else page.with_name(f"{page.stem}-reports")
        reports = write_reports(job, asked_members(job, asked), target)
    if page is not None:
        from overlapscope.html.fleet_page import save_fleet_page

        save_fleet_page(job, folder, page, reports)
    deliver(summary(job), None)
    return job


def _status(job: Job) -> ExitCode:
    """By the worst trace, and by whether there is one that could be used."""
    status = set(job.traces["status"])
    if status <= {"failed"}:
        return ExitCode.UNUSABLE
    return ExitCode.CLEAN if status == {"complete"} else ExitCode.PARTIAL


@contextmanager
def _folder(output: Path | None, shard: str | None) -> Iterator[Path]:
    """The folder of the results, or one that is gone afterwards."""
    if output is not None:
        yield output
        return
    if shard is not None:
        raise OutputError("--shard needs the folder that all shards write to: give it with -o")
    with tempfile.TemporaryDirectory(prefix="overlapscope-fleet-") as folder:
        yield Path(folder)


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
