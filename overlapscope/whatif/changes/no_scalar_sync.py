"""The host reads no value in the loop: `.item()`, `.cpu()`, `nonzero()` and their like do not make it wait.

## What it changes
Copies to the host are not waited for, neither in their own calls nor right after. A single value that is not read is
not copied either: its copy and both calls take no time.

## What it assumes
The program does not need the value there: keep it on the GPU, or read it some steps later. The prediction says how many
values and bytes that are, and until when the host must not read them. A tensor that the host reads there, as a
recording shows, is still waited for.

## When it misleads
Control flow that depends on the value needs it; read it one step later then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.model.enums import Direction
from overlapscope.whatif.calls import enqueue_ns, scalar_reads, synchronisations_after
from overlapscope.whatif.change import Change, Editor, Where


@dataclass(frozen=True)
class NoScalarSync(Change):
    """The host reads no value in the loop."""

    name: ClassVar[str] = "no-scalar-sync"
    condition: ClassVar[str] = "if the program goes on without these values"
    form_of: ClassVar[str] = "reads"
    needs_order: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True
    old_name: ClassVar[str | None] = "no-host-read"

    def apply(self, editor: Editor, where: Where) -> None:
        """Take the reads and their waits out."""
        graph = editor.graph
        down = where.copies & (editor.trace.copies.direction == Direction.DTOH)
        values = down & scalar_reads(editor.trace)
        reads, waits = editor.calls_of(values), np.flatnonzero(synchronisations_after(graph, values))
        editor.without_waits(np.flatnonzero(synchronisations_after(graph, down)))
        editor.without_waits(editor.calls_of(down), enqueue_ns(graph))
        editor.without_waits(np.concatenate([reads, waits]))
        edges = editor.dependencies
        gone = edges.of_kind(DependencyKind.EXECUTION)
        gone &= np.isin(edges.target, graph.work_end(graph.work_of_rows(values)))
        gone |= edges.of_kind(DependencyKind.PROGRAM_ORDER) & np.isin(edges.target, graph.call_start(waits))
        editor.limit_weights(gone, 0)
        later = edges.of_kind(DependencyKind.SYNCHRONISATION) & (edges.target % 2 == 0)  # into the call of a reader
        editor.remove(later & np.isin(edges.source, graph.work_end(graph.work_of_rows(down))))
