"""``overlapscope report``: write everything about a trace into one HTML page."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.messages import complaining, refuse_to_replace, say, say_without_device_work
from overlapscope.cli.options import Cache, Debug, DeviceNumber, From, Quiet, Step, To, TracePath, Within
from overlapscope.cli.progress import phases
from overlapscope.cli.selection import Selection


def report_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    path: TracePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    within: Within = None,
    step: Step = None,
    from_ms: From = None,
    to_ms: To = None,
    device: DeviceNumber = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    cache: Cache = True,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write an HTML report: verdict, plan, findings with their fixes, tables, and an interactive timeline.

    The page is one file that needs no network. It names kernels, ranges and source lines as the trace does.
    """
    selection = Selection(within, step, from_ms, to_ms, device)
    with complaining(debug=debug):
        refuse_to_replace(path, output)
        from overlapscope.html.page import save_report
        from overlapscope.read.opening import open_trace
        from overlapscope.report.content import audit

        with phases(path, quiet=quiet) as progress:
            progress.begin("reading")
            trace = open_trace(path, progress=progress.read, cache=cache)
            found = audit(trace, selection.window(trace), on_phase=progress.begin)
            progress.begin("writing the page")
            save_report(found, output)
        say_without_device_work(trace, quiet=quiet)
        if not (show and webbrowser.open(output.resolve().as_uri())):
            say(f"{output}: open it in a browser", quiet=quiet)
