"""Options that several commands share, each declared once, and what they select."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from glob import glob, has_magic
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.errors import TraceNotFound

if TYPE_CHECKING:
    from overlapscope.analysis.analysis import Analysis
    from overlapscope.model.trace import Trace

_SUFFIXES = (".json", ".json.gz", ".sqlite", ".sqlite.gz")
"""Endings of the names of traces in a folder."""


Format = StrEnum("Format", ["TEXT", "JSON", "CSV", "MARKDOWN"])
"""Output format of a result."""
TracePath = Annotated[Path, typer.Argument(metavar="TRACE", help="Kineto JSON or Nsight Systems SQLite.")]
Within = Annotated[
    str | None, typer.Option("--within", "--range", help="Only the ranges of this name (* and ? match).")
]
Step = Annotated[int | None, typer.Option(help="Only this step of torch's profiler, or of the range that repeats.")]
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


@dataclass(frozen=True)
class Selection:
    """The part of a trace that the options ``--within``, ``--step``, ``--from``, ``--to`` and ``--device`` select."""

    within: Within = None
    step: Step = None
    from_ms: From = None
    to_ms: To = None
    device: DeviceNumber = None

    def __post_init__(self) -> None:
        """Raise a usage error where more than one option chooses the time."""
        chosen = (self.within, self.step, self.from_ms if self.to_ms is None else self.to_ms)
        if sum(choice is not None for choice in chosen) > 1:
            raise typer.BadParameter("choose the window by one of --within, --step and --from/--to")

    @property
    def words(self) -> str:
        """The options as they are typed, after a space each; empty for the whole trace."""
        given = {
            "within": self.within,
            "step": self.step,
            "from": self.from_ms,
            "to": self.to_ms,
            "device": self.device,
        }
        return "".join(f" --{name} {quote(str(value))}" for name, value in given.items() if value is not None)

    def analyse(self, trace: Trace, on_phase: Callable[[str], None] | None = None) -> Analysis:
        """The analysis of the selected part.

        Raises:
            RangeNotFound: the trace has no such range.
            WindowEmpty: the interval contains nothing of the trace, or the device has no work.
        """
        from overlapscope.analysis.analysis import analyse
        from overlapscope.analysis.window import between_ms

        interval = self.from_ms is not None or self.to_ms is not None
        window = between_ms(trace, self.from_ms, self.to_ms) if interval else None
        return analyse(trace, self.within, self.step, self.device, window, on_phase=on_phase)


def trace_files(text: str) -> list[Path]:
    """The file of this name, the traces in the folder of this name, or the files that match the pattern; sorted.

    Raises:
        TraceNotFound: there are none.
    """
    path = Path(text)
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.name.endswith(_SUFFIXES) and each.is_file())
        if not files:
            raise TraceNotFound(f"{text}: no traces in this folder: their names end with {', '.join(_SUFFIXES)}")
        return files
    if has_magic(text) and not path.exists():
        files = sorted(Path(each) for each in glob(text, recursive=True))
        if not files:
            raise TraceNotFound(f"{text}: no file matches this pattern")
        return files
    return [path]
