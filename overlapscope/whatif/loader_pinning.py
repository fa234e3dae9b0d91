"""What pinning costs a DataLoader: its thread pins one batch after the other, and a batch comes after it is pinned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.model.columns import NO_ID, Bool, Int64
from overlapscope.model.enums import ApiKind
from overlapscope.whatif.editor import Editor

_NEXT = "enumerate(DataLoader)#"  # torch's own range around the next batch; its class follows
_WITHOUT_WORKERS = "_SingleProcess"


def charge_loader(editor: Editor, copies: Int64) -> None:
    """Let batches that some copies, as work, send from pageable memory come as late as pinning makes them.

    A loader with workers pins on a thread of its own: batches come no faster than that, and the first batch that the
    loop waits for comes later. It waits where taking a batch takes longer than pinning it; workers hand over the next
    ones at their own pace, as before. Without workers the loop's own thread pins.
    """
    batches = _Batches.of(editor.graph, copies)
    if not len(batches.call):
        return
    config = editor.config
    inline_ns, thread_ns = (batches.size_bytes / rate for rate in (config.packing.gb_s, config.loader_gb_s))
    pin_ns = np.rint(np.where(batches.inline, inline_ns, thread_ns)).astype(np.int64)
    waits = batches.taken_ns > pin_ns
    first = waits & ~(batches.follows & np.append(False, waits[:-1]))
    gap = editor.graph.into(editor.graph.call_start(batches.call), DependencyKind.PROGRAM_ORDER)
    later = (gap != NO_ID) & (batches.inline | first)
    weight = editor.dependencies.weight_ns.copy()
    weight[gap[later]] += pin_ns[later]
    editor.set_weights(weight)
    after = np.flatnonzero(~batches.inline[1:] & batches.follows[1:]) + 1
    start = editor.graph.call_start(batches.call)
    editor.add(
        Dependencies.of(start[after - 1], start[after], pin_ns[after], DependencyKind.THREAD_HANDOFF, inferred=True)
    )
    editor.assume(f"a DataLoader's thread pins its batches one by one, at {config.loader_gb_s:g} GB/s")


@dataclass(frozen=True, eq=False)
class _Batches:
    """Batches of loaders by thread and time: the call that comes first after each, and the bytes that are sent of it.

    ``taken_ns``: how long the loop took to get it. ``inline``: the thread that takes it made it too. ``follows``: the
    batch before it is of the same thread.
    """

    call: Int64
    size_bytes: Int64
    taken_ns: Int64
    inline: Bool
    follows: Bool

    @classmethod
    def of(cls, graph: Graph, copies: Int64) -> _Batches:
        """Those whose copies are among some: copies from when a batch came to the next kernel launch."""
        ranges, calls, names = graph.trace.ranges, graph.calls, graph.trace.names
        named = [number for number, name in enumerate(names.values) if name.startswith(_NEXT)]
        rows = np.flatnonzero(np.isin(ranges.name_id, named))
        rows = rows[np.lexsort((ranges.start_ns[rows], ranges.thread[rows], ranges.process[rows]))]
        first = _first_calls(graph, ranges.process[rows], ranges.thread[rows], ranges.end_ns[rows])
        rows, first = rows[first != NO_ID], first[first != NO_ID]
        last = np.diff(first, append=NO_ID) != 0
        rows, first = rows[last], first[last]
        past = np.append(first[1:], len(calls))
        copies = copies[graph.work.call[copies] != NO_ID]
        sizes = np.maximum(graph.trace.copies.size_bytes[graph.work.row[copies]], 0)
        sent = np.bincount(graph.work.call[copies], sizes, len(calls))
        size = _until_launch(graph, sent.astype(np.int64), first, past)
        taken = ranges.end_ns[rows] - ranges.start_ns[rows]
        inline = np.array([_WITHOUT_WORKERS in names[number] for number in ranges.name_id[rows]], np.bool_)
        some = size > 0
        follows = np.diff(calls.owner[first[some]], prepend=NO_ID) == 0
        return cls(first[some], size[some], taken[some], inline[some], follows)


def _first_calls(graph: Graph, process: Int64, thread: Int64, moment_ns: Int64) -> Int64:
    """The first call of each thread at or after a time, `NO_ID` where there is none."""
    calls, result = graph.calls, np.full(len(moment_ns), NO_ID, np.int64)
    past = np.append(calls.first, len(calls))
    for owner, begin in enumerate(calls.first.tolist()):
        mine = (process == calls.process[begin]) & (thread == calls.thread[begin])
        found = begin + np.searchsorted(calls.start_ns[begin : past[owner + 1]], moment_ns[mine])
        result[mine] = np.where(found < past[owner + 1], found, NO_ID)
    return result


def _until_launch(graph: Graph, sent: Int64, first: Int64, past: Int64) -> Int64:
    """The bytes that calls send from some calls on, until their thread launches a kernel or other calls begin."""
    calls = graph.calls
    launches = np.append(np.flatnonzero(calls.kind == ApiKind.LAUNCH), len(calls))
    end = np.minimum(np.append(calls.first, len(calls))[calls.owner[first] + 1], past)
    end = np.minimum(end, launches[np.searchsorted(launches, first)])
    total = np.append(0, np.cumsum(sent))
    found: Int64 = total[np.maximum(end, first)] - total[first]
    return found
