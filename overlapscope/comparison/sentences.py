"""What a comparison says first: what came of the change, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

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
    if verdict in {"other-work", "not-comparable"}:
        return f"{times}{each}{basis}."
    if verdict == "no-change":
        return f"No change: {times}{each}{basis}; {_no_more_than(wall.before, wall.after, before, after, config)}."
    amount = time(abs(wall.after.median - wall.before.median))
    single = min(len(before.runs), len(after.runs)) == 1 and abs(wall.share or 1) < config.tenth_share
    chance = f"; {_chance(config.tenth_share, before, after)} in one case of ten" if single else ""
    return f"{amount} {verdict}{each}: {times}{basis}{chance}."


def _no_more_than(one: Spread, two: Spread, before: Side, after: Side, config: CompareConfig) -> str:
    if min(len(before.runs), len(after.runs)) > 1:
        low, high = min(one.low, two.low), max(one.high, two.high)
        return f"the runs take {time(low)} to {time(high)}"
    return _chance(config.single_share, before, after)


def _chance(part: float, before: Side, after: Side) -> str:
    single = [label for label, side in (("before", before), ("after", after)) if len(side.runs) == 1]
    where = "a side" if len(single) > 1 else single[0]
    return f"one trace {where}: a change below {share(part, 1)} may be chance"


def percent(part: float | None) -> str:
    """A change as a percentage with its sign."""
    return "new" if part is None else f"{100 * part:+.0f} %" if abs(part) >= 0.1 else f"{100 * part:+.1f} %"  # noqa: PLR2004


def why_sentence(
    why: Why, config: CompareConfig, *, changed: bool, per_occurrence: bool = False, several: bool = False
) -> str:
    """What the change consists of; where the time did not change, what was done all the same.

    Where occurrences differ in number, those count that both sides have. Of several traces a side the typical ones do.
    """
    if not changed:
        done = [reason for reason in why.reasons if reason.done]
        return f"What differs: {'; '.join(_noted(done))}." if done else ""
    won = why.saved_ns > 0
    where = " between the typical traces" if several else ""
    where += " in the first ones that both have" if per_occurrence else ""
    with_it, against = _stated(why, config)
    head = f"Of {time(abs(why.saved_ns))} {'won' if won else 'lost'}{where}: {', '.join(with_it)}"
    return head + (f"; {'lost' if won else 'won'} again: {', '.join(against)}." if against else ".")


def _stated(why: Why, config: CompareConfig) -> tuple[list[str], list[str]]:
    """Each part with its amount, in the direction of the change and against it; what is unexplained is the last."""
    least = config.mentioned_share * abs(why.saved_ns)
    shown = [reason for reason in why.reasons if abs(reason.saved_ns) >= least]
    small = sum(reason.saved_ns for reason in why.reasons if reason not in shown)
    entries = [(f"by {safe(reason.words)}", reason.saved_ns) for reason in shown]
    entries += [(f"by others of less than {share(config.mentioned_share, 1)} each", small)]
    entries += [("unexplained", why.unexplained_ns)]
    sign = 1 if why.saved_ns > 0 else -1
    amounts = amounts_of([sign * saved for _, saved in entries])
    said = [(words, amount) for (words, _), amount in zip(entries, amounts, strict=True)]
    some = [(words, amount) for words, amount in said[:-1] if float(amount)]
    with_it = [f"{amount} {words}" for words, amount in (*some, said[-1]) if float(amount) >= 0]
    return with_it, [f"{amount.removeprefix('-')} {words}" for words, amount in (*some, said[-1]) if float(amount) < 0]


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
