"""Write docs/speed.md: its text, and tables of benchmarks/speed.json.

python docs/make_speed.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.speed.__main__ import FILE, exponents
from benchmarks.speed.phases import ALONE, FLOORS, OTHERS

TARGET = Path(__file__).with_name("speed.md")
HEAD = """# How fast it is

Made by `docs/make_speed.py` from `benchmarks/speed.json`; do not edit. `make bench` writes both anew.

Measured on {date} on {cores} cores of {processor} with {memory} GB, {system}, Python {python}, on a made trace of
{events} events ({megabytes} MB, from `sample_traces/{source}.json.gz`). Each part ran {runs} times in a process of its
own, in turn with the others, without what has to be there before it: *audit* is without opening. What counts is the
processor's time, which changes little with what else a machine does. Compare ratios, and only within this run.
"""
WORDS = {
    "make the trace": "making the trace (`benchmarks/big_trace.py`)",
    "open": "`open_trace`",
    ALONE: "`open_trace` with `processes=1`",
    "graph": "dependencies: `build_graph`",
    "audit": "`audit` without simulating fixes",
    "what-if": "`what_if` of two changes, with its dependencies and bounds",
    "audit with plan": "`audit` with a plan",
    "figure": "a timeline as PNG",
    "report": "the page of a report, without its audit",
    "compare": "`compare` with the fixed program, both audits and plans in it",
    "fleet map": "a trace of a fleet: opened, audited, its rows",
}


def rows(found: dict[str, Any]) -> Iterator[str]:
    """The parts, then what nothing can be faster than, then others."""
    yield "| | CPU s | spread | wall s | peak MB | CPU, opening is 1 |"
    yield "|---|---|---|---|---|---|"
    base = _middle(found["parts"]["open"], "cpu_s")
    for name, runs in found["parts"].items():
        cpu = [run["cpu_s"] for run in runs]
        words = WORDS.get(name, f"*{name}*" if name in FLOORS | OTHERS else name)
        spread = f"{min(cpu):.2f} to {max(cpu):.2f}"
        wall, peak = _middle(runs, "wall_s"), _middle(runs, "peak_mb")
        yield f"| {words} | {median(cpu):.2f} | {spread} | {wall:.2f} | {peak:.0f} | {median(cpu) / base:.2f} |"


def opening(found: dict[str, Any]) -> Iterator[str]:
    """How long a big trace takes to open, here and elsewhere."""
    parts = found["big"]["parts"]
    yield f"\n## A trace of {found['big']['megabytes']} MB\n"
    yield "Opened on all cores, on one, and by others; those ran once. Peaks are those of the largest process.\n"
    yield "| | wall s | CPU s | peak MB | wall, opening is 1 |"
    yield "|---|---|---|---|---|"
    base = _middle(parts["open"], "wall_s")
    for name, runs in parts.items():
        wall, cpu, peak = (_middle(runs, key) for key in ("wall_s", "cpu_s", "peak_mb"))
        words = WORDS.get(name, f"*{name}*")
        yield f"| {words} | {wall:.2f} | {cpu:.2f} | {peak:.0f} | {wall / base:.2f} |"


def growth(found: dict[str, Any]) -> Iterator[str]:
    """Processor seconds by size, and by which power of the size they grow."""
    sizes = sorted({int(size) for times in found["scaling_cpu_s"].values() for size in times})
    yield "| events | " + " | ".join(f"{size:,}".replace(",", " ") for size in sizes) + " | powers |"
    yield "|---|" + "---|" * (len(sizes) + 1)
    for name, times in found["scaling_cpu_s"].items():
        cells = [f"{times[str(size)]:.2f} s" if str(size) in times else "" for size in sizes]
        powers = ", ".join(f"{each:.2f}" for each in exponents({int(size): time for size, time in times.items()}))
        yield f"| {WORDS[name]} | " + " | ".join(cells) + f" | {powers} |"


def _middle(runs: list[dict[str, float]], key: str) -> float:
    return median(run[key] for run in runs)


def page() -> str:
    found = json.loads(FILE.read_text())
    machine, trace = found["machine"], found["trace"]
    head = HEAD.format(
        date=found["date"],
        cores=machine["cores"],
        processor=machine["processor"],
        memory=machine["memory_gb"],
        system=machine["system"],
        python=machine["python"],
        events=f"{trace['events']:,}".replace(",", " "),
        megabytes=trace["megabytes"],
        source=trace["source"],
        runs=found["runs"],
    )
    about = (
        "Rows in *italics* are no part of overlapscope: what has to be done in any case, and others that read the same "
        "trace. Peaks are those of the whole process.\n"
    )
    grows = (
        "\n## How it grows\n\nProcessor seconds, and the power of the size by which each grows from one to the next.\n"
    )
    large = opening(found) if found.get("big") else ()
    return "\n".join([head, *rows(found), "", about.rstrip(), *large, grows, *growth(found), ""])


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        sys.exit(TARGET.read_text() != text)
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
