"""``overlapscope ranges``: list the named ranges of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlapscope.cli.options import Cache, Debug, DeviceNumber, From, Output, Quiet, Step, To, TracePath, Within
from overlapscope.cli.progress import Phases
from overlapscope.cli.selection import Selection
from overlapscope.cli.table import Found, TableFormatOption, TableOutput, Top, table_command

if TYPE_CHECKING:
    from overlapscope.model.trace import Trace

_SHOWN = (
    "name",
    "occurrences",
    "host_ns",
    "after_ns",
    "blocked_ns",
    "wall_ns",
    "kernel_busy_ns",
    "copy_busy_ns",
    "overlap_ns",
)


def ranges_command(  # noqa: PLR0913, PLR0917 - one parameter per option
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
    """List the named ranges, which --within selects: how often each occurs, and what the GPUs did meanwhile.

    Each occurrence counts up to the end of the device work issued in it. Ranges nest, so their times do not add up.
    """
    selection = Selection(within, step, from_ms, to_ms, device)

    def find(trace: Trace, progress: Phases) -> Found:
        import numpy as np

        from overlapscope.report.range_table import range_table

        progress.begin("ranges")
        table = range_table(trace, selection.window(trace))
        return Found(table, np.arange(len(table)), "Ranges", _SHOWN)

    table_command(path, TableOutput(form, output, top, cache, quiet, debug), find, of_gpu=False)
