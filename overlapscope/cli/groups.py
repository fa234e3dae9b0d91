"""The help of a group of commands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

_WHOLE = 1000  # characters of a sentence


class Listing(TyperGroup):
    """A group whose help has the whole first sentence of each command, however narrow the terminal is."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the section of the commands."""
        with formatter.section("Commands"):
            shown = [(name, self.commands[name]) for name in self.list_commands(ctx) if not self.commands[name].hidden]
            formatter.write_dl([(name, command.get_short_help_str(_WHOLE)) for name, command in shown])
