"""Write docs/workloads.md from the workloads and their measured times.

python docs/make_workloads.py [--check]
"""

from __future__ import annotations

import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from overlapscope.calibration.data import gpus
from overlapscope.workloads.harness import Workload, workloads

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "workloads.md"
TRUTH = ROOT / "sample_traces" / "truth.json"
TIMES = {"in_turns_ms", "median_ms", "min_ms", "max_ms", "repeats", "process_medians_ms"}


def heading(truth: dict[str, Any]) -> str:
    (gpu,), versions = gpus(truth["machine"]["devices"]), truth["machine"]["versions"]
    machine = f"an {gpu.name} on PCIe {gpu.link.pcie_generation} x{gpu.link.pcie_width}"
    software = f"torch {versions['torch']}, CUDA {versions['cuda']}, driver {versions['driver']}"
    return f"""# Workloads

Made from the docstrings in `overlapscope/workloads/` and from `sample_traces/truth.json` by
`docs/make_workloads.py`; do not edit.

Each workload is a program with an overlap problem. Its variants are ways to write the program, with the problem or with
a fix. Run one with `python -m MODULE --variant NAME`. `--trace FILE` records a pass, `--device cpu` runs it without a
GPU, `--list` lists the variants, and `--help` lists all options.

Times are wall times of passes without any profiler: the median of the processes' medians of nine passes, and in
brackets the minimum and maximum of all passes. Machine: {machine}, {software}.
*Saving* is the share of the time that the fixed variant saves. [claims.md](claims.md) compares the numbers with common
advice.
"""


def section(workload: Workload[Any, Any], walls: dict[str, dict[str, Any]]) -> str:
    lines = [f"## `{workload.module.rpartition('.')[2]}`", "", inspect.getdoc(import_module(workload.module)) or "", ""]
    extra = sorted({key for name in names(workload) for key in walls.get(name, {}) if key not in TIMES})
    head = ["variant", "what it does", "ms", "fixed by", "saving", *(key.replace("_", " ") for key in extra)]
    lines += [row(head), row(["---"] * len(head))]
    for variant in workload.variants:
        wall = walls.get(f"{workload.name}-{variant.name}")
        cells = [f"`{variant.name}`", variant.summary, time(wall), f"`{variant.fixed_by}`" if variant.fixed_by else ""]
        fixed = walls.get(f"{workload.name}-{variant.fixed_by}")
        cells.append(saving(wall, fixed) if wall and fixed else "")
        lines.append(row([*cells, *(str((wall or {}).get(key, "")) for key in extra)]))
    return "\n".join(lines) + "\n"


def names(workload: Workload[Any, Any]) -> list[str]:
    return [f"{workload.name}-{variant.name}" for variant in workload.variants]


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def time(wall: dict[str, Any] | None) -> str:
    return f"{wall['median_ms']:.1f} ({wall['min_ms']:.1f} to {wall['max_ms']:.1f})" if wall else ""


def saving(wall: dict[str, Any], fixed: dict[str, Any]) -> str:
    return f"{1 - fixed['median_ms'] / wall['median_ms']:.0%}"


def page(truth: dict[str, Any]) -> str:
    walls = truth["unprofiled_wall"]
    return "\n".join([heading(truth), *(section(workload, walls) for workload in workloads())])


def main() -> None:
    text = page(json.loads(TRUTH.read_text(encoding="utf-8")))
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit("docs/workloads.md is out of date: run python docs/make_workloads.py")


if __name__ == "__main__":
    main()
