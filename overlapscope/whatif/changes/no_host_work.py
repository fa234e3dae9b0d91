"""Host work between CUDA calls takes no time: an upper bound of what any fix of it saves.

## What it changes
What threads do between two CUDA calls takes no time: all that lasts longer than Python between two launches does
(0.2 ms), or what ``kind=`` names: `gc` (garbage collection), `loading` (waiting for the next batch of a `DataLoader`,
or making it), `logging`, `sleep`, `file`, `lock` (waiting for the interpreter lock), `other` (what else is recorded),
or `unrecorded`. ``within=NAME`` is only about the time inside these ranges, ``source=TEXT`` only about that in Python
functions whose file or name contains the text, as far as stacks or samples are recorded. The CUDA calls inside stay.

## What it assumes
Nothing: work that takes no time is no fix. Whatever is done about it, moving it to other threads or processes, doing it
less often, or making it faster, saves no more than this.

## When it misleads
Threads that wait for each other elsewhere than in CUDA calls are not simulated. Under a profiler Python takes longer
than without; how much longer is known on average only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.measure.grouping import rows_by_thread
from overlapscope.measure.host_work import HostWorkKind, HostWorkTimes, found, spans_on
from overlapscope.measure.places import named
from overlapscope.measure.spans import Spans, covered, intersect, merge, spans_of, subtract, union
from overlapscope.measure.windows import rows_called
from overlapscope.model.columns import Bool
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import HOST_GAP_NS
from overlapscope.whatif.change import Change, Editor, Where

_BY_LENGTH = (None, HostWorkKind.OTHER, HostWorkKind.UNRECORDED)
"""Kinds of which only gaps count that are too long to be Python between two launches."""


@dataclass(frozen=True)
class NoHostWork(Change):
    """Host work between CUDA calls takes no time.

    Attributes:
        kind: only work of this kind, a value of `HostWorkKind`.
    """

    kind: str | None = None

    name: ClassVar[str] = "no-host-work"
    limits: ClassVar[tuple[str, ...]] = (*Change.limits, "kind")
    of_findings_only: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True
    changes_calls: ClassVar[bool] = True
    one_by_one: ClassVar[bool] = True
    condition: ClassVar[str] = "if any fix takes away all of it"
    assumption: ClassVar[str] = "takes no time: what any fix of it saves at most"

    def __post_init__(self) -> None:
        """Raise `ChangeNotUnderstood` for a kind that there is not."""
        super().__post_init__()
        if self.kind is not None and self.kind not in [*HostWorkKind]:
            raise ChangeNotUnderstood(f"{self.name}: kind={self.kind} is none of {', '.join(HostWorkKind)}")

    def _calls(self, trace: Trace) -> Bool:
        """All calls: a range or a function without any is about the time before the next one."""
        return np.ones(len(trace.api_calls), np.bool_)

    def apply(self, editor: Editor, where: Where) -> None:
        """Shorten what threads do before their calls."""
        del where
        least = HOST_GAP_NS if self.kind in _BY_LENGTH else 0
        shortened = without_host_work(editor, lambda *thread: self._spent(editor.trace, *thread), least)
        editor.assume(self.assumption if shortened else "the trace shows no such work")

    def _spent(self, trace: Trace, process: int, thread: int) -> Spans:
        """When a thread does what the change is about."""
        times, here = HostWorkTimes(trace), (process, thread)
        whole = union(np.array([trace.start_ns]), np.array([trace.end_ns]))
        if self.kind == HostWorkKind.UNRECORDED:
            spent = subtract(whole, times.recorded(*here))
        elif self.kind == HostWorkKind.OTHER:
            known = (times.of(kind, *here) for kind in HostWorkKind if kind not in _BY_LENGTH)
            spent = subtract(times.recorded(*here), merge(*known))
        else:
            spent = whole if self.kind is None else times.of(HostWorkKind(self.kind), *here)
        if self.within is not None:
            ranges = trace.ranges.take(rows_called(trace, self.within))
            spent = intersect(spent, spans_of(ranges, ranges.process == process))
        if self.source is not None:
            pattern, samples = re.compile(re.escape(self.source)), trace.samples
            there = spans_on(trace.frames, *here, named(trace.frames, pattern))
            sampled = spans_on(samples, *here, found(trace, samples.stack_id, pattern))
            spent = intersect(spent, merge(there, sampled))
        return spent


def without_host_work(editor: Editor, spent: Callable[[int, int], Spans], least_ns: int = 0) -> bool:
    """Shorten what lies between calls by the time that the thread of either call spends on something.

    Args:
        editor: the graph.
        spent: when a thread of a process spends time on it.
        least_ns: what lies between two calls stays where it is not longer, in ns.

    Returns:
        Whether anything became shorter.
    """
    graph, calls, edges = editor.graph, editor.graph.calls, editor.dependencies
    rows = np.flatnonzero(edges.of_kind(DependencyKind.PROGRAM_ORDER, DependencyKind.THREAD_HANDOFF))
    rows = rows[edges.weight_ns[rows] > least_ns]
    begin, until = (graph.time_ns[nodes[rows]] for nodes in (edges.source, edges.target))
    one, other = (calls.owner[nodes[rows] // 2] for nodes in (edges.source, edges.target))
    of_owner = {
        owner: spent(int(calls.process[calls.first[owner]]), int(calls.thread[calls.first[owner]]))
        for owner in np.unique(np.concatenate([one, other])).tolist()
    }
    spent_ns = np.zeros(len(rows), np.int64)
    for owners, places in rows_by_thread(one, other).items():
        spans = merge(*(of_owner[owner] for owner in set(owners)))
        spent_ns[places] = covered(begin[places], until[places], spans)
    weight = edges.weight_ns.copy()
    weight[rows] = np.maximum(weight[rows] - spent_ns, 0)
    editor.set_weights(weight)
    return bool(spent_ns.any())
