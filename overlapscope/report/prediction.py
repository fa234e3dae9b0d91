"""A prediction in words: the sentence, what it rests on, and the critical paths before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.dependencies.simulate import CriticalPath
from overlapscope.document.nodes import Figure, Node, Paragraph, Terms, Tone
from overlapscope.formatting import counted, safe, time
from overlapscope.whatif.prediction import Prediction

_LONGEST = 60  # characters of a kernel's name
_SHARE = 0.01
"""Frequent dependencies that add less than this share of the path's time are summed up."""
_FREQUENT = {
    kind.label
    for kind in (
        *OWN_DURATION,
        DependencyKind.EXECUTION,
        DependencyKind.LAUNCH,
        DependencyKind.PROGRAM_ORDER,
        DependencyKind.STREAM_ORDER,
    )
}
_TIME_WIDTH = 9


def prediction_parts(prediction: Prediction, paths: Mapping[str, CriticalPath], device: int | None) -> list[Node]:
    """The sentence, the timeline, what the predicted time is made of, the assumptions, and critical paths by name.

    ``device`` is the only GPU whose copies change; None for all.
    """
    made_of = ", ".join(f"{name} {time(ns)}" for name, ns in prediction.made_of.items())
    details = [f"critical path: {made_of}", *prediction.assumptions, *prediction.wide]
    details += [] if device is None else [f"only copies of GPU {device}"]
    return [
        Paragraph(prediction.sentence, Tone.HEADLINE),
        Figure("timeline"),
        *(Paragraph(line, Tone.DETAIL) for line in details),
        *(part for name, path in paths.items() for part in _path(name, path)),
    ]


def _path(name: str, path: CriticalPath) -> Iterator[Node]:
    """The dependencies of a path, the first in time first: how much time each adds, what came then, and why."""
    total = int(path.added_ns.sum())
    yield Paragraph(f"Critical path {name}: {time(total)} in {counted(len(path), 'dependency', 'dependencies')}")
    yield Terms(tuple((f"{time(ns):>{_TIME_WIDTH}}", text) for ns, text in _steps(path, total)))


def _steps(path: CriticalPath, total: int) -> Iterator[tuple[int, str]]:
    skipped: list[dict[str, Any]] = []
    for row in path.to_dict():
        if row["added_ns"] < _SHARE * total and row["dependency"] in _FREQUENT:
            skipped.append(row)
            continue
        yield from _summed(skipped)
        skipped = []
        what, after = (_short(row[name]) for name in ("what", "after"))
        same = what.removesuffix(", end") == after.removesuffix(", start")  # a call or work from its start to its end
        ends = after.removesuffix(", start") if same else f"{what}  after  {after}"
        yield row["added_ns"], f"{_kind(row)}: {ends}"
    yield from _summed(skipped)


def _summed(rows: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    """The kinds and the time of short dependencies in a row."""
    if rows:
        yield sum(row["added_ns"] for row in rows), ", ".join(dict.fromkeys(map(_kind, rows)))


def _kind(row: dict[str, Any]) -> str:
    return f"{row['dependency']} (inferred)" if row["inferred"] else str(row["dependency"])


def _short(name: str) -> str:
    """A node's name without control characters; long names of kernels are cut."""
    name, _, place = safe(name).rpartition(" on ")
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
    return f"{short} on {place}"
