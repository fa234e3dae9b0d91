"""`Comparison`: two sides as plain data, its sentences, and its JSON form (schema ``overlapscope.compare/2``)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from overlapscope.comparison.figures import (
    MENTIONED_SHARE,
    SINGLE_SHARE,
    TENTH_SHARE,
    Figure,
    RangeChange,
    Spread,
    by_key,
    plain,
)
from overlapscope.comparison.findings import FindingChanges
from overlapscope.comparison.reached import Reached
from overlapscope.comparison.remarks import OTHER_WORK, Remark, is_comparable
from overlapscope.comparison.side import Side
from overlapscope.comparison.why import Reason, Why
from overlapscope.comparison.work import Work
from overlapscope.formatting import safe, share, time, time_unit
from overlapscope.model.frames import frame
from overlapscope.report.data import source

if TYPE_CHECKING:
    import pandas

SCHEMA = "overlapscope.compare/2"
_FEW = 20  # units: below that, an amount has decimals
_LARGE_SHARE = 0.1  # changes from it on are written without decimals


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two sides of traces: what changed between them, and why.

    ``why`` is None where no effect can be told, as between other work or GPUs.
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
        said = [_change_sentence(self.wall, self.verdict, self.before, self.after)]
        if self.why is not None:
            several = max(len(side.runs) for side in (self.before, self.after)) > 1
            per_occurrence = self.before.per_occurrence
            said.append(
                _why_sentence(self.why, changed=self.wall.changed, per_occurrence=per_occurrence, several=several)
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
            "before": _side(self.before, {figure.key: figure.before for figure in self.figures}),
            "after": _side(self.after, {figure.key: figure.after for figure in self.figures}),
            "change": {
                "verdict": self.verdict,
                "sentence": self.sentence,
                "figures": {figure.key: plain(figure.change) for figure in self.figures},
                "changed": [figure.key for figure in self.figures if figure.changed],
            },
            "why": None if self.why is None else self.why.to_dict(),
            "predicted": None if self.reached is None else self.reached.to_dict(),
            "findings": self.findings.to_dict(),
            "ranges": [entry.to_dict() for entry in self.ranges],
            "work": self.work.to_dict(),
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The figures, one per row: before, after, change, and whether that is more than the spread."""
        return frame(
            {
                "figure": figure.key,
                "before": None if figure.before is None else plain(figure.before.median),
                "after": None if figure.after is None else plain(figure.after.median),
                "change": plain(figure.change),
                "changed": figure.changed,
            }
            for figure in self.figures
        )


def _side(side: Side, spreads: Mapping[str, Spread | None]) -> dict[str, Any]:
    """One side as JSON-ready data, with the spreads of its figures."""
    run = side.typical
    return {
        "traces": [source(each.trace) for each in side.runs],
        "typical": run.trace.metadata.path,
        "window": run.window.name,
        "occurrences": run.occurrences,
        "per_occurrence": side.per_occurrence,
        "baseline": "unprofiled" if side.unprofiled else "recorded",
        "figures": {key: None if spread is None else plain(spread.median) for key, spread in spreads.items()},
        "spread": {
            key: None if spread is None else [plain(spread.low), plain(spread.high)] for key, spread in spreads.items()
        },
    }


def _change_sentence(wall: Figure, verdict: str, before: Side, after: Side) -> str:
    """The sentence on how the time changed, or that it did not."""
    if wall.before is None or wall.after is None:
        return ""
    times = f"{time(wall.before.median)} -> {time(wall.after.median)} ({percent(wall.share)})"
    basis = ", without the profiler" if before.unprofiled else ", as recorded"
    each = f" for each {safe(before.typical.window.name or '')}" if before.per_occurrence else ""
    if verdict in {"other-work", "not-comparable"}:
        return f"{times}{each}{basis}."
    if verdict == "no-change":
        return f"No change: {times}{each}{basis}; {_no_more_than(wall.before, wall.after, before, after)}."
    amount = time(abs(wall.after.median - wall.before.median))
    single = min(len(before.runs), len(after.runs)) == 1 and abs(wall.share or 1) < TENTH_SHARE
    chance = f"; {_chance(TENTH_SHARE, before, after)} in one case of ten" if single else ""
    return f"{amount} {verdict}{each}: {times}{basis}{chance}."


def _no_more_than(one: Spread, two: Spread, before: Side, after: Side) -> str:
    if min(len(before.runs), len(after.runs)) > 1:
        low, high = min(one.low, two.low), max(one.high, two.high)
        return f"the runs take {time(low)} to {time(high)}"
    return _chance(SINGLE_SHARE, before, after)


def _chance(part: float, before: Side, after: Side) -> str:
    single = [label for label, side in (("before", before), ("after", after)) if len(side.runs) == 1]
    where = "a side" if len(single) > 1 else single[0]
    return f"one trace {where}: a change below {share(part, 1)} may be chance"


def percent(part: float | None) -> str:
    """A change as a percentage with its sign."""
    return "new" if part is None else f"{100 * part:+.0f} %" if abs(part) >= _LARGE_SHARE else f"{100 * part:+.1f} %"


def _why_sentence(why: Why, *, changed: bool, per_occurrence: bool, several: bool) -> str:
    """The sentence on what the change consists of; where the time did not change, on what was done all the same.

    Where occurrences differ in number, those count that both sides have. Of several traces a side the typical ones do.
    """
    if not changed:
        done = [reason for reason in why.reasons if reason.done]
        return f"What differs: {'; '.join(_noted(done))}." if done else ""
    won = why.saved_ns > 0
    where = " between the typical traces" if several else ""
    where += " in the first ones that both have" if per_occurrence else ""
    with_it, against = _stated(why)
    head = f"Of {time(abs(why.saved_ns))} {'won' if won else 'lost'}{where}: {', '.join(with_it)}"
    return head + (f"; {'lost' if won else 'won'} again: {', '.join(against)}." if against else ".")


def _stated(why: Why) -> tuple[list[str], list[str]]:
    """The parts with their amounts, in the direction of the change and against it; what is unexplained is the last."""
    least = MENTIONED_SHARE * abs(why.saved_ns)
    shown = [reason for reason in why.reasons if abs(reason.saved_ns) >= least]
    small = sum(reason.saved_ns for reason in why.reasons if reason not in shown)
    entries = [(f"by {safe(reason.words)}", reason.saved_ns) for reason in shown]
    entries += [(f"by others of less than {share(MENTIONED_SHARE, 1)} each", small)]
    entries += [("unexplained", why.unexplained_ns)]
    sign = 1 if why.saved_ns > 0 else -1
    amounts = amounts_of([sign * saved for _, saved in entries])
    said = [(words, amount) for (words, _), amount in zip(entries, amounts, strict=True)]
    nonzero = [(words, amount) for words, amount in said[:-1] if float(amount)]
    with_it = [f"{amount} {words}" for words, amount in (*nonzero, said[-1]) if float(amount) >= 0]
    against = [(words, amount.removeprefix("-")) for words, amount in (*nonzero, said[-1]) if float(amount) < 0]
    return with_it, [f"{amount} {words}" for words, amount in against]


def amounts_of(parts_ns: Sequence[int]) -> list[str]:
    """Parts of a time as numbers that add up to it as it is written, in its unit: the largest remainders are raised.

    >>> amounts_of([28_400_000, 16_400_000, 300_000])
    ['28.4', '16.4', '0.3']
    >>> amounts_of([333_400_000, 333_300_000, 333_300_000, -1_000])
    ['334', '333', '333', '0']
    """
    number = time(sum(parts_ns)).split()[0]
    decimals = len(number.partition(".")[2]) or int(abs(float(number)) < _FEW)
    step = time_unit([sum(parts_ns)])[0] / 10**decimals
    exact = [part / step for part in parts_ns]
    whole = [math.floor(value) for value in exact]
    missing = round(float(number) * 10**decimals) - sum(whole)
    rising = sorted(range(len(exact)), key=lambda index: whole[index] - exact[index])
    for index in rising[: max(missing, 0)]:
        whole[index] += 1
    return [f"{value / 10**decimals:.{decimals}f}" for value in whole]


def _noted(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        sign = "won" if reason.saved_ns > 0 else "lost"
        yield safe(reason.words) + (f" ({time(abs(reason.saved_ns))} {sign})" if reason.saved_ns else "")
