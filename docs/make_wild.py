"""Write docs/wild.md from benchmarks/wild/results.json, and from what was noted about single loops.

python docs/make_wild.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.wild.notes import NOT_MEASURED, NOTES, OTHERWISE, TAUGHT
from benchmarks.wild.results import FILE, Answers, Result, Times, from_json

TARGET = Path(__file__).with_name("wild.md")
ROUNDING = 1e-4
"""Answers that are nearer than this share of the largest value differ by rounding: the order of sums, say."""
SMALL = 0.03
"""A change of a loop's time by less than this share is within what two measurements differ by."""
MARK = "\N{DAGGER}"
"""Of a loop whose fix is not the predicted change."""
HEAD = """# What we found in popular libraries

Made by `docs/make_wild.py` from `benchmarks/wild/results.json` and `notes.py`; do not edit.

Each of these {count} loops uses a library as it is: its released version, its defaults or a documented option. Weights
are random, data are made up. The loop was timed and recorded as it is, and the audit diagnosed the trace. Then the fix
was really made, by a switch of the library or by a patch of a few lines, and timed in turns with the loop as it is.
Both were built from the same seed, and the answers of their first three steps were compared.

Times are of one step without a profiler, medians of ten (five where a step takes longer than 300 ms), on one {gpus}.
*Predicted* is what `what-if` says of the fix, from the trace of the loop as it is alone, with
[its interval](predictions.md#what-the-interval-means). *Error* compares it with the time that the fix reached.

Rows with {mark} have a fix that is not the predicted change: a change is made wherever it applies, while a fix may make
it in some places only, or in none, or do something else too. Their error is that of both, and the reason stands below.

The headlines are those of the audit, word for word; they are about two recorded steps. The figures show the last of
them. The fixed loop was recorded second, and profiling a process again makes its calls slower.

What the loops say about the tool:

{taught}

"""


def page(results: Sequence[Result]) -> str:
    """The page, the largest gains first."""
    ordered = sorted(results, key=lambda each: each.after_ms / each.before_ms)
    gpus = " or ".join(sorted({each.gpu for each in results}))
    lines = [*_table(ordered), *(line for each in ordered for line in _section(each)), *_not_measured()]
    taught = "\n".join(_wrapped(f"- {each}", "  ") for each in (TAUGHT[0], _inside(results), *TAUGHT[1:]))
    return HEAD.format(count=len(results), gpus=gpus, taught=taught, mark=MARK) + "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str = "") -> str:
    return fill(" ".join(text.split()), 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _inside(results: Sequence[Result]) -> str:
    """How many loops reached a time in the interval, and how much that says."""
    inside = [each for each in results if _has(each.predicted, each.after_ms)]
    same = sum(_has(each.predicted, each.before_ms) for each in inside)
    outside = ", ".join(f"`{each.name}`" for each in results if each not in inside)
    width = median((each.predicted.high_ms - each.predicted.low_ms) / each.predicted.predicted_ms for each in results)
    return (
        f"The time reached is in the interval in {len(inside)} of {len(results)} loops, all but {outside}. In {same} "
        f"of the {len(inside)} so is the time of the loop as it is: they say little. The median width is "
        f"{100 * width:.0f} %. None of these intervals is blind: "
        "[reasons were added](predictions.md#what-the-interval-means) that these loops had shown to be missing."
    )


def _has(times: Times, reached_ms: float) -> bool:
    return times.low_ms <= reached_ms <= times.high_ms


def _table(results: Sequence[Result]) -> Iterator[str]:
    yield "| library | loop | as it is, ms | predicted, ms | reached, ms | error | answers |"
    yield "|---|---|---|---|---|---|---|"
    for each in results:
        link = f"[{each.text.title}](#{_anchor(each)})"
        times = f"{_ms(each.before_ms)} | {_with_bounds(each.predicted)} | {_ms(each.after_ms)}"
        error = f"{100 * each.error:+.0f}\N{NO-BREAK SPACE}%" + (MARK if each.name in OTHERWISE else "")
        yield f"| {each.text.package} | {link} | {times} | {error} | {_equal(each)} |"
    yield ""


def _heading(each: Result) -> str:
    return f"{each.text.package}: {each.text.title}"


def _anchor(each: Result) -> str:
    kept = (char for char in _heading(each).lower().replace(" ", "-") if char.isalnum() or char in "-_")
    return "".join(kept)


def _section(each: Result) -> Iterator[str]:
    text = each.text
    yield f"## {_heading(each)}\n"
    yield _wrapped(f"{text.package} {each.version}. {text.does}") + "\n"
    yield f"> {each.headline}\n"
    yield _wrapped(f"The fix, {text.kind}: {_lower(text.fix)}") + "\n"
    yield "```diff"
    yield from (f"- {line}" for line in text.before.split("\n"))
    yield from (f"+ {line}" for line in text.after.split("\n"))
    yield "```\n"
    yield _wrapped(f"{_outcome(each)} {_answers(each)}") + "\n"
    if each.name in OTHERWISE:
        yield _wrapped(f"{MARK} The fix is not the predicted change. {OTHERWISE[each.name]}") + "\n"
    shown = "as it is, above the same loop fixed" if each.fix_recorded else "as it is; fixed, it was timed only"
    yield f"![Timeline of the last step of the loop {shown}](images/wild/{each.name}.png)\n"
    yield _wrapped(NOTES[each.name]) + "\n"


def _not_measured() -> Iterator[str]:
    yield "## To be measured again\n"
    yield from (_wrapped(f"- {reason}", "  ") for reason in NOT_MEASURED.values())


def _lower(sentence: str) -> str:
    """The sentence as one that goes on after a colon; names in code keep their first letter."""
    return sentence[0].lower() + sentence[1:]


def _outcome(each: Result) -> str:
    gained = 1 - each.after_ms / each.before_ms
    if abs(gained) < SMALL:
        came = "no more than two measurements differ by"
    elif gained < 0:
        came = f"{-100 * gained:.0f} % slower"
    else:
        came = f"{100 * gained:.0f} % less"
    return (
        f"As it is a step takes {_ms(each.before_ms)} ms. `{' + '.join(each.predicted.changes)}` is predicted to take "
        f"{_with_bounds(each.predicted)} ms; the fix takes {_ms(each.after_ms)} ms, {came}."
    )


def _with_bounds(times: Times) -> str:
    low, high = _ms(times.low_ms), _ms(times.high_ms)
    bounds = "" if low == high else f" ({low} to {high})"
    return f"{_ms(times.predicted_ms)}{bounds}"


def _ms(value: float) -> str:
    return f"{float(f'{value:.3g}'):g}"


def _equal(each: Result) -> str:
    if each.reference:
        before, after = (_words(found) for found in each.reference)
        return f"{before} as it is, {after} fixed"
    return _words(each.answers)


def _words(found: Answers) -> str:
    if found.equal:
        return "equal"
    return "equal but for rounding" if found.apart < ROUNDING else f"{_share(found)} differ"


def _share(found: Answers) -> str:
    return f"{100 * found.differing:.0f}\N{NO-BREAK SPACE}%"


def _answers(each: Result) -> str:
    if each.reference:
        before, after = (_difference(found) for found in each.reference)
        return f"Against a loop that keeps everything on the GPU: as it is, {before}; fixed, {after}."
    return f"In the answers, {_difference(each.answers)}."


def _difference(found: Answers) -> str:
    if found.equal:
        return "all elements are equal"
    size = f", by up to {found.apart:.1e} of the largest" if found.apart < ROUNDING else ""
    return f"{_share(found)} of the elements differ{size}"


def main() -> None:
    """Write the page, or check it."""
    text = page(from_json(FILE.read_text(encoding="utf-8")))
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit("docs/wild.md is out of date: run python docs/make_wild.py")


if __name__ == "__main__":
    main()
