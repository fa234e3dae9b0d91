"""``overlapscope findings``: list the findings, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlapscope.cli.options import Cache, Debug, DeviceNumber, From, Output, Quiet, Step, To, TracePath, Within
from overlapscope.cli.progress import Phases
from overlapscope.cli.selection import Selection
from overlapscope.cli.table import Found, TableFormatOption, TableOutput, Top, diagnosed, table_command

if TYPE_CHECKING:
    from overlapscope.model.trace import Trace

_SHOWN = (
    "rank", "code", "name", "kind", "severity", "confidence", "idle_ns", "blocked_ns", "saving_ns", "change", "copies",
    "device", "api", "range",
)  # fmt: skip


def findings_command(  # noqa: PLR0913, PLR0917 - one parameter per option
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
    """List the findings as a table, ranked; audit says what they mean and how to fix them."""
    selection = Selection(within, step, from_ms, to_ms, device)

    def find(trace: Trace, progress: Phases) -> Found:
        import numpy as np

        from overlapscope.report.finding_table import finding_table

        table = finding_table(diagnosed(trace, selection, progress, simulate=True))
        return Found(table, np.arange(len(table)), "Findings", _SHOWN)

    table_command(path, TableOutput(form, output, top, cache, quiet, debug), find)
