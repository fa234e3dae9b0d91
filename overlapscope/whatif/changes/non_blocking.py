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

from overlapscope.dependencies.graph import Dependencies
from overlapscope.measure.copies import host_kind
from overlapscope.model.enums import SYNC_CALLS, ApiKind, Direction, MemoryKind
from overlapscope.whatif.calls import blocking_by_name, enqueue_ns, scalar_reads, synchronisations_after
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.host_memory import keep_waits_of_readers

_FOR_COPY = "a synchronisation of the GPU or an event after a copy is taken to be there for the copy"


@dataclass(frozen=True)
class NonBlocking(Change):
    """The host does not wait for copies."""

    name: ClassVar[str] = "non-blocking"
    condition: ClassVar[str] = "if the host leaves copied memory alone"
    needs_order: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True

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
            editor.without_waits(blocking, enqueue_ns(before))
        came = before.work_of_rows(wanted & down)
        gone = keep_waits_of_readers(editor, before, came)
        kind = before.calls.kind[gone.target // 2]  # no copy synchronises with the GPU or an event by itself
        of_program = np.isin(kind, SYNC_CALLS) & (kind != ApiKind.STREAM_SYNC)
        waits = gone.take(~np.isin(gone.source, before.work_end(came)) & of_program)
        if len(waits):
            editor.assume(_FOR_COPY)
            editor.possible = Dependencies.concat(editor.possible, waits)
