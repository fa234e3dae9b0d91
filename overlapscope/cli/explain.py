"""``overlapscope explain``: print the page of a rule or of a change, or the list of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.messages import ExitCode, say

if TYPE_CHECKING:
    from rich.console import Console


def explain_command(
    code: Annotated[
        str | None,
        typer.Argument(metavar="[CODE]", help="A rule (OVL001) or a change (pin); without it, all are listed."),
    ] = None,
) -> None:
    """Explain a finding (what happens, how it shows in a trace, how to fix it) or a change that what-if simulates."""
    from rich.console import Console as Terminal

    from overlapscope.diagnosis.catalogue import RULES, rule
    from overlapscope.whatif.catalogue import CHANGES, change_of

    console = Terminal(highlight=False)
    if code is None:
        for entry in RULES:
            typer.echo(f"{entry.code}  {entry.title}")
        for kind in CHANGES:
            typer.echo(f"{kind.name}  {kind.page().splitlines()[0]}")
        return
    if (change := change_of(code)) is not None:
        _print(console, f"# {change.name}: {change.page()}")
        return
    try:
        entry = rule(code)
    except KeyError:
        names = ", ".join(kind.name for kind in CHANGES)
        say(f"no rule or change {code!r}: there are {RULES[0].code} to {RULES[-1].code}, and {names}")
        raise typer.Exit(ExitCode.UNUSABLE) from None
    _print(console, f"# {entry.code} {entry.title}\n" + entry.page.split("\n", 1)[1])


def _print(console: Console, text: str) -> None:
    from rich.markdown import Markdown

    console.print(Markdown(text) if console.is_terminal else text, soft_wrap=not console.is_terminal, markup=False)
