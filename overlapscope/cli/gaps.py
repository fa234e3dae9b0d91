"""``overlapscope gaps``: list every stretch in which a GPU was idle, with its cause and its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlapscope.cli.options import Cache, Debug, DeviceNumber, From, Output, Quiet, Step, To, TracePath, Within
from overlapscope.cli.progress import Phases
from overlapscope.cli.selection import Selection
from overlapscope.cli.table import Found, TableFormatOption, TableOutput, Top, diagnosed, table_command

if TYPE_CHECKING:
    from overlapscope.model.trace import Trace

_SHOWN = ("start_ns", "duration_ns", "code", "cause", "device", "api", "op", "range")


def gaps_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    path: TracePath,
    within: Within = None,
    step: Step = None,
    from_ms: From = None,
    to_ms: To = None,
    device: DeviceNumber = None,
    top: Top = None,
    form: TableFormatOption = None,
    output: Output = None,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the stretches in which a GPU had no work of its own: length, cause, rule, and the call to look at.

    The longest come first. With --format csv or parquet all are listed, in the order of time, with more columns.
    """
    selection = Selection(within, step, from_ms, to_ms, device)

    def find(trace: Trace, progress: Phases) -> Found:
        import numpy as np

        from overlapscope.report.gap_table import gap_table

        table = gap_table(diagnosed(trace, selection, progress))
        return Found(table, np.argsort(-table.duration_ns, kind="stable"), "GPU idle time", _SHOWN)

    table_command(path, TableOutput(form, output, top, cache, quiet, debug), find)
