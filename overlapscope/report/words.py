"""Texts of a table's rows as columns: each text once, rows as numbers of texts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from overlapscope.diagnosis.places import Moments, places
from overlapscope.model.columns import NO_ID, Int32, Names
from overlapscope.model.trace import Trace

PLACE = ("range", "source", "op", "api")
"""Names of the texts that say where a moment is in the program, as `Place` has them."""


class Words:
    """The texts of a table while it is made."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def ids(self, texts: Iterable[str | None]) -> Int32:
        """The numbers of some texts; `NO_ID` for None."""
        numbers = (NO_ID if text is None else self._number.setdefault(text, len(self._number)) for text in texts)
        return np.fromiter(numbers, np.int32)

    @property
    def names(self) -> Names:
        """All texts so far."""
        return Names(tuple(self._number))


def places_of(trace: Trace, at: Moments, words: Words) -> dict[str, Int32]:
    """Where some moments are in the program, as columns; nothing for `NO_ID`."""
    distinct, member = at.distinct()
    found = places(trace, distinct, NO_ID)
    return {f"{name}_id": words.ids(getattr(place, name) for place in found)[member] for name in PLACE}
