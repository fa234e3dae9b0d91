"""Write docs/cli.md: every command with its arguments and options, from the commands themselves.

python docs/make_cli.py [--check]
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from overlapscope.cli.main import app

TARGET = Path(__file__).with_name("cli.md")
HEAD = """# Command line

Made from the commands by `docs/make_cli.py`; do not edit.

Exit status: 0 when all went well, 1 when some data was lost, 2 when there is no result; then standard error has a
sentence.
"""


def text() -> str:
    group: Any = typer.main.get_command(app)
    return "\n".join([HEAD, *(part for name, command in group.commands.items() for part in section(name, command))])


def section(name: str, command: Any) -> Iterator[str]:
    arguments = [entry for entry in command.params if entry.param_type_name == "argument"]
    options = [entry for entry in command.params if entry.param_type_name == "option" and entry.name != "help"]
    yield f"## overlapscope {name}\n\n{inspect.cleandoc(command.help or '').replace(chr(12), '')}\n"
    yield f"    overlapscope {name} {' '.join([*(['[OPTIONS]'] if options else []), *map(shown, arguments)])}\n"
    if arguments or options:
        yield "| | |\n|---|---|"
        yield from (f"| `{shown(entry)}` | {cell(entry.help)} |" for entry in arguments)
        for entry in options:
            names = ", ".join(f"`{flag}`" for flag in (*entry.opts, *entry.secondary_opts))
            yield f"| {names} | {cell(entry.help)}{usual(entry)} |"
        yield ""


def shown(entry: Any) -> str:
    return str(entry.metavar or entry.name.upper())


def cell(words: str | None) -> str:
    return (words or "").replace("|", "\\|").replace("*", "\\*").strip()


def usual(entry: Any) -> str:
    default = getattr(entry.default, "value", entry.default)
    plain = isinstance(default, str | int | float | Path) and not isinstance(default, bool)
    return f" Default: `{default}`." if plain else ""


def main() -> None:
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text():
            sys.exit("docs/cli.md is out of date: run python docs/make_cli.py")
        return
    TARGET.write_text(text())


if __name__ == "__main__":
    main()
