"""``overlapscope copies``: list every copy with its cost, its cause and its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlapscope.cli.options import Cache, Debug, DeviceNumber, From, Output, Quiet, Step, To, TracePath, Within
from overlapscope.cli.progress import Phases
from overlapscope.cli.selection import Selection
from overlapscope.cli.table import Found, TableFormatOption, TableOutput, Top, diagnosed, table_command

if TYPE_CHECKING:
    from overlapscope.model.trace import Trace

_SHOWN = (
    "start_ns", "duration_ns", "hidden_ns", "exposed_ns", "blocked_ns", "idle_ns", "code", "cause", "direction",
    "memory", "size_bytes", "device", "stream", "op", "range",
)  # fmt: skip


def copies_command(  # noqa: PLR0913, PLR0917 - one parameter per option
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
    """List the copies: duration, hidden, exposed and blocked time, GPU idle time, cause, and place in the program.

    Copies with the most GPU idle time come first. With --format csv or parquet all copies are listed, in the order of
    time, with more columns.
    """
    selection = Selection(within, step, from_ms, to_ms, device)

    def find(trace: Trace, progress: Phases) -> Found:
        import numpy as np

        from overlapscope.report.copy_table import copy_table

        table = copy_table(diagnosed(trace, selection, progress))
        order = np.lexsort((-np.maximum(table.exposed_ns, table.blocked_ns), -table.idle_ns))
        return Found(table, order, "Copies", _SHOWN)

    table_command(path, TableOutput(form, output, top, cache, quiet, debug), find)
