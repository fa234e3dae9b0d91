"""Memory is allocated before the loop: calls that allocate or free wait for nothing and take no time.

## What it changes
`cudaMalloc`, `cudaFree`, `cudaHostAlloc`, `cudaFreeHost` and their like are gone, and with them what they waited for.
First calls by which the program sets itself up stay.

## What it assumes
Memory that is made once is used again and again: copies from and to it are complete by then, and before the host reads
what came. Calls that allocate or free often wait for that now; the program has to, by an event (OVL102, OVL103). Where
the trace has such copies, the prediction says so.

## When it misleads
An allocation inside a library's workspace may not be yours to move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.measure.first_use import FirstUse
from overlapscope.model.enums import ALLOCATIONS, MemoryKind
from overlapscope.whatif.change import Change, Editor, Where

_COMPLETE = "copies are complete before the host reads or refills their memory; no allocation waits for them any more"


@dataclass(frozen=True)
class Preallocate(Change):
    """No allocation and no free in the loop."""

    name: ClassVar[str] = "preallocate"
    condition: ClassVar[str] = "if the allocations can move before the loop"
    needs_order: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True
    changes_calls: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Take the calls out."""
        calls = editor.graph.calls
        loop = where.calls & ~FirstUse(editor.trace).calls
        gone = np.flatnonzero(np.isin(calls.kind, ALLOCATIONS) & loop[calls.row])
        editor.without_waits(gone)
        if len(gone) and editor.graph.of_memory(MemoryKind.PINNED).any():
            editor.grant(_COMPLETE)
