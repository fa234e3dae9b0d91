"""Write docs/workloads.md from the workloads and from what was measured of them.

python docs/make_workloads.py [--check]
"""

from __future__ import annotations

import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from overlapscope.workloads.catalogue import workloads
from overlapscope.workloads.harness import Workload

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "workloads.md"
TRUTH = ROOT / "sample_traces" / "truth.json"
TIMES = {"median_ms", "min_ms", "max_ms", "repeats"}


def heading(truth: dict[str, Any]) -> str:
    (device,) = truth["machine"]["devices"]
    link, versions = device["link"], truth["machine"]["versions"]
    return (
        "# Workloads\n\n"
        "Made from the docstrings in `overlapscope/workloads/` and from `sample_traces/truth.json` by\n"
        "`docs/make_workloads.py`; do not edit.\n\n"
        "Each is a program with an overlap problem, in the ways to write it and the ways to mend it. Run one\n"
        "with `python -m MODULE --variant NAME`; `--trace FILE` records a pass, `--device cpu` runs it without a GPU,\n"
        "`--list` and `--help` say the rest.\n\n"
        f"Times are of a pass without any profiler, the median of nine and in brackets the least and the most, on an\n"
        f"{device['name']} on PCIe {link['pcie_generation']} x{link['pcie_width']}, torch {versions['torch']}, CUDA "
        f"{versions['cuda']}, driver {versions['driver']}. *Gain* is what\nthe mended variant takes off. What the "
        "numbers say about common advice: [claims.md](claims.md).\n"
    )


def section(workload: Workload[Any, Any], walls: dict[str, dict[str, Any]]) -> str:
    lines = [f"## `{workload.module.rpartition('.')[2]}`", "", inspect.getdoc(import_module(workload.module)) or "", ""]
    extra = sorted({key for name in names(workload) for key in walls.get(name, {}) if key not in TIMES})
    head = ["variant", "what it does", "ms", "mended by", "gain", *(key.replace("_", " ") for key in extra)]
    lines += [row(head), row(["---"] * len(head))]
    for variant in workload.variants:
        wall = walls.get(f"{workload.name}-{variant.name}")
        cells = [f"`{variant.name}`", variant.says, time(wall), f"`{variant.fixed_by}`" if variant.fixed_by else ""]
        mended = walls.get(f"{workload.name}-{variant.fixed_by}")
        cells.append(gain(wall, mended) if wall and mended else "")
        lines.append(row([*cells, *(str((wall or {}).get(key, "")) for key in extra)]))
    return "\n".join(lines) + "\n"


def names(workload: Workload[Any, Any]) -> list[str]:
    return [f"{workload.name}-{variant.name}" for variant in workload.variants]


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def time(wall: dict[str, Any] | None) -> str:
    return f"{wall['median_ms']:.1f} ({wall['min_ms']:.1f} to {wall['max_ms']:.1f})" if wall else ""


def gain(wall: dict[str, Any], mended: dict[str, Any]) -> str:
    return f"{1 - mended['median_ms'] / wall['median_ms']:+.0%}".replace("+", "")


def page() -> str:
    truth = json.loads(TRUTH.read_text(encoding="utf-8"))
    walls = truth["unprofiled_wall"]
    return "\n".join([heading(truth), *(section(workload, walls) for workload in workloads())])


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET} is out of date: run python docs/make_workloads.py")
        return
    TARGET.write_text(text, encoding="utf-8")
    print(TARGET)


if __name__ == "__main__":
    main()
