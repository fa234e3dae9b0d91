"""A comparison as text for a terminal: the sentence first, then what changed, on one screen."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from overlapscope.comparison.findings import FindingChange
from overlapscope.comparison.result import Comparison
from overlapscope.comparison.rows import figure_rows
from overlapscope.comparison.work import OnlyOne
from overlapscope.formatting import counted, safe, time
from overlapscope.report.layout import fitted

_LISTED = 3  # findings of a kind, and kernels that one side has: a screen holds no more
_NAME_WIDTH = 44


def render(found: Comparison, console: Console) -> None:
    """Print a comparison."""
    console.print(Group(*_parts(found, console.width)))


def _parts(found: Comparison, width: int) -> Iterator[RenderableType]:
    for remark in found.remarks:
        yield Text(safe(remark.message), style="yellow")
    yield Text(safe(found.sentence), style="bold")
    yield Text("")
    yield from fitted("", figure_rows(found), width)[1:]
    yield from map(_line, _findings(found))
    yield from map(_line, _work(found))


def _line(text: str) -> Text:
    return Text(safe(text), no_wrap=True, overflow="ellipsis")


def _findings(found: Comparison) -> Iterator[str]:
    """What became of each finding, the most expensive ones of each kind."""
    kinds = {"gone": found.findings.gone, "new": found.findings.new, "changed": found.findings.changed}
    if any(kinds.values()):
        yield ""
    for kind, entries in kinds.items():
        for entry in entries[:_LISTED]:
            yield f"{kind:8} {entry.title}: {idle(entry)}"
        if len(entries) > _LISTED:
            yield f"{'':8} {counted(len(entries) - _LISTED, 'more finding')} {kind}"


def idle(entry: FindingChange) -> str:
    """For how long the GPU was idle or only copying because of a finding, on the sides that have it."""
    times = [time(side.idle_ns) for side in (entry.before, entry.after) if side is not None]
    return f"GPU idle or only copying for {' -> '.join(times)}"


def _work(found: Comparison) -> Iterator[str]:
    """Kernels and copies that one side has, by name."""
    only = found.work.only
    if only:
        yield ""
    yield from (only_one(entry) for entry in only[:_LISTED])
    if len(only) > _LISTED:
        yield f"{'':8} {counted(len(only) - _LISTED, 'more name')} on one side; --format json lists them"


def only_one(entry: OnlyOne) -> str:
    """How often work of one name is on one side only, or more often there."""
    sides = [(entry.before, entry.before_ns, "before"), (entry.after, entry.after_ns, "after")]
    counts = [f"{count:,} more {where} ({time(took)})" for count, took, where in sides if count]
    return f"{entry.kind:8} {safe(entry.name, _NAME_WIDTH)}: {', '.join(counts)}"
