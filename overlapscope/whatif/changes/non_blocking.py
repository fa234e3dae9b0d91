"""The host does not wait for copies: no synchronisation right after them, no call that blocks by name.

## What it changes
The synchronisation that directly follows a copy is gone, as with `non_blocking=True`, and calls such as `cudaMemcpy` on
pinned memory return at once.

## What it assumes
A single value that comes to the host is read, and waited for in any case. So is the program's own synchronisation after
it. Other data that comes to the host is waited for before it is read, where the trace shows the reader; what `.cpu()`
and `.to()` bring is taken to be read at once. A synchronisation of the GPU or an event after a copy to the GPU may be
there for something else: the upper bound keeps it.

Races are not simulated: before an operator overwrites what is sent, the host waits for the copy, as with an event,
where the recording knows that operator (OVL102, OVL103). Elsewhere the prediction says what the host must not do early.

## When it misleads
A source that is overwritten after the copy call needs the copy to be complete. Where the trace does not show who does
that, such as numpy or a library, the prediction has no wait for it, and the program may need one, or two buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.graph import Dependencies, Graph
from overlapscope.measure.copies import host_kind
from overlapscope.model.columns import Bool
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.whatif.calls import blocking_by_name, enqueue_ns, scalar_reads, synchronisations_after
from overlapscope.whatif.change import Change
from overlapscope.whatif.d2h_consumers import keep_waits_of_readers
from overlapscope.whatif.editor import Editor, Where

_OWN = "a synchronisation of the GPU or an event after a copy is taken to be there for the copy"


@dataclass(frozen=True)
class NonBlocking(Change):
    """The host does not wait for copies."""

    name: ClassVar[str] = "non-blocking"
    needs_order: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True
    often_followed_by: ClassVar[tuple[str, ...]] = ("side-stream", "no-scalar-sync")

    def apply(self, editor: Editor, where: Where) -> None:
        """Take the waits out, and keep those of readers."""
        before, copies = editor.graph, editor.trace.copies
        wanted = where.copies & ~scalar_reads(editor.trace)
        down = copies.direction == Direction.DTOH
        after = synchronisations_after(before, wanted)
        after &= (before.calls.kind == ApiKind.STREAM_SYNC) | synchronisations_after(before, wanted & ~down)
        editor.without_waits(np.flatnonzero(after))
        pinned = wanted & (host_kind(copies) == MemoryKind.PINNED)
        blocking = np.intersect1d(editor.calls_of(pinned), blocking_by_name(before))
        if len(blocking):
            editor.without_waits(blocking, enqueue_ns(before, editor.config))
        came = where.but(wanted & down).work(before)
        gone = keep_waits_of_readers(editor, before, came)
        own = gone.take(~np.isin(gone.source, before.work_end(came)) & _of_the_program(before, gone))
        if len(own):
            editor.assume(_OWN)
            editor.possible = Dependencies.together(editor.possible, own)


def _of_the_program(graph: Graph, waits: Dependencies) -> Bool:
    """Which waits are of synchronisations of the GPU or an event, which no copy makes by itself."""
    kind = graph.calls.kind[waits.target // 2]
    own: Bool = np.isin(kind, SYNC_CALLS) & (kind != ApiKind.STREAM_SYNC)
    return own
