"""The ``overlapscope`` command."""

from __future__ import annotations

from typing import Annotated

import typer

from overlapscope import __version__
from overlapscope.cli.audit import audit_command

app = typer.Typer(
    name="overlapscope",
    help="Why does this GPU program not overlap its copies with compute, and what would fixing it be worth?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("audit")(audit_command)


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
    app()
