"""Options that several commands have, each declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """Output format of a result."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


class TableFormat(StrEnum):
    """Output format of a table."""

    TEXT = "text"
    CSV = "csv"
    PARQUET = "parquet"


TracePath = Annotated[Path, typer.Argument(metavar="TRACE", help="Kineto JSON or Nsight Systems SQLite.")]
Within = Annotated[
    str | None, typer.Option("--within", "--range", help="Only the ranges of this name (* and ? match).")
]
Step = Annotated[int | None, typer.Option(help="Only this step of torch's profiler.")]
From = Annotated[float | None, typer.Option("--from", help="Begin, in ms since the begin of the trace.")]
To = Annotated[float | None, typer.Option("--to", help="End, in ms since the begin of the trace.")]
DeviceNumber = Annotated[int | None, typer.Option("--device", min=0, help="Only the GPUs of this number.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the result to this file instead of printing it.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes, only the result and errors.")]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Open what was read before from the user's cache folder, and keep it there."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]
