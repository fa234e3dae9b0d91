"""``overlapscope explain``: print the page of a rule or of a change, or the list of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.changes import complete_change
from overlapscope.cli.messages import ExitCode, complaining, note_old_code, say
from overlapscope.cli.output import print_lines, render_to

if TYPE_CHECKING:
    from rich.console import Console


def complete_page(begun: str) -> list[str]:
    """Codes and names of rules, and names of changes, that begin like this, for shell completion."""
    from overlapscope.diagnosis.catalogue import RULES

    words = [*(entry.code for entry in RULES), *(entry.name for entry in RULES)]
    return [word for word in words if word.startswith(begun)] + complete_change(begun)


def explain_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A rule (OVL001, pageable-copy) or a change (pin); without it, all are listed.",
            autocompletion=complete_page,
        ),
    ] = None,
) -> None:
    """Explain a finding (what happens, how it shows in a trace, how to fix it) or a change that what-if simulates."""
    page = None if name is None else _page(name)
    note_old_code(name)
    if name is not None and page is None:
        say(_unknown(name))
        raise typer.Exit(ExitCode.UNUSABLE)
    with complaining():
        render_to(None, lambda console: print_lines(_listing(), console) if page is None else _print(page, console))


def _page(name: str) -> str | None:
    """The page of a rule by its code or name, or of a change."""
    from overlapscope.diagnosis.catalogue import rule
    from overlapscope.whatif.catalogue import change_of

    if (change := change_of(name.lower())) is not None:
        return f"# {change.name}: {change.page()}"
    try:
        entry = rule(name)
    except KeyError:
        return None
    return f"# {entry.code} {entry.title}\n" + entry.page.split("\n", 1)[1]


def _listing() -> list[str]:
    from overlapscope.diagnosis.catalogue import RULES
    from overlapscope.whatif.catalogue import CHANGES

    entries = [(f"{entry.code} {entry.name}", entry.title) for entry in RULES]
    entries += [(kind.name, kind.page().splitlines()[0]) for kind in CHANGES]
    width = max(len(name) for name, _ in entries)
    return [f"{name:{width}}  {title}" for name, title in entries]


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name.lower(), [word.lower() for word in complete_page("")], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; overlapscope explain lists all"
    return f"no rule or change {name!r}{hint}"


def _print(text: str, console: Console) -> None:
    from rich.markdown import Markdown

    console.print(Markdown(text) if console.is_terminal else text, soft_wrap=not console.is_terminal, markup=False)
