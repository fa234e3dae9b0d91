"""What came of the loops: as data, and in a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.wild.texts import Text

FILE = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Answers:
    """How far apart two answers are: ``differing`` is a share of the elements, ``apart`` one of the largest value."""

    equal: bool
    differing: float
    apart: float


@dataclass(frozen=True)
class Times:
    """What changes are predicted to lead to, in ms of one step, with the least and the most that it may be."""

    changes: tuple[str, ...]
    predicted_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True)
class Result:
    """What came of one loop; times in ms, of one step.

    Attributes:
        name: the file in `benchmarks.wild.loops`.
        text: what is said about it.
        version: of its library, on the machine it ran on.
        gpu: that machine's.
        answers: of the fixed loop against the loop as it is.
        reference: of the loop as it is, and of the fixed one, against a third way; empty where there is none.
        before_ms: the loop as it is, without a profiler, at the median.
        after_ms: the fixed loop likewise.
        spread_ms: the shortest and the longest time of each.
        headline: the audit's, of the loop as it is.
        findings: what the audit found that costs time, the most expensive first.
        simulated_ms: the loop as it is in the simulation, with nothing changed.
        predicted: what the fix is predicted to lead to.
        plan: the steps that the audit proposes by itself.
        fix_recorded: whether the fixed loop was recorded too; it was timed in any case.
    """

    name: str
    text: Text
    version: str
    gpu: str
    answers: Answers
    reference: tuple[Answers, ...]
    before_ms: float
    after_ms: float
    spread_ms: tuple[tuple[float, float], tuple[float, float]]
    headline: str
    findings: tuple[str, ...]
    simulated_ms: float
    predicted: Times
    plan: tuple[Times, ...]
    fix_recorded: bool

    @property
    def error(self) -> float:
        """Share by which the prediction is too long."""
        return self.predicted.predicted_ms / self.after_ms - 1


def to_json(results: Sequence[Result]) -> str:
    """All of them, rounded to the microsecond."""
    rows = [{key: _rounded(value) for key, value in asdict(each).items()} for each in results]
    return json.dumps(rows, indent=1) + "\n"


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def from_json(text: str) -> tuple[Result, ...]:
    """What ``to_json`` wrote."""
    return tuple(_result(row) for row in json.loads(text))


def _result(row: dict[str, object]) -> Result:
    def times(found: object) -> Times:
        assert isinstance(found, dict)
        return Times(**(found | {"changes": tuple(found["changes"])}))

    def answers(found: object) -> Answers:
        assert isinstance(found, dict)
        return Answers(**found)

    text = row["text"]
    assert isinstance(text, dict)
    parsed = {
        "text": Text(**(text | {"changes": tuple(text["changes"])})),
        "answers": answers(row["answers"]),
        "reference": tuple(map(answers, row["reference"])),  # type: ignore[call-overload]
        "predicted": times(row["predicted"]),
        "plan": tuple(map(times, row["plan"])),  # type: ignore[call-overload]
        "findings": tuple(row["findings"]),  # type: ignore[arg-type]
    }
    return Result(**(row | parsed))  # type: ignore[arg-type]
