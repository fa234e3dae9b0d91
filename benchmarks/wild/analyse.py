"""Diagnose what `measure` recorded, predict the fixes, and draw each loop as it is and fixed.

    python -m benchmarks.wild.analyse FOLDER        # writes results.json, and the figures of docs/wild.md

Needs neither a GPU nor the libraries.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.wild.figure import draw
from benchmarks.wild.results import FILE, Answers, Result, Times, to_json
from benchmarks.wild.texts import Text
from overlapscope import Audit, Prediction, Trace, audit, open_trace, what_if
from overlapscope.diagnosis.finding import Step

FIGURES = Path(__file__).resolve().parent.parent.parent / "docs" / "images" / "wild"
RANGE = "step"
AS_IT_IS, FIXED = "as it is", "fixed"
ENDINGS = {AS_IT_IS: ".json.gz", FIXED: "-fixed.json.gz"}


def result(facts: dict[str, Any], trace: Trace, *, fix_recorded: bool) -> Result:
    """What came of a loop, from what was measured and from the trace of the loop as it is."""
    found = audit(trace, RANGE)
    steps = len(found.window.start_ns)
    text = Text(**facts["text"])
    predicted = what_if(trace, text.changes, RANGE)
    references = facts.get("reference", {})
    return Result(
        name=facts["name"],
        text=text,
        version=facts["version"],
        gpu=facts["machine"]["gpu"],
        answers=Answers(**facts["answers"]),
        reference=tuple(Answers(**references[way]) for way in ("before", "after") if references),
        before_ms=facts["before_ms"],
        after_ms=facts["after_ms"],
        spread_ms=facts["spread_ms"],
        headline=found.headline,
        findings=_findings(found),
        simulated_ms=predicted.unprofiled.simulated_ns / steps / 1e6,
        predicted=_predicted(predicted, steps),
        plan=_plan(found, steps),
        fix_recorded=fix_recorded,
    )


def _findings(found: Audit) -> tuple[str, ...]:
    return tuple(f"{each.title}: {each.message}" for each in found.diagnosis.findings if each.severity != "info")


def _predicted(found: Prediction, steps: int) -> Times:
    own = found.unprofiled
    times = (each / steps / 1e6 for each in (own.predicted_ns, own.low_ns, own.high_ns))
    return Times(tuple(map(str, found.changes)), *times)


def _plan(found: Audit, steps: int) -> tuple[Times, ...]:
    plan = found.diagnosis.plan
    return () if plan is None else tuple(_times(step, steps) for step in plan.steps)


def _times(step: Step, steps: int) -> Times:
    return Times(step.changes, *(each / steps / 1e6 for each in (step.time_ns, step.time_low_ns, step.time_high_ns)))


def _traces(facts: Path) -> dict[str, Trace]:
    """The traces beside a file of facts, by what they are of."""
    paths = {label: facts.with_name(facts.stem + end) for label, end in ENDINGS.items()}
    return {label: open_trace(path) for label, path in paths.items() if path.exists()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    results = []
    FIGURES.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.folder.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        traces = _traces(path)
        if AS_IT_IS not in traces:
            print(f"{path.stem}: not recorded")
            continue
        results.append(result(facts, traces[AS_IT_IS], fix_recorded=FIXED in traces))
        draw(traces, RANGE, FIGURES / f"{path.stem}.png")
        print(f"{path.stem}: {results[-1].headline}")
    FILE.write_text(to_json(results), encoding="utf-8")


if __name__ == "__main__":
    main()
