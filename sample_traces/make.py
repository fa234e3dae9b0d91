"""Record the sample traces again, on a machine with a GPU.

    python -m sample_traces.make --out sample_traces --nsys-sqlite COMMAND
    python -m sample_traces.make --out elsewhere --no-kineto               # times only, to compare with truth.json
    python -m sample_traces.make --out elsewhere --only 'offload-*'        # some of them

Every variant of every workload is recorded, but for those in `TIMES_ONLY`. All are timed in two separate processes,
from their command lines: the duration of pageable copies depends on where a process gets its memory. The first process
also records the variant, and times the variants that fix its fault alternately with it, because the speed of processors
varies from second to second. COMMAND is called as ``COMMAND OUT.sqlite PROGRAM ARG ...``. It has to profile PROGRAM
between its cudaProfilerStart and cudaProfilerStop and export SQLite. Without it, no Nsight Systems traces are made.
Entries of ``truth.json`` from an earlier run are kept for the variants that are not recorded again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.prediction import PAIRS
from overlapscope.calibration.data import plain
from overlapscope.capture.machine import devices, versions
from overlapscope.scrub.kineto import scrub_kineto
from overlapscope.scrub.nsys import scrub_nsys
from overlapscope.workloads.harness import workloads
from overlapscope.workloads.pinning_sweep import sweep

TIMES_ONLY = frozenset(
    {
        "moe_sparse-pinned",
        "moe_sparse-one-read",
        "moe_sparse-ahead",
        "pinning_guide-pin-alone",
        "pinning_guide-list-pin-then-blocking",
        "pinning_guide-list-pinned-blocking",
        "pinning_guide-tensordict-pin-in-threads",
        "dataloader_train-article-loop-deferred",
    }
)
"""Variants whose recordings would show nothing that those of others do not."""

Sample = tuple[str, list[str], list[str]]  # a name, the command line that runs it, and what to time beside it


def beside(name: str, fixed_by: str | None) -> list[str]:
    """The options that have the variants timed beside this one that fix it, and that predictions are compared with."""
    fixed = [fixed_by] if fixed_by else []
    fixed += [pair.fixed.partition("-")[2] for pair in PAIRS if pair.faulty == name]
    return ["--beside", *dict.fromkeys(fixed)] if fixed else []


def samples(patterns: Sequence[str]) -> Iterator[Sample]:
    for workload in workloads():
        for variant in workload.variants:
            name = f"{workload.name}-{variant.name}"
            if any(fnmatch(name, pattern) for pattern in patterns):
                command = [sys.executable, "-m", workload.module, "--variant", variant.name]
                yield name, command, beside(name, variant.fixed_by)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run and return what was printed; what went wrong ends the script with the program's own words."""
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stderr.strip()}")
    return result


def run_it(
    name: str, command: list[str], others: list[str], out: Path, scratch: Path, *, trace: bool
) -> dict[str, Any]:
    """Time a variant without a profiler and, in the same process after that, record it."""
    raw = scratch / f"{name}.json.gz"
    options = ["--trace", str(raw), *others] if trace else []
    result = run([*command, *options])
    if trace:
        scrub_kineto(raw, out / raw.name)
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return {key: value for key, value in facts.items() if key not in {"workload", "variant", "device"}}


def merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of several processes as one: the median of their medians, the extremes of all, counts added up."""
    together: dict[str, Any] = {"process_medians_ms": [run["median_ms"] for run in runs]}
    for key, first in runs[0].items():
        if key == "in_turns_ms":  # of the process that was recorded
            together[key] = first
            continue
        values = [run[key] for run in runs]
        if key in {"min_ms", "max_ms"}:
            together[key] = (min if key == "min_ms" else max)(values)
        else:
            together[key] = sum(values) if isinstance(first, int) else round(statistics.median(values), 3)
    return together


def make_nsys(name: str, command: list[str], out: Path, scratch: Path, nsys_sqlite: str) -> None:
    raw = scratch / f"{name}.sqlite"
    run([nsys_sqlite, str(raw), *command, "--repeats", "1", "--bracket"])
    scrub_nsys(raw, out / f"{raw.name}.gz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="names to make, such as 'offload-*'")
    parser.add_argument("--processes", type=int, default=2, help="in how many to time a variant")
    parser.add_argument("--no-times", action="store_true", help="time nothing and make no Kineto traces")
    parser.add_argument("--no-kineto", action="store_true", help="make no Kineto traces")
    parser.add_argument("--nsys-sqlite", help="command that profiles and exports SQLite")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    truth_file = options.out / "truth.json"
    truth = json.loads(truth_file.read_text()) if truth_file.exists() else {"unprofiled_wall": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for name, command, others in samples(options.only or ["*"]):
            begin = time.monotonic()
            if not options.no_times:
                traced = not options.no_kineto and name not in TIMES_ONLY
                traces = [traced, *[False] * (options.processes - 1)]
                runs = [run_it(name, command, others, options.out, Path(scratch), trace=trace) for trace in traces]
                truth["unprofiled_wall"][name] = merged(runs)
                truth["machine"] = {"versions": versions(), "devices": plain(devices())}
                truth_file.write_text(json.dumps(truth, indent=2, sort_keys=True) + "\n")
            if options.nsys_sqlite and name not in TIMES_ONLY:
                make_nsys(name, command, options.out, Path(scratch), options.nsys_sqlite)
            print(name, truth["unprofiled_wall"].get(name), f"{time.monotonic() - begin:.1f} s", flush=True)
    if options.only is None and not options.no_kineto:
        (options.out / "pinning_sweep.json").write_text(json.dumps(sweep(), indent=1) + "\n")


if __name__ == "__main__":
    main()
