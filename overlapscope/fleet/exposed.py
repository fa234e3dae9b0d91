"""Exposed collectives beside exposed copies, by our definition and by those of HTA and TraceLens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

OURS = "overlapscope"
NAMES = {"hta": "HTA", "tracelens": "TraceLens"}
"""The other tools, by the name of their definition in the tables."""


@dataclass(frozen=True)
class Exposed:
    """Exposed time in the whole trace, as one definition has it: of the median rank, and the most with its member.

    A collective is exposed without another kernel at the time, for all three. A copy is exposed without a kernel or a
    memset; for HTA, whose memory time has memsets too, without a kernel; for TraceLens, without a kernel, a memset or
    a collective.
    """

    definition: str
    collectives_ns: float
    copies_ns: float
    most_collectives: tuple[int, float] | None = None
    most_copies: tuple[int, float] | None = None


def exposed(devices: pandas.DataFrame, definitions: pandas.DataFrame) -> tuple[Exposed, ...]:
    """The exposed times by each definition; both tables have a column ``member``."""
    ours = _of_definition(OURS, devices, "exposed_collectives_ns", "exposed_copies_ns")
    theirs = (
        _of_definition(
            name, definitions[definitions["definition"] == code], "exposed_communication_ns", "exposed_memory_ns"
        )
        for code, name in NAMES.items()
    )
    return (ours, *theirs)


def _of_definition(name: str, rows: pandas.DataFrame, collectives: str, copies: str) -> Exposed:
    """Over members; of one with several GPUs the sum counts."""
    sums = rows[rows["member"] >= 0].groupby("member")[[collectives, copies]].sum()
    if sums.empty:
        return Exposed(name, 0.0, 0.0)
    median = np.median(sums.to_numpy(np.float64), axis=0)
    most = [
        (int(sums.index.to_numpy(np.int64)[sums[each].argmax()]), float(sums[each].max()))
        for each in (collectives, copies)
    ]
    return Exposed(name, float(median[0]), float(median[1]), *most)
