"""The frame of a command: options that it shares with others, the trace it opens, its errors and its exit status."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.core import TyperGroup

from overlapscope.cli.options import Cache, Debug, Quiet
from overlapscope.cli.output import complain, complaining, refuse_to_replace, say
from overlapscope.cli.progress import Phases, phases
from overlapscope.errors import OverlapscopeError

if TYPE_CHECKING:
    from overlapscope.model.trace import Trace

COMMANDS: dict[str, Callable[..., None]] = {}
"""The commands of the modules that are imported, by their names."""
_WHOLE = 1000  # characters of a sentence
_PRINTED_BY = {
    "plan": "audit TRACE prints the plan; overlapscope what-if TRACE --change NAME simulates other changes",
    "verdict": "audit TRACE prints the verdict",
    "headline": "audit TRACE prints the headline",
}


@dataclass(frozen=True)
class Run:
    """One run of a command, with the options that all commands have."""

    cache: Cache = True
    quiet: Quiet = False
    debug: Debug = False

    @contextmanager
    def opened(self, path: Path, *outputs: Path | None) -> Iterator[tuple[Trace, Phases]]:
        """Open a trace that no output overwrites; the phases show what the command does with it.

        Raises:
            OutputError: one of the outputs is the trace.
            TraceError: the trace cannot be used.
        """
        from overlapscope.read.opening import open_trace

        refuse_to_replace(path, *outputs)
        with self.phases(path) as progress:
            yield open_trace(path, progress=progress.read, cache=self.cache), progress

    @contextmanager
    def phases(self, path: Path, first: str = "reading") -> Iterator[Phases]:
        """The phases of a command about this trace, shown on a terminal unless ``--quiet``."""
        with phases(path, quiet=self.quiet) as progress:
            progress.begin(first)
            yield progress

    @contextmanager
    def surviving(self, path: Path, failures: list[dict[str, str]]) -> Iterator[None]:
        """Print an error of one of several traces, and add it to the failures: the other traces go on."""
        try:
            yield
        except OverlapscopeError as error:
            complain(error, debug=self.debug)
            failures.append({"path": str(path), "code": error.code, "message": str(error)})

    def note(self, text: str) -> None:
        """Print a note to stderr, unless ``--quiet``."""
        say(text, quiet=self.quiet)

    def note_without_device_work(self, trace: Trace, *, required: bool = False) -> None:
        """Say why a trace has no device work, if it has none; an error, also with ``--quiet``, where it is required."""
        if trace.health.no_device_work:
            text = f"{trace.metadata.path}: no GPU work in this trace: {trace.health.no_device_work}"
            say(text, quiet=self.quiet and not required)


def command(
    name: str, *, without: Collection[str] = ()
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Make a command of a function that returns an exit status, or None for success; `COMMANDS` has it by its name.

    A parameter whose type is a dataclass of options, such as `Run` or `Selection`, becomes one option for each field,
    except those of the names in ``without``. A documented error ends the command with its sentence on stderr.
    """

    def framed(function: Callable[..., int | None]) -> Callable[..., int | None]:
        parameters: list[inspect.Parameter] = []
        groups: dict[str, tuple[Any, list[str]]] = {}
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            kind = parameter.annotation
            if not is_dataclass(kind):
                parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
                continue
            options = [option for option in _options_of(kind) if option.name not in without]
            parameters += options
            groups[parameter.name] = kind, [option.name for option in options]

        @wraps(function)
        def invoke(**given: Any) -> None:
            with complaining(debug=given.get("debug", False)):
                for group, (kind, options) in groups.items():
                    given[group] = kind(**{option: given.pop(option) for option in options})
                status = function(**given)
            if status:
                raise typer.Exit(status)

        invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        COMMANDS[name] = invoke
        return function

    return framed


def _options_of(kind: Any) -> Iterator[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command."""
    types = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name]
        )


class Listing(TyperGroup):
    """A group whose help has the whole first sentence of each command, however narrow the terminal is."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; the name of a part of another command's output is refused by naming that command."""
        if args and args[0] not in self.commands and args[0] in _PRINTED_BY:
            ctx.fail(f"No such command '{args[0]}': overlapscope {_PRINTED_BY[args[0]]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the section of the commands."""
        with formatter.section("Commands"):
            shown = [(name, self.commands[name]) for name in self.list_commands(ctx) if not self.commands[name].hidden]
            formatter.write_dl([(name, command.get_short_help_str(_WHOLE)) for name, command in shown])
