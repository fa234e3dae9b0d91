"""What was predicted for programs, and what came of it: as data, in a file, as tables."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WITHIN = 0.06
FILE = Path(__file__).with_name("predictions.json")


@dataclass(frozen=True)
class Outcome:
    """What was predicted for a program, and what came of it; times in ms, of one step.

    Attributes:
        traces: ``recorded``, ``nsys`` or ``plain``: what made the trace.
        group: the set that the program is of.
        faulty: the program that was traced.
        fixed: the program to which the changes lead.
        changes: what was changed in the simulation.
        measured_ms: the step in the trace.
        simulated_ms: with nothing changed, without what is known of the profiler's cost.
        predicted_ms: with the changes.
        low_ms: the least that it may be.
        high_ms: the most that it may be.
        parts_ms: what each reason adds to the interval, below and above.
        before_ms: the faulty program without a profiler.
        after_ms: the fixed program without a profiler.
        timed_ms: another such time of the faulty program, by the process that recorded it; None where it has none.
        unprofiled: whether the trace knows what the profiler cost.
    """

    traces: str
    group: str
    faulty: str
    fixed: str
    changes: tuple[str, ...]
    measured_ms: float
    simulated_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float
    parts_ms: dict[str, tuple[float, float]]
    before_ms: float
    after_ms: float
    timed_ms: float | None
    unprofiled: bool

    @property
    def error(self) -> float:
        """Share by which the prediction is too long."""
        return self.predicted_ms / self.after_ms - 1

    @property
    def inside(self) -> bool:
        """Whether the interval holds the fixed program's time."""
        return self.low_ms <= self.after_ms <= self.high_ms

    @property
    def width(self) -> float:
        """Of the interval, as a share of what is predicted."""
        return (self.high_ms - self.low_ms) / self.predicted_ms

    @property
    def program(self) -> str:
        """The program, whatever its variant."""
        return self.faulty.partition("-")[0]

    @property
    def label(self) -> str:
        """The program's name; of programs with several variants, those that are compared."""
        name, variant = self.program, self.faulty.partition("-")[2]
        return name if variant == "faulty" else f"{name}: {variant}, {self.fixed.removeprefix(name + '-')}"


@dataclass(frozen=True)
class Outcomes:
    """All of them: the commit whose recordings they are from, the day, and one row for each program and trace."""

    recordings: str
    written: str
    rows: tuple[Outcome, ...]

    def to_json(self) -> str:
        """One line a row, so that changes can be read."""
        rows = ",\n".join(f"  {json.dumps(_rounded(row))}" for row in self.rows)
        head = f' "recordings": "{self.recordings}",\n "written": "{self.written}",\n'
        return f'{{\n{head} "rows": [\n{rows}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Outcomes:
        """What ``to_json`` wrote."""
        found = json.loads(text)
        rows = (Outcome(**{**row, "changes": tuple(row["changes"])}) for row in found["rows"])
        return cls(found["recordings"], found["written"], tuple(rows))


def _rounded(value: Any) -> Any:
    """To a microsecond."""
    if isinstance(value, Outcome | dict):
        entries = value if isinstance(value, dict) else asdict(value)
        return {key: _rounded(entry) for key, entry in entries.items()}
    if isinstance(value, tuple | list):
        return [_rounded(entry) for entry in value]
    return round(value, 3) if isinstance(value, float) else value


BY_CHANCE = ("host", "link", "device")
"""Parts that add in quadrature; those of the other reasons are added up."""
NINE_OF_TEN = 0.9


@dataclass(frozen=True)
class Coverage:
    """How many of some intervals hold the fixed program's time, and how wide they are at the median.

    ``left_out`` are as many with each program left out: what the other programs' times differ by scales the parts of
    its intervals, so that nine of ten of theirs would hold. ``scales`` are the least and the largest of these factors.
    """

    count: int
    inside: int
    width: float
    wide: int
    left_out: int
    scales: tuple[float, float]

    @classmethod
    def of(cls, rows: Sequence[Outcome], wide: float = 0.5) -> Coverage:
        """Of at least two programs."""
        needed = {id(row): _needed(row) for row in rows}
        scale_of = {
            program: _quantile([needed[id(row)] for row in rows if row.program != program])
            for program in {row.program for row in rows}
        }
        return cls(
            len(rows),
            sum(row.inside for row in rows),
            statistics.median(row.width for row in rows),
            sum(row.width > wide for row in rows),
            sum(needed[id(row)] <= scale_of[row.program] for row in rows),
            (min(scale_of.values()), max(scale_of.values())),
        )


def _needed(row: Outcome) -> float:
    """By which factor all parts have to be longer or shorter so that the interval just holds the time."""
    side, off = (
        (0, row.predicted_ms - row.after_ms)
        if row.after_ms < row.predicted_ms
        else (1, row.after_ms - row.predicted_ms)
    )
    added = math.hypot(*(part[side] for reason, part in row.parts_ms.items() if reason in BY_CHANCE))
    added += sum(part[side] for reason, part in row.parts_ms.items() if reason not in BY_CHANCE)
    return off / added if added else math.inf


def _quantile(values: Sequence[float]) -> float:
    """Which of some values nine of ten do not exceed."""
    return sorted(values)[max(math.ceil(NINE_OF_TEN * len(values)) - 1, 0)]


@dataclass(frozen=True)
class Summary:
    """How near a set of predictions is; shares of the fixed programs' times.

    ``simulated`` is how far the simulation with nothing changed is from the faulty program's own time, at the median
    over those whose trace knows what the profiler cost; ``timed`` how far another measurement of that time is.
    """

    count: int
    within: int
    median: float
    worst: Outcome
    simulated: float | None
    timed: float | None

    @classmethod
    def of(cls, rows: Sequence[Outcome]) -> Summary:
        """Summarise at least one row."""
        errors = [abs(row.error) for row in rows]
        return cls(
            len(rows),
            sum(error <= WITHIN for error in errors),
            statistics.median(errors),
            max(rows, key=lambda row: abs(row.error)),
            _median(abs(row.simulated_ms / row.before_ms - 1) for row in rows if row.unprofiled),
            _median(abs(row.timed_ms / row.before_ms - 1) for row in rows if row.timed_ms is not None),
        )

    @property
    def sentence(self) -> str:
        """All of it as one sentence."""
        text = (
            f"{self.count} pairs: {self.within} within {100 * WITHIN:.0f} % of the fixed program's time, "
            f"{100 * self.median:.1f} % at the median, {100 * self.worst.error:+.0f} % at worst ({self.worst.label})"
        )
        if self.simulated is not None:
            text += f". Simulated without the profiler, nothing changed: {100 * self.simulated:.1f} % from its own time"
        if self.timed is not None:
            text += f"; another measurement of that: {100 * self.timed:.1f} %"
        return text + "."


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.median(known) if known else None


def table(rows: Iterable[Outcome]) -> Iterator[str]:
    """Markdown, a line for each row."""
    yield "| program | changes | error | predicted, ms | low to high | fixed, ms | faulty, ms | simulated, ms |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        predicted, low, high = (f"{ms:.1f}" for ms in (row.predicted_ms, row.low_ms, row.high_ms))
        bounds = f"{low} to {high}" if low != high else ""
        times = f"{row.after_ms:.1f} | {row.before_ms:.1f} | {row.simulated_ms:.1f}"
        error = f"{100 * row.error:+.1f}\N{NO-BREAK SPACE}%"
        yield f"| {row.label} | {', '.join(row.changes)} | {error} | {predicted} | {bounds} | {times} |"
