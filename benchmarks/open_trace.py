"""How long does opening a trace take, and how much memory, against others? Fresh processes, in turn.

python benchmarks/open_trace.py TRACE [--runs 5] [--hta PYTHON]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

MEASURE = (
    "import json, resource, sys, time; path = sys.argv[1]; begin = time.perf_counter(); {work}; "
    "print(json.dumps([time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))"
)
OPENERS = {
    "overlapscope open": "from overlapscope.read.opening import open_trace; open_trace(path)",
    "overlapscope audit": "import overlapscope; overlapscope.audit(overlapscope.open_trace(path))",
    "json (standard library)": (
        "import gzip; data = open(path, 'rb').read(); "
        "json.loads(gzip.decompress(data) if data[:2] == b'\\x1f\\x8b' else data)"
    ),
}
HTA = "from hta.common.trace import Trace; trace = Trace(trace_files={0: path}, trace_dir='/'); trace.parse_traces()"


def measure(python: str, work: str, path: Path) -> tuple[float, float]:
    command = [python, "-c", MEASURE.format(work=work), str(path.resolve())]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = json.loads(output.splitlines()[-1])
    return seconds, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--hta", help="a Python interpreter that has HolisticTraceAnalysis")
    options = parser.parse_args()
    contestants = {name: (sys.executable, work) for name, work in OPENERS.items()}
    if options.hta:
        contestants["HTA parse_traces"] = (options.hta, HTA)
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(options.runs):
        for name, (python, work) in contestants.items():
            results[name].append(measure(python, work, options.trace))
    base = statistics.median(seconds for seconds, _ in results["overlapscope open"])
    print(f"{options.trace.name}: {options.trace.stat().st_size / 1e6:.0f} MB, median of {options.runs}")
    for name, runs in results.items():
        seconds = statistics.median(run[0] for run in runs)
        memory = statistics.median(run[1] for run in runs)
        print(f"  {name:26} {seconds:8.2f} s  {memory:8.0f} MB  {seconds / base:6.1f} x")


if __name__ == "__main__":
    main()
