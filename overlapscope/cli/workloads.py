"""``overlapscope workloads``: which programs there are to try, and in which variants."""

from __future__ import annotations

import sys

from overlapscope.workloads.catalogue import workloads


def workloads_command() -> None:
    """List the example programs with an overlap problem, their variants, and which variant mends which."""
    lines = []
    for workload in workloads():
        lines += [f"python -m {workload.module} --variant NAME", f"  {workload.question}"]
        width = max(len(variant.name) for variant in workload.variants)
        for variant in workload.variants:
            mended = f" -> {variant.fixed_by}" if variant.fixed_by else ""
            lines.append(f"    {variant.name:{width}}  {variant.says}{mended}")
        lines.append("")
    lines.append("Each takes --trace FILE to record, --device cpu to run without a GPU, and --help.")
    sys.stdout.write("\n".join(lines) + "\n")
