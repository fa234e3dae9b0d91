"""Measure every part on a made trace, and write benchmarks/speed.json; docs/make_speed.py makes a page of it.

    python -m benchmarks.speed [--events 200000] [--runs 3] [--largest 1000000] [--big 1000] [--hta PYTHON]
        [--tracelens FOLDER] [--perfetto TRACE_PROCESSOR]

Each part runs in a process of its own. The parts take turns, so that a machine that is busy for a while is so for all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.big_trace import make
from benchmarks.speed.phases import ALONE, FLOORS, PARTS

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "benchmarks" / "speed.json"
SAMPLES = ROOT / "sample_traces"
SOURCES = {"before": "moe_prefetch-pageable", "after": "moe_prefetch-pinned-non-blocking"}
GROWING = ("open", "graph", "audit", "what-if", "audit with plan", "report")
SMALLEST = 10_000
LIMIT_S = 900

Runs = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Part:
    """What `phases` calls it, what it is given, and the interpreter and further folder of modules that it needs."""

    name: str
    paths: list[Path]
    python: str = sys.executable
    also: str = ""


def run_part(part: Part) -> dict[str, float] | None:
    """What one part takes; None where it fails, with the reason on the error stream."""
    command = [part.python, "-m", "benchmarks.speed.phases", part.name, *map(str, part.paths)]
    folders = [str(ROOT), part.also, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=LIMIT_S
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        reason = (error.stderr or "").strip() if isinstance(error, subprocess.CalledProcessError) else "took too long"
        print(f"{part.name}: left out: {reason.splitlines()[-1] if reason else 'failed'}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_turn(parts: list[Part], runs: int) -> Runs:
    """What each part takes, as often as asked for; a part that fails is left out."""
    found: Runs = {part.name: [] for part in parts}
    for part in [each for _ in range(runs) for each in parts]:
        if part.name not in found:
            continue
        once = run_part(part)
        if once is None:
            del found[part.name]
        else:
            found[part.name].append(once)
    return found


def others(path: Path, options: argparse.Namespace) -> list[Part]:
    """Other programs that are at hand."""
    found = []
    if options.hta:
        found.append(Part("HTA parse_traces", [path], options.hta))
    if options.tracelens:
        found.append(Part("TraceLens TreePerfAnalyzer", [path], options.python, options.tracelens))
    if options.perfetto:
        found.append(Part("Perfetto trace_processor", [path, Path(options.perfetto)]))
    return found


def side_by_side(traces: dict[str, Path], options: argparse.Namespace) -> Runs:
    """All parts, floors and other programs in turn."""
    before = traces["before"]
    own = [Part(name, list(traces.values()) if name == "compare" else [before]) for name in PARTS]
    return in_turn([*own, *(Part(name, [before]) for name in FLOORS), *others(before, options)], options.runs)


def big(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Opening a big trace on all cores and on one; others take minutes for it, and do so once."""
    path = folder / "big.json"
    make(SAMPLES / f"{SOURCES['before']}.json.gz", path, megabytes=options.big)
    runs = in_turn([Part("open", [path]), Part(ALONE, [path])], options.runs) | in_turn(others(path, options), 1)
    path.unlink()
    return {"megabytes": options.big, "parts": runs}


def scaling(folder: Path, largest: int) -> dict[str, dict[int, float]]:
    """Processor seconds of parts on traces of 10 000 events and ten times as many each time."""
    found: dict[str, dict[int, float]] = {name: {} for name in GROWING}
    events = SMALLEST
    while events <= largest:
        path, _ = made("before", folder, events)
        for name in GROWING:
            once = run_part(Part(name, [path]))
            if once is not None:
                found[name][events] = once["cpu_s"]
        path.unlink()
        events *= 10
    return found


def exponents(times: dict[int, float]) -> list[float]:
    """How time grows from one size to the next: 1 is as fast as the size.

    >>> exponents({10: 1.0, 100: 10.0, 1000: 1000.0})
    [1.0, 2.0]
    """
    return [round(log(t / s) / log(n / m), 2) for (m, s), (n, t) in pairwise(sorted(times.items())) if s > 0 < t]


def made(side: str, folder: Path, events: int) -> tuple[Path, dict[str, float]]:
    """A made trace, and what it took to make."""
    path = folder / f"{side}-{events}.json"
    wall, cpu = time.perf_counter(), time.process_time()
    make(SAMPLES / f"{SOURCES[side]}.json.gz", path, events=events)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return path, {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "peak_mb": peak}


def machine() -> dict[str, Any]:
    """What the machine is, without its name."""
    model = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    return {
        "processor": model[0] if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory[0] / 2**20) if memory else None,
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000, help="of the trace on which the parts are compared")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--largest", type=int, default=1_000_000, help="events of the largest trace for growth")
    parser.add_argument("--big", type=int, default=1000, help="megabytes of the trace that is only opened; 0: none")
    parser.add_argument("--hta", help="a Python interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--tracelens", default="", help="the folder of TraceLens' sources")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has what TraceLens needs")
    parser.add_argument("--perfetto", default="", help="the program trace_processor_shell")
    parser.add_argument("--out", type=Path, default=FILE)
    return parser.parse_args(arguments)


def show(parts: Runs, key: str) -> None:
    """Print seconds, and how many times those of opening they are."""
    base = median(run[key] for run in parts["open"])
    for name, runs in parts.items():
        seconds = median(run[key] for run in runs)
        print(f"{name:30} {seconds:8.2f} s  {seconds / base:6.2f}")


def main() -> None:
    options = options_of()
    with tempfile.TemporaryDirectory() as folder:
        traces, making = {}, []
        for side in SOURCES:
            traces[side], cost = made(side, Path(folder), options.events)
            making.append(cost)
        size = traces["before"].stat().st_size
        parts = {"make the trace": making} | side_by_side(traces, options)
        growth = scaling(Path(folder), options.largest)
        opened = big(Path(folder), options) if options.big else None
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "trace": {"source": SOURCES["before"], "events": options.events, "megabytes": round(size / 1e6)},
        "runs": options.runs,
        "parts": parts,
        "scaling_cpu_s": growth,
        "big": opened,
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    show(parts, "cpu_s")
    for name, times in growth.items():
        print(f"{name:30} exponents {exponents(times)}")
    if opened is not None:
        print(f"opening {options.big} MB, wall time:")
        show(opened["parts"], "wall_s")


if __name__ == "__main__":
    main()
