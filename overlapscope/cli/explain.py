"""``overlapscope explain``: print the page of a rule, or the list of all rules."""

from __future__ import annotations

from typing import Annotated

import typer

from overlapscope.cli.messages import ExitCode, say


def explain_command(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="Such as OVL001; without it, all rules are listed.")
    ] = None,
) -> None:
    """Explain the code of a finding: what happens, how it shows in a trace, and how to fix it."""
    from rich.console import Console
    from rich.markdown import Markdown

    from overlapscope.diagnosis.catalogue import RULES, rule

    console = Console(highlight=False)
    if code is None:
        for entry in RULES:
            typer.echo(f"{entry.code}  {entry.title}")
        return
    try:
        entry = rule(code)
    except KeyError:
        say(f"no rule {code!r}: there are {RULES[0].code} to {RULES[-1].code}")
        raise typer.Exit(ExitCode.UNUSABLE) from None
    text = f"# {entry.code} {entry.title}\n" + entry.page.split("\n", 1)[1]
    console.print(Markdown(text) if console.is_terminal else text, soft_wrap=not console.is_terminal, markup=False)
