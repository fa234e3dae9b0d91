"""Exposed collectives beside exposed copies, by our definition and by those of HTA and TraceLens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

_OURS = "overlapscope"
_THEIRS = {"hta": "HTA's definition, which drops the last step,", "tracelens": "TraceLens'"}


@dataclass(frozen=True)
class Exposed:
    """Exposed time of the median rank in its whole trace, as one definition has it.

    A collective is exposed without another kernel at the time, for all three. A copy is exposed without a kernel or a
    memset; for HTA, whose memory time has memsets too, without a kernel; for TraceLens, without a kernel, a memset or
    a collective.
    """

    definition: str
    collectives_ns: float
    copies_ns: float


def exposed(devices: pandas.DataFrame, definitions: pandas.DataFrame) -> tuple[Exposed, ...]:
    """The exposed times by each definition; both tables have a column ``member``."""
    ours = _of_definition(_OURS, devices, "exposed_collectives_ns", "exposed_copies_ns")
    theirs = (
        _of_definition(
            name, definitions[definitions["definition"] == code], "exposed_communication_ns", "exposed_memory_ns"
        )
        for code, name in _THEIRS.items()
    )
    return (ours, *theirs)


def _of_definition(name: str, rows: pandas.DataFrame, collectives: str, copies: str) -> Exposed:
    """Medians over members; of one with several GPUs the sum counts."""
    sums = rows[rows["member"] >= 0].groupby("member")[[collectives, copies]].sum().to_numpy(np.float64)
    median = np.median(sums, axis=0) if len(sums) else np.zeros(2)
    return Exposed(name, float(median[0]), float(median[1]))
