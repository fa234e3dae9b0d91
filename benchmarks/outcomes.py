"""What was predicted for programs, and what came of it: as data, in a file, as tables."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

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
    before_ms: float
    after_ms: float
    timed_ms: float | None
    unprofiled: bool

    @property
    def error(self) -> float:
        """Share by which the prediction is too long."""
        return self.predicted_ms / self.after_ms - 1

    @property
    def label(self) -> str:
        """The program's name; of programs with several variants, those that are compared."""
        name, _, variant = self.faulty.partition("-")
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


def _rounded(row: Outcome) -> dict[str, object]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(row).items()}


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
