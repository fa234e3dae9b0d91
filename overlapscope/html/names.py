"""Names on a page, each stored once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overlapscope.formatting import safe
from overlapscope.model.columns import Int32, Int64
from overlapscope.model.trace import Trace
from overlapscope.timeline.kernel_names import short_name

_WIDTH = 300  # characters that are kept of a name
_MOST = 100_000  # names of a page, so that it stays small


class PageNames:
    """Numbers of names, in the order in which they are first seen, each made safe once; 0 is a name not known.

    ``short`` has what kernels are called in their bars; ``left_out`` says whether there were too many names.
    """

    def __init__(self, most: int = _MOST) -> None:
        self.texts = {"?": 0}
        self.short: dict[int, str] = {}
        self.left_out = False
        self._most = most

    def of(self, texts: Sequence[str]) -> Int64:
        """The number of each text; 0 for new ones where there are too many."""
        found = {text: self._number(safe(text, _WIDTH) or "?") for text in dict.fromkeys(texts)}
        return np.array([found[text] for text in texts], np.int64)

    def of_ids(self, trace: Trace, name_id: Int32 | Int64) -> Int64:
        """The number of each name of a trace."""
        used, which = np.unique(name_id, return_inverse=True)
        return self.of([trace.names[number] for number in used.tolist()])[which.reshape(-1)]

    def of_kernels(self, trace: Trace, name_id: Int32 | Int64) -> Int64:
        """The same for kernels, whose short names are kept too."""
        numbers = self.of_ids(trace, name_id)
        used, first = np.unique(numbers, return_index=True)
        names = trace.names.decode(name_id[first].astype(np.int32))
        short = {number: safe(short_name(name)) for number, name in zip(used.tolist(), names, strict=True) if number}
        self.short |= short
        return numbers

    def _number(self, text: str) -> int:
        if text not in self.texts and len(self.texts) < self._most:
            self.texts[text] = len(self.texts)
        self.left_out |= text not in self.texts
        return self.texts.get(text, 0)
