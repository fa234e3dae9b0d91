"""``overlapscope demo``: audit a sample trace with copies that look hidden and are not."""

from __future__ import annotations

import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.messages import complaining, say
from overlapscope.cli.output import render_to
from overlapscope.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console

_RANGE = "gemm_copy"
_TEXT = (
    "Six rounds of two matrix products and a 64 MiB copy from pageable memory, on an H200. Most of the copy time "
    "overlaps kernels. Is that good?\n"
)


def demo_command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder for the figure; a temporary one without it.")
    ] = None,
) -> None:
    """Audit a small trace from the package, and draw its timeline."""
    from overlapscope.plot.timeline import save_timeline
    from overlapscope.read.opening import open_trace
    from overlapscope.report.content import audit
    from overlapscope.report.terminal import render

    def show(console: Console) -> None:
        console.print(_TEXT)
        render(result, console)

    with complaining():
        with as_file(files("overlapscope.cli") / "demo.json.gz") as path:
            trace = open_trace(path)
        result = audit(trace, _RANGE)
        render_to(None, show)
        figure = _folder(output) / "timeline.png"
        save_timeline(trace, figure, result.window, idle=result.diagnosis.devices)
    say(f"the timeline is in {figure}; for your own trace: overlapscope audit TRACE --figure FILE")


def _folder(path: Path | None) -> Path:
    try:
        if path is None:
            return Path(tempfile.mkdtemp(prefix="overlapscope-demo-"))
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error
    return path
