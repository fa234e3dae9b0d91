"""What `pin_memory()` copies in the loop is pinned before: the operator takes no time on its thread.

## What it changes
The time inside `aten::pin_memory` is gone from the threads that call the GPU, with the allocations in it. The copies
stay as they are: they are pinned already.

## What it assumes
Somebody else pins, in time: the pinning thread of a `DataLoader(pin_memory=True)`, or the program before its loop.

## When it misleads
Pinning ahead takes the same time elsewhere. A pinning thread that is slower than the loop makes the loop wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.whatif.change import Change
from overlapscope.whatif.editor import Editor, Where
from overlapscope.whatif.pinning import without_pinning


@dataclass(frozen=True)
class PinAhead(Change):
    """No ``pin_memory()`` in the loop."""

    name: ClassVar[str] = "pin-ahead"
    about_calls: ClassVar[bool] = True
    often_followed_by: ClassVar[tuple[str, ...]] = ("non-blocking", "side-stream")

    def apply(self, editor: Editor, where: Where) -> None:
        """Take the time of the operators out."""
        if not without_pinning(editor, np.flatnonzero(where.calls[editor.graph.calls.row])):
            editor.assume("no pin_memory() on a thread that calls the GPU")
