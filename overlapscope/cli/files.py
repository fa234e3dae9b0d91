"""``overlapscope report``, ``export``, ``scrub`` and ``cache``: commands that write a trace as another file."""

from __future__ import annotations

import time
import webbrowser
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.command import Run, command
from overlapscope.cli.options import Selection, TracePath
from overlapscope.cli.output import ExitCode, deliver, refuse_to_replace
from overlapscope.errors import OutputError
from overlapscope.formatting import counted, safe, size

if TYPE_CHECKING:
    from overlapscope.analysis.analysis import Analysis
    from overlapscope.cache.store import Entry, Store

_HOURS_OF_A_DAY = 24
_CACHED_NAME_WIDTH = 48
_REMOVED_KINDS = 12
"""Kinds of removed data that ``scrub`` names."""
_REMOVED_NAME_WIDTH = 40


Target = StrEnum("Target", ["PERFETTO", "PARQUET", "CSV"])
"""Target format of an export."""


@command("report")
def report_command(
    path: TracePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    part: Selection = Selection(),
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    run: Run = Run(),
) -> None:
    """Write an HTML report: verdict, plan, findings with their fixes, tables, and an interactive timeline.

    The page is one file that needs no network. It names kernels, ranges and source lines as the trace does.
    """
    from overlapscope.html.page import save_report
    from overlapscope.report.content import audit

    with run.opened(path, output) as (trace, progress):
        result = audit(part.analyse(trace, on_phase=progress.begin))
        progress.begin("writing the page")
        save_report(result, output)
    run.note_without_device_work(trace)
    if not (show and webbrowser.open(output.resolve().as_uri())):
        run.note(f"{output}: open it in a browser")


@command("export")
def export_command(
    path: TracePath,
    to: Annotated[
        Target, typer.Option("--format", help="perfetto: JSON for ui.perfetto.dev; parquet, csv: a folder of tables.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file (gzip if it ends in .gz), or the folder.")],
    append: Annotated[
        bool, typer.Option("--append", help="Perfetto: copy the recorded file and add our tracks to it.")
    ] = False,
    part: Selection = Selection(),
    run: Run = Run(),
) -> None:
    """Convert a trace for other tools.

    The file for Perfetto has additional tracks: one for each finding, hidden and exposed copies, blocked threads,
    causes of GPU idle time, queue depth and copies in flight. With --append everything that was recorded stays as it
    was, byte for byte, also what overlapscope does not read.

    The tables are the recorded ones, gaps, findings, and copies with their cost. The window selects findings, gaps and
    copies.
    """
    if append and to is not Target.PERFETTO:
        raise OutputError("--append goes with --format perfetto")
    with run.opened(path, output) as (trace, progress):
        analysis = part.analyse(trace, on_phase=progress.begin)
        progress.begin("writing")
        note = _export(analysis, path, to, output, append=append)
    run.note_without_device_work(trace)
    run.note(note)


def _export(analysis: Analysis, path: Path, to: Target, output: Path, *, append: bool) -> str:
    """Write the export, and return what to say about it."""
    if to is not Target.PERFETTO:
        from overlapscope.export.tables import save_tables

        files = save_tables(analysis, output, "csv" if to is Target.CSV else "parquet")
        return f"{len(files)} files in {output}"
    from overlapscope.export.perfetto import append_perfetto, save_perfetto

    if append:
        append_perfetto(analysis.diagnosis, path, output)
    else:
        save_perfetto(analysis.diagnosis, output)
    return f"{output}: open it at ui.perfetto.dev"


@command("scrub", without=["cache", "debug"])
def scrub_command(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Kineto JSON or Nsight Systems SQLite.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The scrubbed trace; gzip when it ends in .gz.")],
    hide: Annotated[
        list[str] | None, typer.Option(help="Hide this text too, wherever it occurs; may be repeated.")
    ] = None,
    run: Run = Run(),
) -> ExitCode:
    """Copy a trace without environment, command lines, host and user names, and the folders of source files.

    Known technical fields are kept, everything else is removed. Names of kernels, operators and ranges stay, because
    the analysis needs them: use --hide for words that they should not show. Exit status: 0, 1 when parts of the trace
    could not be read, 2 when nothing was written.
    """
    from overlapscope.read.opening import is_database
    from overlapscope.scrub.kineto import LOST, scrub_kineto
    from overlapscope.scrub.nsys import scrub_nsys
    from overlapscope.scrub.texts import Hiding

    refuse_to_replace(source, target)
    with run.phases(source, "scrubbing"):
        scrub = scrub_nsys if is_database(source) else scrub_kineto
        dropped = scrub(source, target, Hiding.of(hide or []))
    run.note(f"{target}: {_summary(dropped)}")
    if any(name.startswith(LOST) and count for name, count in dropped.items()):
        run.note("parts of the trace could not be read; they are missing in the scrubbed trace, and its health says so")
        return ExitCode.PARTIAL
    return ExitCode.CLEAN


def _summary(dropped: Counter[str]) -> str:
    parts = [f"{safe(name, _REMOVED_NAME_WIDTH)} ({count})" for name, count in dropped.most_common() if count]
    if not parts:
        return "nothing had to be removed"
    more = f" and {len(parts) - _REMOVED_KINDS} more kinds" if len(parts) > _REMOVED_KINDS else ""
    return "removed or changed: " + ", ".join(parts[:_REMOVED_KINDS]) + more


@command("cache", without=["cache", "quiet"])
def cache_command(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False,
    run: Run = Run(),  # noqa: ARG001 - for --debug
) -> None:
    """Show the opened traces that the cache folder has, the last used first, or remove them.

    A trace that takes longer than half a second to read is kept there as an Arrow file, and opens from it while its
    content is the same. The folder is that of the user, or the one in OVERLAPSCOPE_CACHE; "off" there switches it off.
    """
    from overlapscope.cache.store import Store, cache_folder

    folder = cache_folder()
    if folder is None:
        deliver("off: OVERLAPSCOPE_CACHE says so, or there is no home folder\n", None)
        return
    store = Store(folder)
    deliver(f"{_cleared(store) if clear else _listed(store)}\n", None)


def _cleared(store: Store) -> str:
    entries = store.entries()
    try:
        store.clear()
    except OSError as error:
        raise OutputError(f"{store.folder}: cannot be cleared ({error.strerror or error})") from error
    return f"{safe(str(store.folder))}: {counted(len(entries), 'trace')} removed, {_total(entries)}"


def _listed(store: Store) -> str:
    from overlapscope.cache.store import MOST_BYTES

    entries = store.entries()
    head = f"{safe(str(store.folder))}: {counted(len(entries), 'trace')}, {_total(entries)} of at most "
    return "\n".join([f"{head}{size(MOST_BYTES)}", *map(_entry, entries)])


def _entry(entry: Entry) -> str:
    name = safe(Path(entry.source).name, _CACHED_NAME_WIDTH)
    old = "" if entry.of_this_version else "  of another version"
    return f"  {size(entry.size_bytes):>10}  used {_ago(time.time() - entry.used_s):<12}  {name}{old}"


def _total(entries: list[Entry]) -> str:
    return size(sum(entry.size_bytes for entry in entries))


def _ago(seconds: float) -> str:
    hours = int(seconds // 3600)
    if hours < 1:
        return "this hour"
    return f"{hours} h ago" if hours < _HOURS_OF_A_DAY else f"{hours // _HOURS_OF_A_DAY} d ago"
