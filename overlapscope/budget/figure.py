"""`Figure`: a figure that a limit is about, with the places in the program that it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from overlapscope.diagnosis.finding import Place, Share
from overlapscope.diagnosis.places import Moments, shares
from overlapscope.formatting import size, time
from overlapscope.model.columns import NO_ID, Int32, Int64
from overlapscope.model.frames import Row
from overlapscope.model.trace import Trace

_MOST_PLACES = 5


@dataclass(frozen=True)
class Cost(Row):
    """A place in the program, and how much of a figure comes from it, in ``unit``: ``count``, ``bytes`` or ``ns``."""

    where: Place
    amount: int
    unit: str = "ns"

    @property
    def words(self) -> str:
        """The place and the amount as text."""
        units = {"ns": time, "bytes": size, "count": "{:,}".format}
        gpu = "" if self.where.device is None else f", GPU {self.where.device}"
        return f"{self.where.words or f'a place that is not recorded{gpu}'} ({units[self.unit](self.amount)})"


@dataclass(frozen=True)
class Figure:
    """A measured figure, with the rule that it is about and where it comes from, the largest part first.

    ``value`` is None where the trace does not have it, and ``missing`` says why. ``doubt`` says what is missing where
    the figure is only a bound: a limit that it breaks is broken, one that it keeps to may be broken all the same.
    ``about`` says in which step or on which GPU it is so.
    """

    value: float | None
    missing: str = ""
    doubt: str = ""
    about: str = ""
    rule: str | None = None
    places: tuple[Cost, ...] = ()


def missing(reason: str) -> Figure:
    """A figure that the trace does not have."""
    return Figure(None, reason)


def costs(found: Iterable[Share], unit: str = "ns") -> tuple[Cost, ...]:
    """Places with their amounts, the largest first."""
    every = sorted((Cost(share.where, share.idle_ns, unit) for share in found), key=lambda cost: -cost.amount)
    known = [cost for cost in every if cost.where.words]
    return tuple((known or every)[:_MOST_PLACES])


def places_of_calls(trace: Trace, calls: Int64, amounts: Int64, unit: str) -> tuple[Cost, ...]:
    """The places of some calls, each with its amount."""
    return costs(shares(trace, Moments.of_calls(trace, calls), amounts, NO_ID), unit)


def places_of_copies(trace: Trace, copies: Int64 | Int32, amounts: Int64, unit: str) -> tuple[Cost, ...]:
    """The places where some copies were issued, each with its amount."""
    table = trace.copies
    at = Moments.of_calls(trace, table.call[copies], table.stream[copies])
    at = replace(at, process=np.where(at.process == NO_ID, table.process[copies], at.process))
    devices = np.unique(table.device[copies]).tolist()
    device = devices[0] if len(devices) == 1 else NO_ID
    return costs(shares(trace, at, amounts, device), unit)
