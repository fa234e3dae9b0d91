"""``overlapscope workloads``: list the example programs and their variants."""

from __future__ import annotations

from overlapscope.cli.messages import complaining
from overlapscope.cli.output import print_lines, render_to


def workloads_command() -> None:
    """List the example programs with overlap problems, their variants, and which variant fixes which."""
    from overlapscope.workloads.catalogue import workloads

    lines = []
    for workload in workloads():
        lines += [f"python -m {workload.module} --variant NAME", f"  {workload.question}"]
        width = max(len(variant.name) for variant in workload.variants)
        for variant in workload.variants:
            fixed_by = f" -> {variant.fixed_by}" if variant.fixed_by else ""
            lines.append(f"    {variant.name:{width}}  {variant.summary}{fixed_by}")
        lines.append("")
    lines.append("All of them take --trace FILE to record, --device cpu to run without a GPU, and --help.")
    with complaining():
        render_to(None, lambda console: print_lines(lines, console))
