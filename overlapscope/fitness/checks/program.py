"""Checks of the program's places: steps, ranges, operators, source lines, modules, DataLoaders and ranks."""

from __future__ import annotations

import numpy as np

from overlapscope.fitness import settings
from overlapscope.fitness.answer import Answer, Verdict
from overlapscope.fitness.unknown import NAME_WIDTH, without_name
from overlapscope.formatting import counted, safe
from overlapscope.measure.devices import is_collective
from overlapscope.measure.places import is_step, uses_pytorch
from overlapscope.measure.ranges import NEXT_BATCH, filling_range
from overlapscope.model.columns import NO_ID
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace

_STEP = "ProfilerStep#"
_ON_THE_HOST = ("gloo:", "mpi:")
_MODULE_FRAME = "nn.Module: "  # a call of a module, in Python call stacks


def steps(trace: Trace) -> Answer:
    """Count the profiler's steps, or the occurrences of a range that repeats and fills the trace."""
    count = int(is_step(trace).sum())
    counts = {"steps": count}
    if count > 1:
        return Answer(Verdict.YES, counted(count, "step") + " of the profiler", counts)
    name, times = ("", 0) if count else filling_range(trace)
    if times:
        text = f"range {safe(name, NAME_WIDTH)!r} repeats {times:,} times: --within selects all, --step one of them"
        return Answer(Verdict.YES, text, counts | {"occurrences": times})
    unprofiled = trace.calibration.unprofiled
    timed = 0 if unprofiled is None else unprofiled.count
    if timed > 1:
        recorded = f", {count:,} recorded" if count else ""
        return Answer(Verdict.YES, f"{timed:,} steps timed without the profiler{recorded}", counts | {"timed": timed})
    if count:
        return Answer(Verdict.PARTLY, "a single step: nothing tells how much steps differ", counts, settings.MORE_STEPS)
    as_operators = sum(name.startswith(_STEP) for name in trace.names.values)
    if as_operators and len(trace.cpu_ops):
        text = f"{counted(as_operators, 'step')}, recorded as operators, which --step does not find"
        return Answer(Verdict.PARTLY, text, counts, None)
    return Answer(Verdict.NO, "no steps, and no range that repeats and fills the trace", counts, settings.STEPS)


def ranges(trace: Trace) -> Answer:
    """Count the ranges but for the profiler's steps."""
    named = trace.ranges.name_id[~is_step(trace) & ~without_name(trace, trace.ranges.name_id)]
    counts = {"ranges": len(named), "names": len(np.unique(named))}
    if len(named):
        return Answer(Verdict.YES, f"{counted(len(named), 'range')} of {counted(counts['names'], 'name')}", counts)
    return Answer(Verdict.NO, "no named ranges", counts, settings.RANGES)


def operators(trace: Trace) -> Answer:
    """Count operators by thread, and the threads that issue work without any: the profiler may not watch them."""
    called = [table.call[table.call != NO_ID] for table in trace.device_work]
    issuing = trace.api_calls.take(np.unique(np.concatenate(called)).astype(np.int64)).threads
    as_ranges = trace.ranges.take(np.isin(trace.ranges.name_id, _operator_names(trace)))
    watched = {*trace.cpu_ops.threads, *as_ranges.threads}
    count, unwatched = len(trace.cpu_ops) + len(as_ranges), [place for place in issuing if place not in watched]
    counts = {"operators": count, "issuing_threads": len(issuing), "without_operators": len(unwatched)}
    if not count and not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no sign of PyTorch", counts)
    if not count:
        return Answer(Verdict.NO, "no operators", counts, settings.OPERATORS)
    if unwatched:
        threads = counted(len(unwatched), "thread")
        text = f"{threads} of {len(issuing)} that issue work {'has' if len(unwatched) == 1 else 'have'} no operators"
        return Answer(Verdict.PARTLY, text, counts, settings.ALL_THREADS)
    return Answer(Verdict.YES, f"{counted(count, 'operator')} on {counted(len(watched), 'thread')}", counts)


def _operator_names(trace: Trace) -> list[int]:
    """Names of ranges that are operators: Nsight Systems gets them as NVTX ranges."""
    used = np.unique(trace.ranges.name_id).tolist()
    return [number for number in used if trace.names[number].startswith("aten::")]


def source(trace: Trace) -> Answer:
    """Count the calls of Python functions, which profilers record on request."""
    counts = {"frames": len(trace.frames)}
    if len(trace.frames):
        return Answer(Verdict.YES, f"{counted(len(trace.frames), 'call')} of Python functions", counts)
    if not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no sign of PyTorch", counts)
    return Answer(Verdict.NO, "no Python call stacks", counts, settings.STACKS)


def modules(trace: Trace) -> Answer:
    """Count the calls of the model's modules, which a recording notes under their names in the model."""
    counts = {"modules": len(trace.modules)}
    if len(trace.modules):
        return Answer(Verdict.YES, f"{counted(len(trace.modules), 'call')} of modules", counts)
    if not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no sign of PyTorch", counts)
    if trace.metadata.recording is None or _names_begin(trace, trace.frames, _MODULE_FRAME):
        return Answer(Verdict.NO, "calls of modules were not recorded", counts, settings.MODULES)
    return Answer(Verdict.DOES_NOT_ARISE, "not recorded: the program may call none", counts)


def loaders(trace: Trace) -> Answer:
    """Count the DataLoaders of a recording."""
    recorded = trace.calibration.loaders
    counts = {"loaders": len(recorded)}
    if recorded:
        return Answer(Verdict.YES, f"settings of {counted(len(recorded), 'DataLoader')}", counts)
    if not uses_pytorch(trace):
        return Answer(Verdict.DOES_NOT_ARISE, "no sign of PyTorch", counts)
    if trace.metadata.recording is None or _names_begin(trace, trace.ranges, NEXT_BATCH):
        return Answer(Verdict.NO, "settings of DataLoaders were not recorded", counts, settings.LOADERS)
    return Answer(Verdict.DOES_NOT_ARISE, "not recorded: the program may use none", counts)


def _names_begin(trace: Trace, table: HostWork, begin: str) -> bool:
    """Whether the name of any row begins like this."""
    return any(trace.names[number].startswith(begin) for number in np.unique(table.name_id).tolist() if number != NO_ID)


def ranks(trace: Trace) -> Answer:
    """Look for the rank, and count the collectives."""
    rank, world = trace.metadata.rank, trace.metadata.world_size
    count, on_host = int(is_collective(trace, trace.kernels.name_id).sum()), _collectives_on_host(trace)
    numbered = int((trace.kernels.sequence != NO_ID).sum())
    counts = {"rank": rank, "world_size": world, "collectives": count, "on_host": on_host, "numbered": numbered}
    if not count + on_host and (world or 1) == 1:
        return Answer(Verdict.DOES_NOT_ARISE, "no collectives in the trace, and no other ranks", counts)
    text = counted(count, "collective")
    if not count:
        text = f"{counted(on_host, 'collective')} on the host, none on a GPU" if on_host else "no collective"
    if rank is None:
        return Answer(Verdict.PARTLY, f"{text}, but the rank is not recorded", counts, settings.RANKS)
    of = "" if world is None else f" of {world}"
    return Answer(Verdict.YES, f"rank {rank}{of}, {text}", counts)


def _collectives_on_host(trace: Trace) -> int:
    """The number of collectives of backends that need no GPU, which torch names as ranges or operators."""
    named = [number for number, text in enumerate(trace.names.values) if text.startswith(_ON_THE_HOST)]
    return sum(int(np.isin(table.name_id, named).sum()) for table in (trace.cpu_ops, trace.ranges))
