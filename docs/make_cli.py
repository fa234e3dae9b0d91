"""Write docs/cli.md: every command with its arguments and options, from the commands themselves.

python docs/make_cli.py [--check]
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from enum import EnumType
from pathlib import Path
from typing import Any, get_type_hints

import typer

from overlapscope.cli.main import app

TARGET = Path(__file__).with_name("cli.md")
HEAD = """# Command line

Made from the commands by `docs/make_cli.py`; do not edit.

Exit status:

| | |
|---|---|
| 0 | the command succeeded |
| 1 | some data could not be used |
| 2 | there is no result; an error message on standard error says why |
| 3 | `--fail-on` found what it names, or `check` a limit that is not kept, whether or not some data could not be used |

A trace without GPU work is read completely. What shows the trace itself (`report`, `timeline`, `ranges`, `export`,
`doctor`) succeeds, and says so on standard error. What is about the GPU's time (`audit`, `findings`, `copies`, `gaps`,
`what-if`, `compare`) has no result then: 2. For `fleet` such a trace is data that could not be used: 1.

Results go to standard output, notes and progress to standard error. Progress is shown on a terminal only, when a
command takes longer than a second. Tables fit the width of the terminal: what is the same in all rows stands above
them, long texts are cut, and columns that do not fit follow below. `NO_COLOR` switches colours off, `COLUMNS` sets the
width where there is no terminal. `overlapscope --version` prints the version; `overlapscope --install-completion`
installs the completion of commands, options, rules and changes for the shell that it runs in.
"""


def text() -> str:
    return "\n".join([HEAD, *sections(app, typer.main.get_command(app))])


def sections(source: typer.Typer, group: Any, before: str = "") -> Iterator[str]:
    """The sections of the commands of a group, and of those of its own groups."""
    hints = {entry.name: get_type_hints(entry.callback) for entry in source.registered_commands if entry.callback}
    groups = {entry.name: entry.typer_instance for entry in source.registered_groups}
    for name, command in group.commands.items():
        inner = groups.get(name)
        if inner is None:
            yield from section(before.strip() if command.hidden else before + name, command, hints[name])
        else:
            yield from sections(inner, command, f"{before}{name} ")


def section(name: str, command: Any, hints: dict[str, Any]) -> Iterator[str]:
    arguments = [entry for entry in command.params if entry.param_type_name == "argument"]
    given = (entry for entry in command.params if entry.param_type_name == "option" and entry.name != "help")
    options = [entry for entry in given if not entry.hidden]
    yield f"## overlapscope {name}\n\n{inspect.cleandoc(command.help or '').replace(chr(12), '')}\n"
    yield f"    overlapscope {name} {' '.join([*(['[OPTIONS]'] if options else []), *map(shown, arguments)])}\n"
    if arguments or options:
        yield "| | |\n|---|---|"
        yield from (f"| `{shown(entry)}` | {cell(entry.help)} |" for entry in arguments)
        for entry in options:
            names = ", ".join(f"`{flag}`" for flag in flags(entry))
            yield f"| {names} | {cell(entry.help)}{facts(entry, hints.get(entry.name))} |"
        yield ""


def shown(entry: Any) -> str:
    return str(entry.metavar or entry.name.upper())


def cell(words: str | None) -> str:
    return (words or "").replace("|", "\\|").replace("*", "\\*").strip()


def flags(entry: Any) -> list[str]:
    return [*entry.opts, *entry.secondary_opts]


def code(choice: Any) -> str:
    return f"`{getattr(choice, 'value', choice)}`"


def facts(entry: Any, hint: Any) -> str:
    """What may be given, whether it must be, and what is taken without it."""
    choices: list[Any] = list(hint) if isinstance(hint, EnumType) else []
    parts = [f"One of {', '.join(map(code, choices))}."] if choices else []
    default = getattr(entry.default, "value", entry.default)
    if entry.required:
        parts.append("Required.")
    elif isinstance(default, bool):
        flag = (entry.opts if default else entry.secondary_opts or [None])[0]
        parts += [f"Default: `{flag}`."] if flag else []
    elif isinstance(default, str | int | float | Path):
        parts.append(f"Default: `{default}`.")
    return f" {' '.join(parts)}" if parts else ""


def main() -> None:
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text():
            sys.exit("docs/cli.md is out of date: run python docs/make_cli.py")
        return
    TARGET.write_text(text())


if __name__ == "__main__":
    main()
