"""``overlapscope scrub``: copy a trace without private data, so that it can be shared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from overlapscope.cli.messages import ExitCode, complaining, refuse_to_replace, say
from overlapscope.cli.progress import phases
from overlapscope.formatting import safe

_SHOWN = 12
_NAME_WIDTH = 40


def scrub_command(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Kineto JSON or Nsight Systems SQLite.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The scrubbed trace; gzip when it ends in .gz.")],
    hide: Annotated[
        list[str] | None, typer.Option(help="Hide this text too, wherever it occurs; may be repeated.")
    ] = None,
) -> None:
    """Copy a trace without environment, command lines, host and user names, and the folders of source files.

    Known technical fields are kept, everything else is removed. Names of kernels, operators and ranges stay, because
    the analysis needs them: use --hide for words that they should not show. Exit status: 0, 1 when parts of the trace
    could not be read, 2 when nothing was written.
    """
    from overlapscope.read.opening import is_database
    from overlapscope.scrub.kineto import LOST, scrub_kineto
    from overlapscope.scrub.nsys import scrub_nsys
    from overlapscope.scrub.texts import Hiding

    with complaining(), phases(source) as progress:
        refuse_to_replace(source, target)
        progress.begin("scrubbing")
        scrub = scrub_nsys if is_database(source) else scrub_kineto
        dropped = scrub(source, target, Hiding.of(hide or []))
    say(f"{target}: {_summary(dropped)}")
    if any(name.startswith(LOST) and count for name, count in dropped.items()):
        say("parts of the trace could not be read; they are missing in the scrubbed trace, and its health says so")
        raise typer.Exit(ExitCode.PARTIAL)


def _summary(dropped: Counter[str]) -> str:
    parts = [f"{safe(name, _NAME_WIDTH)} ({count})" for name, count in dropped.most_common() if count]
    if not parts:
        return "nothing had to be removed"
    more = f" and {len(parts) - _SHOWN} more kinds" if len(parts) > _SHOWN else ""
    return "removed or changed: " + ", ".join(parts[:_SHOWN]) + more
