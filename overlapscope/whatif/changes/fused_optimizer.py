"""An optimizer steps all parameters at once: `fused=True` or `foreach=True` instead of a loop over parameters.

## What it changes
In each step of an optimizer that launches a hundred kernels or more, all launches but the first take no host time, nor
does the Python between them. The kernels run one right after the other.

## What it assumes
The optimizer has such an implementation, and the parameters are floating-point tensors on GPUs. Its kernels take as
long as those of the loop do together, as foreach kernels do; in the lower bound they take a quarter of that.

Measured on an H100, three steps of AdamW for 100 layers: of 256 x 256, a loop took 112 ms, foreach 53 ms, fused 48 ms,
and 34 to 53 ms were predicted; of 1024 x 1024, they took 115, 63 and 47 ms, and 53 to 78 ms were predicted.

## When it misleads
An optimizer of foreign code, or one that needs the closure of each parameter, has no such implementation. Steps are the
ranges that `torch.optim.Optimizer` names; without them this changes nothing.

Source: PyTorch documentation of `torch.optim`, "Algorithms": for-loop, foreach (multi-tensor) and fused implementations
(https://docs.pytorch.org/docs/stable/optim.html).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.kinds import OWN_DURATION, DependencyKind
from overlapscope.formatting import counted
from overlapscope.measure.grouping import at
from overlapscope.measure.places import innermost, named
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import ApiKind
from overlapscope.model.tables import HostWork
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import HOST_GAP_NS
from overlapscope.whatif.change import Change, Editor, Where

_STEP = re.compile(r"^Optimizer\.step#")
"""How torch names the step of an optimizer."""
LOOP_LAUNCHES = 100
"""Launches in a step of an optimizer from which it loops over parameters.

A choice: a for-loop launches several kernels for each parameter, foreach and fused ones a few in all (PyTorch
documentation of `torch.optim`, "Algorithms").
"""
_FUSED_SHARE = 0.25
"""What fused kernels take of the time of a loop's kernels, at least.

A fused AdamW reads and writes 28 bytes of each float32 parameter; the dozen kernels of a loop 8 to 16 bytes each.
"""


@dataclass(frozen=True)
class FusedOptimizer(Change):
    """An optimizer steps all parameters at once."""

    name: ClassVar[str] = "fused-optimizer"
    condition: ClassVar[str] = "if the optimizer has a fused or foreach form"
    only_removes: ClassVar[bool] = True
    changes_calls: ClassVar[bool] = True

    fused: bool = False
    """Whether memory is read and written once for all that the kernels do: the lower bound has that."""

    def may_bring(self, trace: Trace) -> tuple[Change, ...]:
        """Fused kernels move less memory."""
        del trace
        return () if self.fused else (replace(self, fused=True),)

    def apply(self, editor: Editor, where: Where) -> None:
        """Let all but the first launch of each step take no host time."""
        graph, trace = editor.graph, editor.trace
        calls, work = graph.calls, graph.work
        steps = optimizer_steps(trace)
        step = innermost(steps, calls.process, calls.thread, calls.start_ns).astype(np.int64)
        launches = (step != NO_ID) & np.isin(calls.kind, (ApiKind.LAUNCH, ApiKind.MEMSET)) & where.calls[calls.row]
        loops = np.bincount(step[launches], minlength=len(steps)) >= LOOP_LAUNCHES
        launches &= at(loops, step, False)
        if not launches.any():
            editor.assume("no step of an optimizer loops over parameters")
            return
        rows = np.flatnonzero(launches)
        _, first = np.unique(step[rows], return_index=True)
        gone = np.delete(rows, first)
        edges, made = editor.dependencies, np.flatnonzero(np.isin(work.call, gone))
        into = np.isin(edges.target, np.concatenate([graph.call_start(gone), graph.call_end(gone)]))
        host = edges.of_kind(DependencyKind.PROGRAM_ORDER, *OWN_DURATION) & (edges.weight_ns <= HOST_GAP_NS)
        editor.limit_weights(into & host, 0)
        begins = np.isin(edges.target, graph.work_start(made))
        editor.limit_weights(begins & edges.of_kind(DependencyKind.STREAM_ORDER, DependencyKind.LAUNCH), 0)
        if self.fused:
            runs = np.isin(edges.target, graph.work_end(made)) & edges.of_kind(DependencyKind.EXECUTION)
            editor.limit_weights(runs, np.rint(editor.dependencies.weight_ns[runs] * _FUSED_SHARE).astype(np.int64))
        editor.assume(f"{counted(len(first), 'step')} with one launch instead of {len(rows):,} in all")
        editor.grant("the optimizer has a fused or foreach implementation for these parameters")


def optimizer_steps(trace: Trace) -> HostWork:
    """The steps of optimizers: ranges, or operators, as which older versions of PyTorch recorded them."""
    ranges, ops = (table.take(named(table, _STEP)) for table in (trace.ranges, trace.cpu_ops))
    return ranges if len(ranges) else ops
