"""When was the GPU idle? From kernels, copies and memsets, where all of them are in the trace and on one clock."""

from __future__ import annotations

from overlapscope.fitness.answer import Answer, Check, Verdict
from overlapscope.fitness.config import FitnessConfig
from overlapscope.fitness.settings import GPU_ACTIVITY, GPU_RECORDS, GRAPH_NODES, ONE_CLOCK, SHORTER, Setting
from overlapscope.fitness.unknown import setting_of, without_place
from overlapscope.formatting import counted
from overlapscope.measure.devices import device_keys
from overlapscope.model.trace import Trace

_MISSING: dict[str, tuple[Verdict, str, Setting]] = {
    "wrong-device-clock": (Verdict.NO, "some of their times come from another clock", ONE_CLOCK),
    "whole-graph-trace": (Verdict.NO, "CUDA graphs were traced as a whole, without what runs in them", GRAPH_NODES),
    "kernels-not-recorded": (Verdict.NO, "kernels were launched, but are not in the trace", GPU_ACTIVITY),
    "copies-not-recorded": (Verdict.PARTLY, "copies were called, but are not in the trace", GPU_ACTIVITY),
}
"""Health warnings that make all idle time doubtful."""
_NOT_RECORDED = "s-not-recorded"


def examine(trace: Trace, config: FitnessConfig) -> Answer:
    """Count the work of the GPUs, and look for what is missing from it."""
    kernels, copies, memsets = (len(table) for table in trace.device_work)
    counts = {"kernels": kernels, "copies": copies, "memsets": memsets, "devices": len(device_keys(trace))}
    health, (lost, work) = trace.health, without_place(trace, "device")
    if not kernels + copies + memsets:
        why = health.no_device_work or "no GPU work in the trace"
        return Answer(Verdict.NO, why, counts, _without_work(trace), health=("unknown-device-work", "device-work-lost"))
    found = (
        ", ".join((counted(kernels, "kernel"), counted(copies, "copy", "copies"), counted(memsets, "memset")))
        + f" of {counted(counts['devices'], 'GPU')}"
    )
    for code, (verdict, why, setting) in _MISSING.items():
        if health.has(code):
            again = setting_of(trace) if code.endswith(_NOT_RECORDED) else None  # nsys has them, an export may not
            return Answer(verdict, f"{found}; {why}", counts, again or setting, health=(code,))
    if lost > config.most_missing * work:
        text = f"{lost:,} of {work:,} kernels, copies and memsets do not say their GPU"
        return Answer(Verdict.PARTLY, text, counts, setting_of(trace), health=("no-device",))
    return Answer(Verdict.YES, found, counts)


def _without_work(trace: Trace) -> Setting | None:
    """What gives GPU work to a trace that has none; None where the program, or the GPU's kind, is the reason."""
    if trace.health.has("records-dropped"):
        return SHORTER
    if trace.health.has("device-work-lost"):
        return GPU_RECORDS
    return None if len(trace.api_calls) else GPU_ACTIVITY


CHECK = Check("gpu-idle", "When was the GPU idle?", "when the GPU was idle", examine, basis=True)
