"""The batches of a `DataLoader` are made by worker processes.

## What it changes
The thread of the loop makes no batch any more. Each of N workers makes every Nth one, so that a batch comes no earlier
than its worker has made it after the one before. The loop takes each batch from its worker instead, which costs the
time of its transfer: 1.1 ms and 0.2 ms for each tensor, as many as are copied to the GPU until the next batch.

## What it assumes
There are as many free processor cores as workers, and they make batches as fast as the loop's thread did. Where
batches are tiny, a worker's batch costs the loop more than making it: the prediction says so then. Keep such data on
the GPU, or collate it once.

The transfer is a rough line through medians of ready batches of 1, 2, 4, 8 and 16 tensors of 4 kB: 1.2, 1.4, 2.0, 5.0
and 4.2 ms, by torch 2.13 with two workers, on a host of two cores with other work. It takes at least 0.8 ms and 0.12 ms
for each tensor, near the minima there, and at most 2.1 times the likely time: upper quartiles were 1.1 to 2.8 times the
median. So the interval is wide. Large tensors took longer there, which is not simulated.

## When it misleads
A loader that waits for a disk or a network gets faster with more workers only as long as that does. The first batch of
an epoch comes after the workers have started, which takes seconds unless they are persistent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.errors import ChangeNotUnderstood
from overlapscope.formatting import time
from overlapscope.measure.grouping import each_value
from overlapscope.measure.host_work import spans_on
from overlapscope.measure.places import in_one_table, named
from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.enums import ApiKind, Direction
from overlapscope.model.tables import HostWork
from overlapscope.whatif.calls import next_call
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.changes.no_host_work import without_host_work

_LIKELY = 1_100_000, 200_000
_LEAST = 800_000, 120_000
"""What taking a batch from a worker costs the loop, and each of its tensors, in ns; measured as the page says."""
_MOST_FACTOR = 2.1
"""The most that it costs, as a multiple of the likely time; upper quartiles were 1.1 to 2.8 times the median."""
_MADE_HERE = re.compile(r"^enumerate\(DataLoader\)#_SingleProcess")


@dataclass(frozen=True)
class Workers(Change):
    """A DataLoader with ``count`` worker processes."""

    count: float = 8.0

    name: ClassVar[str] = "workers"
    option: ClassVar[str | None] = "count"
    of_findings_only: ClassVar[bool] = True
    condition: ClassVar[str] = "if the host has as many free cores"
    changes_calls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise `ChangeNotUnderstood` for a number of workers that makes no sense."""
        super().__post_init__()
        if not np.isfinite(self.count) or self.count < 1 or self.count != int(self.count):
            raise ChangeNotUnderstood("workers needs a number, such as workers=8")

    def apply(self, editor: Editor, where: Where) -> None:
        """Take batches from workers instead of making them."""
        graph, before = editor.graph, editor.dependencies.weight_ns
        table, first = _batches(graph)
        first = first[where.calls[graph.calls.row[first]]]
        gap = graph.into(graph.call_start(first), DependencyKind.PROGRAM_ORDER)
        first, gap = first[gap != NO_ID], gap[gap != NO_ID]
        if not len(first):
            editor.assume("the trace shows no batches that the loop's thread makes")
            return
        without_host_work(editor, lambda *thread: spans_on(table, *thread))
        after = editor.dependencies.weight_ns
        made_ns, tensors = before[gap] - after[gap], _tensors(graph, first)
        least, likely = (base + each * tensors for base, each in (_LEAST, _LIKELY))
        weight = after.copy()
        weight[gap] += least
        editor.set_weights(weight)
        source, target = editor.dependencies.source[gap], graph.call_start(first)
        usual, most = (
            Dependencies.of(
                source,
                target,
                after[gap] + np.rint(taken).astype(np.int64),
                DependencyKind.THREAD_HANDOFF,
                inferred=True,
            )
            for taken in (likely, _MOST_FACTOR * likely)
        )
        editor.add(usual, *self._made(graph, first, made_ns))
        editor.avoidable = Dependencies.concat(editor.avoidable, usual)
        editor.possible = Dependencies.concat(editor.possible, most)
        taken, made = int(np.median(likely)), int(np.median(made_ns))
        editor.assume(f"taking a batch from a worker costs the loop {time(taken)}, making it took {time(made)}")
        if taken >= made:
            editor.assume("the loop gets slower: collate these batches once, or keep them on the GPU")

    def _made(self, graph: Graph, first: Int64, made_ns: Int64) -> list[Dependencies]:
        """Each batch after the one that its worker made before, by as long as it takes to make it."""
        edges = []
        for _, places in each_value(graph.calls.owner[first]):
            one, other = places[: -int(self.count)], places[int(self.count) :]
            start = graph.call_start(first)
            edges.append(
                Dependencies.of(start[one], start[other], made_ns[other], DependencyKind.THREAD_HANDOFF, inferred=True)
            )
        return edges


def pays(graph: Graph) -> bool | None:
    """Whether making a batch takes longer than taking it from a worker at most; None where no loop makes any itself."""
    made, first = _batches(graph)
    if not len(first):
        return None
    batch, tensor = _LIKELY
    return bool(np.median(made.duration_ns) > _MOST_FACTOR * np.median(batch + tensor * _tensors(graph, first)))


def _batches(graph: Graph) -> tuple[HostWork, Int64]:
    """PyTorch's ranges around the next batch of loaders without workers, and the call that comes first after each."""
    table, _ = in_one_table(graph.trace.ranges, graph.trace.cpu_ops)
    table = table.take(np.flatnonzero(named(table, _MADE_HERE)))
    first = np.unique(next_call(graph, table.process, table.thread, table.end_ns))
    return table, first[first != NO_ID]


def _tensors(graph: Graph, first: Int64) -> Int64:
    """For each batch how many copies to the GPU its thread issues until the next one; one at least."""
    calls, copies = graph.calls, graph.trace.copies
    up = graph.call_of[copies.call[(copies.direction == Direction.HTOD) & (copies.call != NO_ID)]]
    sent = np.bincount(np.unique(up[up != NO_ID]), minlength=len(calls)) * (calls.kind == ApiKind.COPY)
    total = np.append(0, np.cumsum(sent))
    past = np.append(first[1:], len(calls))
    end = np.minimum(past, np.append(calls.first, len(calls))[calls.owner[first] + 1])
    count: Int64 = np.maximum(total[end] - total[first], 1)
    return count
