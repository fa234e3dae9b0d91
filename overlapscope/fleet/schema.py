"""The tables that the map makes of a trace, each column with its meaning."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

NO_GPU_WORK = "no-gpu-work"
"""The status of a trace without device work."""

_TYPES = {"i": "int64", "f": "float64", "s": "string", "b": "bool"}

COLUMNS: dict[str, dict[str, str]] = {
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
        "process": "i operating-system process id",
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
        "process": "i operating-system process id",
        "device": "i device number",
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
        "process": "i operating-system process id",
        "device": "i device number",
        "step": "i number of the profiler's step, unknown where the trace has none",
        "start_ns": "i begin of the step on the host",
        "end_ns": "i begin of the next step, or its own end",
        "kernels_ns": "i time with a kernel that is no collective",
        "exposed_collectives_ns": "i time with a collective and no other kernel",
        "exposed_copies_ns": "i time with a copy and no kernel or memset",
        "idle_ns": "i time without a kernel, a copy or a memset",
    },
    "idle": {
        "process": "i operating-system process id",
        "device": "i device number",
        "step": "i number of the profiler's step",
        "code": "s code of the rule that explains the idle time",
        "kind": "s which of its kinds, empty for a rule with one",
        "idle_ns": "i time without a kernel: idle, or only copying",
        "copying_ns": "i part of that in which a copy ran",
    },
    "timeline": {
        "process": "i operating-system process id",
        "device": "i device number",
        "step": "i number of the profiler's step",
        "part": "s what the GPU did most of the time: kernels, exposed collectives, exposed copies, the code of the "
        "rule that explains why it was idle, or other: memsets, and before the first work of the trace",
        "start_ns": "i begin, to a two-hundredth of the step",
        "end_ns": "i end",
    },
    "findings": {
        "process": "i operating-system process id",
        "device": "i device number",
        "order": "i 1 for the finding to look at first",
        "code": "s code of the rule",
        "name": "s name of the rule",
        "kind": "s which of its kinds, empty for a rule with one",
        "severity": "s severity",
        "confidence": "s confidence",
        "idle_ns": "i GPU idle time attributed to it",
        "blocked_ns": "i time for which its calls blocked the host",
        "saving_ns": "i simulated saving of its change",
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
        "process": "i operating-system process id",
        "device": "i device number",
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
        "process": "i operating-system process id",
        "definition": "s hta or tracelens",
        "computation_ns": "i computation",
        "communication_ns": "i communication",
        "exposed_communication_ns": "i exposed communication",
        "memory_ns": "i copies, for HTA with memsets",
        "exposed_memory_ns": "i exposed copies, by that definition",
        "overlap_fraction": "f share of communication under computation for HTA, of copies under work for TraceLens",
    },
}
"""Columns of every table of the map: a letter for the type, and the meaning."""

ROWS = tuple(name for name in COLUMNS if name != "traces")
"""The tables with rows about a trace."""


@cache
def schema(table: str) -> pyarrow.Schema:
    """The Arrow schema of a table of the map."""
    return fields(COLUMNS[table])


def fields(columns: dict[str, str]) -> pyarrow.Schema:
    """An Arrow schema of columns that are given as above."""
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(_TYPES[text[0]])) for name, text in columns.items()])
