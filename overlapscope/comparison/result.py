"""`Comparison` as plain data, its sentences, and its JSON form (schema ``overlapscope.compare/1``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.figures import Figure, by_key, plain, side_dict, spread_dict
from overlapscope.comparison.findings import FindingChanges
from overlapscope.comparison.ranges import RangeChange
from overlapscope.comparison.reached import Reached
from overlapscope.comparison.remarks import OTHER_WORK, Remark, is_comparable
from overlapscope.comparison.sentences import change_sentence, why_sentence
from overlapscope.comparison.side import Side
from overlapscope.comparison.why import Why
from overlapscope.comparison.work import Work
from overlapscope.model.frames import frame
from overlapscope.report.data import source

if TYPE_CHECKING:
    import pandas

SCHEMA = "overlapscope.compare/1"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two sides of traces: what changed between them, and why.

    ``why`` is None where no effect can be told, as between other work or GPUs, or a trace is not simulated.
    ``reached`` is the time that was predicted for some changes, None without any, or where no effect can be told.
    """

    before: Side
    after: Side
    figures: tuple[Figure, ...]
    findings: FindingChanges
    ranges: tuple[RangeChange, ...]
    work: Work
    why: Why | None
    reached: Reached | None
    remarks: tuple[Remark, ...]
    config: CompareConfig

    @cached_property
    def wall(self) -> Figure:
        """The time of the window: without the profiler where that is known of all traces, else as recorded."""
        return by_key(self.figures)["wall_ns"]

    @property
    def same_work(self) -> bool:
        """Whether both sides do the same work, so that the change of the time is one of the program."""
        return all(remark.code != OTHER_WORK for remark in self.remarks)

    @property
    def comparable(self) -> bool:
        """Whether the change of the time can be the effect of a change of the program."""
        return is_comparable(self.remarks)

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``no-change``; ``other-work`` or ``not-comparable`` where no effect can be told."""
        if not self.same_work:
            return "other-work"
        if not self.comparable:
            return "not-comparable"
        if not self.wall.changed:
            return "no-change"
        return "faster" if (self.wall.change or 0) < 0 else "slower"

    @property
    def sentence(self) -> str:
        """What came of the change, and why, in a few sentences."""
        said = [change_sentence(self.wall, self.verdict, self.before, self.after, self.config)]
        if self.why is not None:
            said.append(
                why_sentence(
                    self.why,
                    self.config,
                    changed=self.wall.changed,
                    per_occurrence=self.before.per_occurrence,
                    several=max(len(side.runs) for side in (self.before, self.after)) > 1,
                )
            )
        if self.reached is not None:
            said.append(self.reached.sentence)
        return " ".join(text for text in said if text)

    def __repr__(self) -> str:
        return f"<Comparison: {self.sentence}>"

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON-ready data."""
        return {
            "schema": SCHEMA,
            "warnings": [remark.to_dict() for remark in self.remarks],
            "before": self._side(self.before)
            | {"figures": side_dict(self.figures, lambda figure: figure.before)}
            | {"spread": spread_dict(self.figures, lambda figure: figure.before)},
            "after": self._side(self.after)
            | {"figures": side_dict(self.figures, lambda figure: figure.after)}
            | {"spread": spread_dict(self.figures, lambda figure: figure.after)},
            "change": {
                "verdict": self.verdict,
                "sentence": self.sentence,
                "figures": {each.key: None if each.change is None else plain(each.change) for each in self.figures},
                "changed": [figure.key for figure in self.figures if figure.changed],
            },
            "why": None if self.why is None else self.why.to_dict(),
            "predicted": None if self.reached is None else self.reached.to_dict(),
            "findings": self.findings.to_dict(),
            "ranges": [entry.to_dict() for entry in self.ranges],
            "work": self.work.to_dict(),
        }

    @staticmethod
    def _side(side: Side) -> dict[str, Any]:
        run = side.typical
        return {
            "traces": [source(each.trace) for each in side.runs],
            "typical": run.trace.metadata.path,
            "window": run.window.name,
            "occurrences": run.occurrences,
            "per_occurrence": side.per_occurrence,
            "baseline": "unprofiled" if side.unprofiled else "recorded",
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The figures, one per row: before, after, change, and whether that is more than the spread."""
        return frame(
            {
                "figure": figure.key,
                "before": None if figure.before is None else plain(figure.before.median),
                "after": None if figure.after is None else plain(figure.after.median),
                "change": None if figure.change is None else plain(figure.change),
                "changed": figure.changed,
            }
            for figure in self.figures
        )
