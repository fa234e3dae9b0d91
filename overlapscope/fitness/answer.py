"""`Check`: one question that a trace may answer, and `Answer`: whether it does, with counts and what would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from overlapscope.fitness.settings import Setting
from overlapscope.model.frames import frame
from overlapscope.model.trace import Trace

if TYPE_CHECKING:
    import pandas

Number = int | float | None


class Verdict(StrEnum):
    """Whether a trace answers a question; ``DOES_NOT_ARISE`` where the trace has nothing that it could be asked of."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    DOES_NOT_ARISE = "does not arise"


@dataclass(frozen=True)
class Answer:
    """Whether a trace answers a question.

    Attributes:
        verdict: whether it does.
        evidence: what of the trace says so, as a phrase.
        counts: the numbers behind it.
        setting: the setting of the profiler that would help most; None where none does, or none is needed.
        brief: the numbers in a few words, for the statement.
        remark: what the reader of an audit must know, as a sentence, where the question alone does not say it.
        health: codes of the health warnings that the answer tells already.
    """

    verdict: Verdict
    evidence: str
    counts: Mapping[str, Number] = field(default_factory=lambda: MappingProxyType({}))
    setting: Setting | None = None
    brief: str = ""
    remark: str = ""
    health: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether something stays unanswered."""
        return self.verdict in (Verdict.PARTLY, Verdict.NO)


@dataclass(frozen=True)
class Check:
    """One question.

    Attributes:
        key: its name in JSON.
        question: the question.
        topic: what it asks for, in a few words: ``what streams waited for``.
        examine: how a trace is asked.
        core: whether figures and findings of an audit rest on it; else it only says where in the program they are.
        basis: whether every figure rests on it, so that nothing helps more than what makes it whole.
    """

    key: str
    question: str
    topic: str
    examine: Callable[[Trace], Answer]
    core: bool = True
    basis: bool = False


@dataclass(frozen=True)
class Answered:
    """A question with the answer of a trace, and the profiler that made the trace."""

    check: Check
    answer: Answer
    profiler: str

    @property
    def limits(self) -> bool:
        """Whether figures or findings of an audit suffer."""
        return self.check.core and self.answer.open

    def to_dict(self) -> dict[str, Any]:
        """The question and its answer as JSON-ready data: an entry of ``answers``."""
        setting = self.answer.setting
        return {
            "key": self.check.key,
            "question": self.check.question,
            "core": self.check.core,
            "verdict": str(self.answer.verdict),
            "evidence": self.answer.evidence,
            "counts": dict(self.answer.counts),
            "remark": self.answer.remark,
            "setting": None if setting is None else setting.for_profiler(self.profiler),
        }

    def row(self) -> dict[str, Any]:
        """The question and its answer as a row of a table: without its counts, the setting as what to write."""
        flat = {key: value for key, value in self.to_dict().items() if key != "counts"}
        return flat | {"setting": None if flat["setting"] is None else flat["setting"]["use"]}

    def to_pandas(self) -> pandas.DataFrame:
        """The question and its answer as a table of one row."""
        return frame([self.row()])
