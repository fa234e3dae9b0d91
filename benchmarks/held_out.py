"""Predict pairs that nobody had seen when intervals were made, and keep what came of them: held_out.json.

    python benchmarks/held_out.py FOLDER    # then: python docs/make_predictions.py

FOLDER has for each program ``NAME.truth.json``: its ``name``, its ``changes``, and ``before_ms`` and ``after_ms``, by
the process that recorded ``NAME-faulty.json.gz``, or, where ``plain`` is true, ``NAME-faulty-plain.json.gz``.
FOLDER/wild has what `benchmarks.wild.measure` wrote. The recordings are not in the repository.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.outcomes import Outcome, Outcomes
from benchmarks.prediction import outcome_of
from overlapscope import open_trace, what_if

FILE = Path(__file__).with_name("held_out.json")


def written(folder: Path) -> Iterator[Outcome]:
    """Of programs that were written for this."""
    for path in sorted(folder.glob("*.truth.json")):
        facts = json.loads(path.read_text())
        kind = "plain" if facts["plain"] else "recorded"
        trace = folder / f"{facts['name']}-faulty{'-plain' if facts['plain'] else ''}.json.gz"
        if trace.exists():
            yield _row(trace, kind, "held_out", facts | {"changes": tuple(facts["changes"])})


def wild(folder: Path) -> Iterator[Outcome]:
    """Of loops of popular libraries."""
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text())
        yield _row(
            path.with_suffix(".json.gz"), "recorded", "wild", facts | {"changes": tuple(facts["text"]["changes"])}
        )


def _row(trace: Path, traces: str, group: str, facts: dict[str, Any]) -> Outcome:
    found = what_if(open_trace(trace), facts["changes"], "step")
    named = (traces, group, f"{facts['name']}-faulty", f"{facts['name']}-fixed")
    return outcome_of(found, named, (facts["before_ms"], facts["after_ms"]))


def main() -> None:
    folder, today = Path(sys.argv[1]), datetime.datetime.now(datetime.UTC).date().isoformat()
    FILE.write_text(Outcomes("", today, (*written(folder), *wild(folder / "wild"))).to_json())


if __name__ == "__main__":
    main()
