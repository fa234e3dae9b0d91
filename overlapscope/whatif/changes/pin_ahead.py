"""What `pin_memory()` copies in the loop is pinned before: the operator takes no time on its thread.

## What it changes
The time inside `aten::pin_memory` is gone from the threads that call the GPU, with the allocations in it. The copies
are pinned already. They take no longer than the calibration says: data that the processor has just written is in its
caches, and the GPU reads it from there more slowly. On an H200, 64 MiB take 1.57 ms right after `pin_memory()` and 1.23
otherwise, 64 KiB 5.6 us and 3.8.

## What it assumes
Somebody else pins, in time: the pinning thread of a `DataLoader(pin_memory=True)`, or the program before its loop.

## When it misleads
Pinning ahead takes the same time elsewhere. A pinning thread that is slower than the loop makes the loop wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.measure.grouping import at
from overlapscope.model.enums import Direction, MemoryKind
from overlapscope.whatif.change import Change, Editor, Where
from overlapscope.whatif.copy_speeds import calibrated_speed
from overlapscope.whatif.pinning import after_pinning, without_pinning


@dataclass(frozen=True)
class PinAhead(Change):
    """No ``pin_memory()`` in the loop."""

    name: ClassVar[str] = "pin-ahead"
    condition: ClassVar[str] = "if somebody else pins in time"
    form_of: ClassVar[str] = "pinned memory"
    only_removes: ClassVar[bool] = True
    changes_calls: ClassVar[bool] = True

    def apply(self, editor: Editor, where: Where) -> None:
        """Take the time of the operators out, and what their fresh data costs the copies."""
        if not without_pinning(editor, np.flatnonzero(where.calls[editor.graph.calls.row])):
            editor.assume("no pin_memory() on a thread that calls the GPU")
            return
        _send_pinned(editor, where)


def _send_pinned(editor: Editor, where: Where) -> None:
    """Copies of what was pinned in the loop take no longer than others of their size, where that was measured."""
    copies = editor.trace.copies
    fresh = after_pinning(editor.trace) & at(where.calls, copies.call, False) & (copies.size_bytes >= 0)
    speed = calibrated_speed(editor.trace, Direction.HTOD, MemoryKind.PINNED)
    if speed is None or not fresh.any():
        return
    sent = editor.graph.work_of_rows(fresh)
    editor.limit_weights(editor.graph.runs(sent), speed.copy_time_ns(copies.size_bytes[editor.graph.work.row[sent]]))
    editor.assume(f"copies take no longer than pinned ahead: {speed.known_from}")
