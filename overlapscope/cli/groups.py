"""The help of a group of commands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

_WHOLE = 1000  # characters of a sentence
_PRINTED_BY = {
    "plan": "audit TRACE prints the plan; overlapscope what-if TRACE --change NAME simulates other changes",
    "verdict": "audit TRACE prints the verdict",
    "headline": "audit TRACE prints the headline",
}


class Listing(TyperGroup):
    """A group whose help has the whole first sentence of each command, however narrow the terminal is."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; one that is none, but a part of another's output, is refused by naming that one."""
        if args and args[0] not in self.commands and args[0] in _PRINTED_BY:
            ctx.fail(f"No such command '{args[0]}': overlapscope {_PRINTED_BY[args[0]]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the section of the commands."""
        with formatter.section("Commands"):
            shown = [(name, self.commands[name]) for name in self.list_commands(ctx) if not self.commands[name].hidden]
            formatter.write_dl([(name, command.get_short_help_str(_WHOLE)) for name, command in shown])
