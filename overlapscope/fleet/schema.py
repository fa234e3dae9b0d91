"""The tables of a fleet, each column with its meaning: those that the map makes of a trace, and those of the jobs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

NO_GPU_WORK = "no-gpu-work"
"""The status of a trace without device work."""

STEP, KERNELS, COLLECTIVES, COPIES, IDLE = "step", "kernels", "exposed collectives", "exposed copies", "idle"
WAITING, TRANSFER = "waiting in collectives", "transfer in collectives"
"""The times of a rank in a step."""
STEP_TIMES = {
    KERNELS: "kernels_ns",
    COLLECTIVES: "exposed_collectives_ns",
    COPIES: "exposed_copies_ns",
    IDLE: "idle_ns",
}
"""Columns of the table of steps, by the time that each has."""
_TYPES = {"i": "int64", "f": "float64", "s": "string", "b": "bool"}
_JOB = "i number of the job, 1 where there is only one"
_PROCESS = "i operating-system process id"
_DEVICE = {"process": _PROCESS, "device": "i device number"}

MAPPED: dict[str, dict[str, str]] = {
    "traces": {
        "content": "s SHA-256 of the file",
        "status": "s complete, damaged, no-gpu-work or failed",
        "code": "s code of the error, empty without one",
        "error": "s why the trace could not be used, empty where it could",
        "format": "s kineto or nsys",
        "recorded_rank": "i rank in the file",
        "world_size": "i number of ranks of the job, as the file says",
        "gpus": "i number of GPUs that the trace lists",
        "base_time_ns": "i Unix time at zero of the trace's clock",
        "start_ns": "i first begin, on the trace's clock",
        "wall_ns": "i from the first begin to the last end",
        "events": "i events kept",
        "lost": "s what was lost, empty where nothing was",
        "collectives": "s the smallest of its numbers for matching collectives, by which jobs are told apart",
    },
    "devices": {
        "process": _PROCESS,
        "device": "i device number as its process sees it",
        "name": "s name of the GPU",
        "window_ns": "i analysed time",
        "kernels_ns": "i time with a kernel that is no collective",
        "collectives_ns": "i time with a collective",
        "exposed_collectives_ns": "i part of that without another kernel",
        "copies_ns": "i time with a copy",
        "exposed_copies_ns": "i part of that without a kernel or a memset",
        "idle_ns": "i time without a kernel, a copy or a memset",
    },
    "copies": {
        **_DEVICE,
        "direction": "s direction",
        "memory": "s memory kind of the host side",
        "count": "i number of copies",
        "size_bytes": "i bytes of those with a known size",
        "total_ns": "i their time",
        "hidden_ns": "i part of that under kernels",
        "exposed_ns": "i the rest",
        "blocked_ns": "i time for which their calls blocked the host",
    },
    "steps": {
        **_DEVICE,
        "step": "i number of the profiler's step, unknown where the trace has none",
        "start_ns": "i begin of the step on the host",
        "end_ns": "i begin of the next step, or its own end",
        "kernels_ns": "i time with a kernel that is no collective",
        "exposed_collectives_ns": "i time with a collective and no other kernel",
        "exposed_copies_ns": "i time with a copy and no kernel or memset",
        "idle_ns": "i time without a kernel, a copy or a memset",
    },
    "idle": {
        **_DEVICE,
        "step": "i number of the profiler's step",
        "code": "s code of the rule that explains the idle time",
        "kind": "s which of its kinds, empty for a rule with one",
        "no_kernel_ns": "i time without a kernel: idle, or only copying",
        "copying_ns": "i part of that in which a copy ran",
    },
    "timeline": {
        **_DEVICE,
        "step": "i number of the profiler's step",
        "part": "s what the GPU did most of the time: kernels, exposed collectives, exposed copies, the code of the "
        "rule that explains why it was idle, or other: memsets, and before the first work of the trace",
        "start_ns": "i begin, to a two-hundredth of the step",
        "end_ns": "i end",
    },
    "findings": {
        **_DEVICE,
        "order": "i 1 for the finding to look at first",
        "code": "s code of the rule",
        "name": "s name of the rule",
        "kind": "s which of its kinds, empty for a rule with one",
        "severity": "s severity",
        "confidence": "s confidence",
        "no_kernel_ns": "i time without a kernel that is attributed to it, or that slow kernels and collectives cost",
        "idle_ns": "i part of it without any work, not even copies",
        "blocked_ns": "i time for which its calls blocked the host",
        "saving_ns": "i simulated saving of its change, without the profiler where that is known, else as recorded",
        "change": "s the change that what-if simulates, empty without one",
        "where": "s the place with the most idle time",
        "message": "s what was found",
        "fix": "s what to change, empty where the fix saves nothing",
    },
    "ranges": {
        "name": "s name of the range",
        "occurrences": "i how often it occurs",
        "host_ns": "i median time on the host",
        "wall_ns": "i union of all of them, each up to the end of its device work",
        "kernel_busy_ns": "i kernel time in them",
        "copy_busy_ns": "i copy time in them",
        "overlap_ns": "i time with both",
        "blocked_ns": "i time for which calls in them blocked their thread",
    },
    "collectives": {
        **_DEVICE,
        "stream": "i stream",
        "group": "s process group, its name and ranks as recorded",
        "sequence": "i number in its process group",
        "op": "s operation, from the name of its kernel",
        "step": "i profiler step in which it was launched",
        "position": "i number among the collectives of this operation in its step, from 1",
        "match": "i the same in all ranks for one collective, by process group and sequence number, else by name "
        "and order; unknown where neither is certain",
        "start_ns": "i begin, on the trace's clock",
        "end_ns": "i end",
        "kernels_ns": "i time with kernels that are no collectives beside it",
    },
    "definitions": {
        "process": _PROCESS,
        "definition": "s hta or tracelens",
        "computation_ns": "i computation",
        "communication_ns": "i communication",
        "exposed_communication_ns": "i exposed communication",
        "memory_ns": "i copies, for HTA with memsets",
        "exposed_memory_ns": "i exposed copies, by that definition",
        "overlap_fraction": "f share of communication under computation for HTA, of copies under work for TraceLens",
    },
}
"""The tables of the map; each column is a letter for the type, and the meaning."""
OF_JOBS: dict[str, dict[str, str]] = {
    "ranks": {
        "job": _JOB,
        "trace": "i number of the trace",
        "process": _PROCESS,
        "rank": "i rank, unknown where nothing says it",
        "origin": "s what the rank was taken from: content, name or order",
        "source": "s the trace",
        "host": "s host, from the name of the file",
        "node": "i number of the host, by the number of GPUs in each",
        "used": "b whether it is compared: not where it failed, or where the rank has another trace",
        "matched": "i collectives that it has in common with other ranks",
        "aligned": "b whether its clock is aligned",
        "offset_ns": "i what to subtract from its times, base time included",
        "error_ns": "i error of its clock",
        "steps": "i number of its steps",
        "step_ns": "i its average step",
    },
    "matched": {
        "job": _JOB,
        "op": "s operation",
        "group": "s process group",
        "sequence": "i number in its process group",
        "step": "i profiler step",
        "position": "i number among the collectives of this operation in its step",
        "ranks": "i ranks with aligned clocks that have it",
        "judged": "b whether all its kernels ran at one moment, so that the last one is what the others wait for",
        "complete": "b whether all ranks that may take part in it have it; without them waiting is a lower bound",
        "last_rank": "i the rank that comes last, of those with a trace",
        "late_ns": "i lateness of the last rank: after the arrival of the median rank",
        "wait_ns": "i waiting of all ranks together",
        "transfer_ns": "i from the last arrival to the end; unknown where a rank has no trace",
        "error_ns": "i lateness up to this is within the error of the clocks",
    },
    "spread": {
        "job": _JOB,
        "figure": "s what is compared",
        "step": "i profiler step; unknown for the average step",
        "median_ns": "i of the median rank",
        "least_ns": "i the rank with the least",
        "most_ns": "i the rank with the most",
        "least_rank": "i that rank",
        "most_rank": "i that rank",
    },
    "stragglers": {
        "job": _JOB,
        "rank": "i rank",
        "source": "s its trace",
        "round": "i 1 where it is late as recorded, 2 where it is once those of round 1 are fixed, and so on",
        "late_ns": "i lateness over all its steps: after the arrival of the median rank, summed over its collectives",
        "wait_ns": "i waiting of all ranks together for it where it comes last",
        "op": "s operation at which it is latest",
        "position": "i number of that collective in its step",
        "code": "s code of the rule that explains most of it; empty where it is the time of kernels, or unknown",
        "kind": "s kind of the finding, or kernels",
        "own_ns": "i that time in its average step",
        "others_ns": "i that time in the median of the other ranks",
        "place_late_ns": "i lateness at that collective, of the median step",
        "steps": "i number of steps that late_ns is over: its own, from round 2 on those that all ranks have",
        "saving_ns": "i what the job would save over saving_steps without that difference in this rank alone, replayed",
        "with_earlier_ns": "i the same with all ranks of earlier rows fixed, too",
        "saving_steps": "i number of the steps that are replayed: those that all ranks have",
    },
}
"""The tables of the jobs, likewise."""


@cache
def schema(table: str) -> pyarrow.Schema:
    """The Arrow schema of a table."""
    import pyarrow as pa

    columns = (MAPPED | OF_JOBS)[table]
    return pa.schema([(name, pa.type_for_alias(_TYPES[text[0]])) for name, text in columns.items()])
