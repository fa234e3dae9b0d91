"""A critical path as text: what the time of a window is made of, step by step, with the dependency between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from overlapscope.dependencies.critical_path import CriticalPath
from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.formatting import counted, safe, time

_LONGEST = 60  # characters of a kernel's name
_SHARE = 0.01
"""Usual dependencies that add less than this share of the path's time are summed up."""
_USUAL = {
    kind.label
    for kind in (
        *OWN_DURATION,
        DependencyKind.EXECUTION,
        DependencyKind.LAUNCH,
        DependencyKind.PROGRAM_ORDER,
        DependencyKind.STREAM_ORDER,
    )
}


def critical_path_lines(title: str, path: CriticalPath) -> list[str]:
    """The path as lines, the first in time first; each says how much time it adds, what came then, and why."""
    total = int(path.added_ns.sum())
    head = f"Critical path {title}: {time(total)} in {counted(len(path), 'dependency', 'dependencies')}"
    return [head, *_steps(path, total)]


def _steps(path: CriticalPath, total: int) -> Iterator[str]:
    skipped: list[dict[str, Any]] = []
    for row in path.to_dict():
        if row["added_ns"] < _SHARE * total and row["dependency"] in _USUAL:
            skipped.append(row)
            continue
        yield from _summed(skipped)
        skipped = []
        what, after = (_short(row[name]) for name in ("what", "after"))
        same = what.removesuffix(", end") == after.removesuffix(", start")  # a call or work from its start to its end
        ends = after.removesuffix(", start") if same else f"{what}  after  {after}"
        yield f"  {time(row['added_ns']):>9}  {_kind(row)}: {ends}"
    yield from _summed(skipped)


def _summed(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Short dependencies in a row, by their kinds."""
    if rows:
        kinds = ", ".join(dict.fromkeys(map(_kind, rows)))
        yield f"  {time(sum(row['added_ns'] for row in rows)):>9}  {kinds}"


def _kind(row: dict[str, Any]) -> str:
    return f"{row['dependency']} (inferred)" if row["inferred"] else str(row["dependency"])


def _short(name: str) -> str:
    """A node's name without control characters; long names of kernels are cut."""
    name, _, place = safe(name).rpartition(" on ")
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
    return f"{short} on {place}"
