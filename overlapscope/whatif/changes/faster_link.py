"""Pinned copies over a link run at another bandwidth.

## What it changes
Pinned copies that are slower than the given GB/s take as long as they would at that. Copies from pageable memory stay:
staging does not get faster with the link.

## When it misleads
A link that is slow for a reason (both directions at once, another GPU behind the same switch) stays slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlapscope.errors import ChangeNotUnderstood
from overlapscope.measure.copies import host_kind
from overlapscope.model.enums import MemoryKind
from overlapscope.whatif.change import Change, Editor, Where

_LEAST_GB_S = 1e-3


@dataclass(frozen=True)
class FasterLink(Change):
    """Pinned copies at ``gb_s`` GB/s."""

    name: ClassVar[str] = "faster-link"
    of_findings_only: ClassVar[bool] = True
    only_removes: ClassVar[bool] = True
    option: ClassVar[str | None] = "gb_s"
    gb_s: float = float("nan")

    def __post_init__(self) -> None:
        """Raise `ChangeNotUnderstood` without a bandwidth that makes sense."""
        super().__post_init__()
        if not np.isfinite(self.gb_s) or self.gb_s < _LEAST_GB_S:
            raise ChangeNotUnderstood("faster-link needs a number, such as faster-link=50")

    def apply(self, editor: Editor, where: Where) -> None:
        """Shorten copies that are slower."""
        graph, copies = editor.graph, editor.trace.copies
        pinned = where.copies & (host_kind(copies) == MemoryKind.PINNED) & (copies.size_bytes > 0)
        sent = graph.work_of_rows(pinned)
        run, wanted = graph.runs(sent), np.rint(copies.size_bytes[graph.work.row[sent]] / self.gb_s).astype(np.int64)
        faster = editor.dependencies.weight_ns[run] > wanted
        editor.limit_weights(run[faster], wanted[faster])
        linked = f"a link of {self.gb_s:g} GB/s, as asked for"
        editor.assume(linked if faster.any() else f"no pinned copy is slower than {self.gb_s:g} GB/s")
