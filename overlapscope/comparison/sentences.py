"""What a comparison says first: what came of the change, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from overlapscope.comparison.config import CompareConfig
from overlapscope.comparison.figures import Figure, Spread
from overlapscope.comparison.side import Side
from overlapscope.comparison.why import Reason, Why
from overlapscope.formatting import safe, share, time, time_unit

_FEW = 20  # units: below that, an amount has decimals


def change_sentence(wall: Figure, verdict: str, before: Side, after: Side, config: CompareConfig) -> str:
    """How the time changed, or that it did not."""
    if wall.before is None or wall.after is None:
        return ""
    times = f"{time(wall.before.median)} -> {time(wall.after.median)} ({percent(wall.share)})"
    basis = ", without the profiler" if before.unprofiled else ", as recorded"
    each = f" for each {safe(before.typical.window.name or '')}" if before.per_occurrence else ""
    if verdict == "other-work":
        return f"{times}{each}{basis}."
    if verdict == "no-change":
        return f"No change: {times}{each}{basis}; {_no_more_than(wall.before, wall.after, before, after, config)}."
    amount = time(abs(wall.after.median - wall.before.median))
    return f"{amount} {verdict}{each}: {times}{basis}."


def _no_more_than(one: Spread, two: Spread, before: Side, after: Side, config: CompareConfig) -> str:
    if min(len(before.runs), len(after.runs)) > 1:
        low, high = min(one.low, two.low), max(one.high, two.high)
        return f"the runs take {time(low)} to {time(high)}"
    return f"two runs of one program differ by up to {share(config.single_share, 1)}"


def percent(part: float | None) -> str:
    """A change as a percentage with its sign."""
    return "new" if part is None else f"{100 * part:+.0f} %" if abs(part) >= 0.1 else f"{100 * part:+.1f} %"  # noqa: PLR2004


def why_sentence(why: Why, config: CompareConfig, *, changed: bool, per_occurrence: bool = False) -> str:
    """What the change consists of; where the time did not change, what was done all the same.

    Where occurrences differ in number, those count that both sides have.
    """
    if not changed:
        done = [reason for reason in why.reasons if reason.done]
        return f"What differs: {'; '.join(_noted(done))}." if done else ""
    won = why.saved_ns > 0
    amount = _amounts(why.saved_ns)
    shown, small = _shown(why, config, amount)
    with_it = [reason for reason in shown if (reason.saved_ns > 0) == won]
    against = [reason for reason in shown if (reason.saved_ns > 0) != won]
    rest = [f"{amount(small)} by smaller parts"] if _is_some(small, amount) else []
    unexplained = f"{amount(why.unexplained_ns if won else -why.unexplained_ns)} unexplained"
    parts = [f"{amount(abs(reason.saved_ns))} by {safe(reason.words)}" for reason in with_it]
    where = " in the first ones that both have" if per_occurrence else ""
    head = f"Of {time(abs(why.saved_ns))} {'won' if won else 'lost'}{where}: {', '.join([*parts, *rest, unexplained])}"
    if against:
        other = ", ".join(f"{amount(abs(reason.saved_ns))} by {safe(reason.words)}" for reason in against)
        head += f"; {'lost' if won else 'won'} again: {other}"
    return f"{head}."


def _shown(why: Why, config: CompareConfig, amount: Amount) -> tuple[list[Reason], int]:
    """The reasons that are mentioned, and what the others make together, in the direction of the change."""
    least = config.mentioned_share * abs(why.saved_ns)
    shown = [reason for reason in why.reasons if abs(reason.saved_ns) >= least and _is_some(reason.saved_ns, amount)]
    small = sum(reason.saved_ns for reason in why.reasons if reason not in shown)
    return shown, small if why.saved_ns > 0 else -small


Amount = Callable[[float], str]


def _is_some(ns: float, amount: Amount) -> bool:
    """Whether a time is more than nothing as it is written."""
    return amount(abs(ns)) != amount(0)


def _amounts(total_ns: int) -> Amount:
    """How to write parts of a time: in its unit, with one decimal where it is a small number."""
    length, _ = time_unit([total_ns])
    decimals = int(abs(total_ns) < _FEW * length)
    return lambda ns: f"{round(ns / length, decimals) + 0.0:.{decimals}f}"


def _noted(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        yield f"{safe(reason.words)} ({time(abs(reason.saved_ns))} {'won' if reason.saved_ns >= 0 else 'lost'})"
