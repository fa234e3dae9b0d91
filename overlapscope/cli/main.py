"""The ``overlapscope`` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from overlapscope import __version__
from overlapscope.cli import fleet, record
from overlapscope.cli.audit import audit_command
from overlapscope.cli.cache import cache_command
from overlapscope.cli.check import check_command
from overlapscope.cli.compare import compare_command
from overlapscope.cli.copies import copies_command
from overlapscope.cli.demo import demo_command
from overlapscope.cli.doctor import doctor_command
from overlapscope.cli.explain import explain_command
from overlapscope.cli.export import export_command
from overlapscope.cli.findings import findings_command
from overlapscope.cli.gaps import gaps_command
from overlapscope.cli.groups import Listing
from overlapscope.cli.messages import ExitCode, drop, say
from overlapscope.cli.ranges import ranges_command
from overlapscope.cli.report import report_command
from overlapscope.cli.scrub import scrub_command
from overlapscope.cli.timeline import timeline_command
from overlapscope.cli.transfers import transfers_command
from overlapscope.cli.what_if import what_if_command
from overlapscope.cli.workloads import workloads_command

app = typer.Typer(
    cls=Listing,
    name="overlapscope",
    help="Why does this GPU program not overlap its copies with compute, and what would fixing it be worth?",
    no_args_is_help=True,
    rich_markup_mode=None,  # half of the time until a help text appears would be rich's
    pretty_exceptions_enable=False,
)
app.command("audit")(audit_command)
app.command("doctor")(doctor_command)
app.command("check")(check_command)
app.command("record", context_settings=record.SETTINGS)(record.record_command)
app.command("scrub")(scrub_command)
app.command("what-if")(what_if_command)
app.command("compare")(compare_command)
app.add_typer(fleet.app, name="fleet")
app.command("report")(report_command)
app.command("findings")(findings_command)
app.command("copies")(copies_command)
app.command("gaps")(gaps_command)
app.command("ranges")(ranges_command)
app.command("timeline")(timeline_command)
app.command("export")(export_command)
app.command("explain")(explain_command)
app.command("demo")(demo_command)
app.command("transfers")(transfers_command)
app.command("workloads")(workloads_command)
app.command("cache")(cache_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"overlapscope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Entry point of the ``overlapscope`` script."""
    _open_closed_streams()
    try:
        app()
    except OSError as error:
        if error.filename is not None:
            raise
        drop(sys.stdout)  # a help text, or what is said of an option, could not be printed
        say(f"cannot print ({error.strerror or error})")
        sys.exit(ExitCode.UNUSABLE)


def _open_closed_streams() -> None:
    """Let what is printed to a standard stream that is closed go nowhere, here and in processes that are started."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - stays open
            os.set_inheritable(nowhere.fileno(), True)
            setattr(sys, name, nowhere)
