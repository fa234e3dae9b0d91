"""The ``overlapscope`` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from overlapscope import __version__
from overlapscope.cli import (  # noqa: F401 - they declare the commands
    audit,
    check,
    compare,
    doctor,
    figures,
    files,
    fleet,
    guide,
    record,
    tables,
    what_if,
)
from overlapscope.cli.command import COMMANDS, Listing
from overlapscope.cli.output import ExitCode, drop, say

_ORDER = (
    "audit", "doctor", "check", "record", "scrub", "what-if", "compare", "report", "findings", "copies", "gaps",
    "ranges", "timeline", "export", "explain", "demo", "transfers", "workloads", "cache",
)  # fmt: skip
_SETTINGS = {"record": {"allow_extra_args": True, "allow_interspersed_args": False}}

app = typer.Typer(
    cls=Listing,
    name="overlapscope",
    help="Why does this GPU program not overlap its copies with compute, and what would fixing it be worth?",
    no_args_is_help=True,
    rich_markup_mode=None,  # half of the time until a help text appears would be rich's
    pretty_exceptions_enable=False,
)
for _name in _ORDER:
    app.command(_name, context_settings=_SETTINGS.get(_name))(COMMANDS[_name])
app.add_typer(fleet.app, name="fleet")


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
