"""Memory is allocated before the loop: calls that allocate or free wait for nothing and take no time.

## What it changes
`cudaMalloc`, `cudaFree`, `cudaHostAlloc`, `cudaFreeHost` and their like are gone, and with them what they waited for.

## When it misleads
An allocation inside a library's workspace may not be yours to move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.model.enums import ALLOCATIONS
from overlapscope.whatif.change import Change
from overlapscope.whatif.editor import Editor, Where


@dataclass(frozen=True)
class Preallocate(Change):
    """No allocation and no free in the loop."""

    name: ClassVar[str] = "preallocate"
    only_removes: ClassVar[bool] = True
    about_calls: ClassVar[bool] = True
    of_findings_calls: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Take the calls out."""
        calls = editor.graph.calls
        editor.without_waits(np.flatnonzero(np.isin(calls.kind, ALLOCATIONS) & where.calls[calls.row]))
