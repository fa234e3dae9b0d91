"""Reads of one result are one copy: `.tolist()` or `.cpu()` once, before a loop that reads value after value.

## What it changes
In each loop of reads, the first read is waited for as it was, and has all values of its group. The others are gone:
neither copied nor waited for, and the operator that read takes no time (`item`, `nonzero`). What was launched between
two reads only to cut a value out of a tensor is gone too: small elementwise kernels take no time, with index lists that
were sent for them, nor do their calls. What else is launched between stays.

A group ends where the program computes something new: where kernels are launched that few of the loop's stretches
between two reads have.

## What it assumes
The values of a group are pieces of what is known at its first read: the fields of boxes, the tokens of each expert.
Operators that cut take the host as long on a CPU tensor as they took before they launched; with `.tolist()` they are
gone, which the lower bound has.

## When it misleads
Values that depend on what is launched between two reads, as in a search or a sampler, have to be read one by one.
Tokens that are sorted by expert take a few more kernels than the masks that they replace, which is not simulated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.formatting import counted
from overlapscope.measure.grouping import distinct_columns, rows_by_thread
from overlapscope.measure.places import enclosing, innermost, named
from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int64
from overlapscope.model.enums import Direction
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import scalar_reads, synchronisations_after
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.read_loops import ReadLoops

_CUTS = re.compile("elementwise", re.IGNORECASE)
"""Kernels that compute or move element by element, as PyTorch names them: arithmetic, comparisons, copies, indexing."""
_READS = re.compile(r"^aten::(item|_local_scalar_dense|is_nonzero|nonzero)$")
"""Operators that are there to read: with the values known they do nothing else."""
_CUT_NS = 5_000
"""A kernel that cuts a value out of a tensor takes at most this long, in ns.

A choice: kernels of a few values take 1 to 3 us in the sample traces, on an H200; at 5 us a kernel moves megabytes.
"""
_INDEX_BYTES = 1024
"""An index list that is sent for a cut has at most this size, in bytes: 128 numbers."""
_NEW_SHARE = 0.1
"""Kernels that fewer of a loop's stretches have than this share compute something new: they are not of an iteration.

A choice: it takes an iteration to make ten reads at most, so that its kernels are in a tenth of the stretches.
"""


@dataclass(frozen=True)
class ReadOnce(Change):
    """Reads of one result are one copy."""

    name: ClassVar[str] = "read-once"
    condition: ClassVar[str] = "if the values are pieces of one result"
    form_of: ClassVar[str] = "reads"
    needs_order: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True

    as_list: bool = False
    """Whether the operators that cut are gone too, as with ``.tolist()``: the lower bound has that."""

    def may_bring(self, trace: Trace) -> tuple[Change, ...]:
        """The values may be read as a list."""
        del trace
        return () if self.as_list else (replace(self, as_list=True),)

    def apply(self, editor: Editor, where: Where) -> None:
        """Take all reads but the first of each group out, with what only cuts values for them."""
        graph, trace = editor.graph, editor.trace
        loops = ReadLoops.of(trace)
        loops = loops.take(where.copies[loops.following])
        only_cuts, computes_new = _launched(trace, loops)
        later = loops.take(~computes_new)
        if not len(later):
            editor.assume("no reads are in a loop")
            return
        reads = np.zeros(len(trace.copies), np.bool_)
        reads[later.following] = True
        cuts = loops.take(only_cuts)
        spent = _operators(trace, later, cuts if self.as_list else cuts.none())
        waits = np.flatnonzero(synchronisations_after(graph, reads))
        gone = [editor.calls_of(reads), waits, _inside(graph, cuts), _inside(graph, spent)]
        _drop(editor, np.unique(np.concatenate(gone)))
        _less_python(editor, spent)
        editor.brought = np.union1d(editor.brought, later.following)
        count = len(loops) + len(np.unique(loops.loop))
        editor.assume(f"{counted(count - len(later), 'read')} instead of {count:,} in loops")
        editor.grant("the values of a loop of reads are known at its first read")


def _launched(trace: Trace, loops: ReadLoops) -> tuple[Bool, Bool]:
    """Which stretches of loops launch nothing but what cuts values out of tensors, and which compute something new."""
    calls, copies = trace.api_calls, trace.copies
    cuts, new = np.ones(len(loops), np.bool_), np.zeros(len(loops), np.bool_)

    def stretch_of(call: Int64) -> Int64:
        known = np.flatnonzero(call != NO_ID)
        result = np.full(len(call), NO_ID, np.int64)
        made = call[known]
        result[known] = loops.around(calls.process[made], calls.thread[made], calls.start_ns[made])
        return result

    kernels = trace.kernels
    stretch = stretch_of(kernels.call.astype(np.int64))
    cutting = named(kernels, _CUTS) & (kernels.duration_ns <= _CUT_NS)
    cuts[stretch[(stretch != NO_ID) & ~cutting]] = False
    index = (copies.direction == Direction.HTOD) & (copies.size_bytes <= _INDEX_BYTES)
    other = ~index & ~scalar_reads(trace) & (copies.direction != Direction.DTOD)
    copied = stretch_of(copies.call.astype(np.int64))
    cuts[copied[(copied != NO_ID) & other]] = False
    inside = np.flatnonzero(stretch != NO_ID)
    keys = np.stack([loops.loop[stretch[inside]], kernels.name_id[inside].astype(np.int64), stretch[inside]])
    each, _ = distinct_columns(keys)
    kinds, kind = distinct_columns(each[:2])
    seen, every = np.bincount(kind, minlength=kinds.shape[1])[kind], np.bincount(loops.loop)[each[0]]
    new[each[2][seen < _NEW_SHARE * every]] = True
    return cuts & ~new, new & ~cuts


@dataclass(frozen=True, eq=False)
class _Spent(Columnar):
    """Times of threads that are spent for nothing, disjoint by thread."""

    process: Int64
    thread: Int64
    begin_ns: Int64
    until_ns: Int64


def _operators(trace: Trace, reads: ReadLoops, cuts: ReadLoops) -> _Spent:
    """The time of the operators that make some reads, and of all operators in stretches that only cut."""
    table, calls = trace.cpu_ops.take(named(trace.cpu_ops, _READS)), trace.api_calls
    made = trace.copies.call[reads.following]
    made = made[made != NO_ID]
    row, outer = innermost(table, calls.process[made], calls.thread[made], calls.start_ns[made]), enclosing(table)
    row = row[row != NO_ID].astype(np.int64)
    while (further := outer[row] != NO_ID).any():
        row = np.where(further, outer[row], row)
    ops = trace.cpu_ops
    inside = (enclosing(ops) == NO_ID) & (cuts.around(ops.process, ops.thread, ops.start_ns) != NO_ID)
    both = table.take(np.unique(row)), ops.take(inside)
    return _Spent.concat(*(_Spent(each.process, each.thread, each.start_ns, each.end_ns) for each in both))


def _inside(graph: Graph, parts: ReadLoops | _Spent) -> Int64:
    """The calls that threads begin in some of their times."""
    calls, result = graph.calls, np.zeros(len(graph.calls), np.bool_)
    rows_of = rows_by_thread(parts.process, parts.thread)
    for thread, made in rows_by_thread(calls.process, calls.thread).items():
        rows = rows_of.get(thread, made[:0])
        spans = union(parts.begin_ns[rows], parts.until_ns[rows])
        result[made] = covered(calls.start_ns[made], calls.start_ns[made] + 1, spans) > 0
    return np.flatnonzero(result)


def _drop(editor: Editor, gone: Int64) -> None:
    """Let some calls and their work take no time and wait for nothing."""
    graph = editor.graph
    editor.without_waits(gone)
    edges, work = editor.dependencies, np.flatnonzero(np.isin(graph.work.call, gone))
    into = np.isin(edges.target, np.concatenate([graph.work_start(work), graph.work_end(work)]))
    device = edges.of_kind(DependencyKind.EXECUTION, DependencyKind.LAUNCH, DependencyKind.STREAM_ORDER)
    editor.limit_weights(into & device, 0)


def _less_python(editor: Editor, spent: _Spent) -> None:
    """Take the share of each gap between two calls that lies in some times of the thread out of it."""
    graph, calls = editor.graph, editor.graph.calls
    weight, rows_of = editor.dependencies.weight_ns.copy(), rows_by_thread(spent.process, spent.thread)
    for thread, made in rows_by_thread(calls.process, calls.thread).items():
        rows = rows_of.get(thread, made[:0])
        gap = graph.into(graph.call_start(made), DependencyKind.PROGRAM_ORDER)
        until, gap = calls.start_ns[made[gap != NO_ID]], gap[gap != NO_ID]
        begin = graph.time_ns[editor.dependencies.source[gap]]
        inside = covered(begin, until, union(spent.begin_ns[rows], spent.until_ns[rows]))
        weight[gap] = np.rint(weight[gap] * (1 - inside / np.maximum(until - begin, 1))).astype(np.int64)
    editor.set_weights(weight)
