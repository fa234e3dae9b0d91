"""``overlapscope export``: convert a trace for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.messages import complaining, refuse_to_replace, say, say_without_device_work
from overlapscope.cli.options import Cache, Debug, DeviceNumber, Quiet, Step, TracePath, Within
from overlapscope.cli.progress import phases
from overlapscope.cli.selection import Selection
from overlapscope.errors import OutputError

if TYPE_CHECKING:
    from overlapscope.diagnosis.finding import Diagnosis


class Target(StrEnum):
    """Target format of an export."""

    PERFETTO = "perfetto"
    PARQUET = "parquet"
    CSV = "csv"


def export_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    path: TracePath,
    to: Annotated[Target, typer.Option(help="perfetto: JSON for ui.perfetto.dev; parquet, csv: a folder of tables.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file (gzip if it ends in .gz), or the folder.")],
    append: Annotated[
        bool, typer.Option("--append", help="Perfetto: copy the recorded file and add our tracks to it.")
    ] = False,
    within: Within = None,
    step: Step = None,
    device: DeviceNumber = None,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Convert a trace for other tools.

    The file for Perfetto has additional tracks: one for each finding, hidden and exposed copies, blocked threads,
    causes of GPU idle time, queue depth and copies in flight. With --append everything that was recorded stays as it
    was, byte for byte, also what overlapscope does not read.

    The tables are the recorded ones, gaps, findings, and copies with their cost. The window selects findings, gaps and
    copies.
    """
    selection = Selection(within, step, device=device)
    with complaining(debug=debug):
        refuse_to_replace(path, output)
        if append and to is not Target.PERFETTO:
            raise OutputError("--append goes with --to perfetto")
        from overlapscope.diagnosis.run import diagnose
        from overlapscope.read.opening import open_trace

        with phases(path, quiet=quiet) as progress:
            progress.begin("reading")
            trace = open_trace(path, progress=progress.read, cache=cache)
            found = diagnose(trace, selection.window(trace), on_phase=progress.begin)
            progress.begin("writing")
            said = _write(found, path, to, output, append=append)
        say_without_device_work(trace, quiet=quiet)
        say(said, quiet=quiet)


def _write(found: Diagnosis, path: Path, to: Target, output: Path, *, append: bool) -> str:
    """Write the export, and return what to say about it."""
    if to is not Target.PERFETTO:
        from overlapscope.export.tables import save_tables

        files = save_tables(found, output, "csv" if to is Target.CSV else "parquet")
        return f"{len(files)} files in {output}"
    if append:
        from overlapscope.export.append import append_perfetto

        append_perfetto(found, path, output)
    else:
        from overlapscope.export.perfetto import save_perfetto

        save_perfetto(found, output)
    return f"{output}: open it at ui.perfetto.dev"
