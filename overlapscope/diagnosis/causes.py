"""Why a GPU was idle: the one list of causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64, Table, column
from overlapscope.model.enums import Labelled
from overlapscope.model.frames import frame

if TYPE_CHECKING:
    import pandas


class Cause(Labelled):
    """What idle time is attributed to. Up to ``PROFILER`` the launching thread was late, after that it was not."""

    UNKNOWN = 0, "the launch of the next work is not recorded"
    HOST_NOT_RECORDED = 1, "nothing of the launching thread was recorded"
    HOST_WORK = 2, "the launching thread ran operators, Python or named ranges"
    API_CALL = 3, "the launching thread was in a CUDA call"
    COPY_CALL = 4, "the launching thread was blocked in a copy call"
    SYNCHRONISATION = 5, "the launching thread was blocked in a synchronisation"
    ALLOCATION = 6, "the launching thread was allocating or freeing memory"
    PROFILER = 7, "the launching thread was in the profiler"
    LAUNCH_LATENCY = 8, "launch latency"
    COPY_SAME_STREAM = 9, "the next work was queued behind a copy of its stream"
    COPY_EVENT = 10, "the next work waited for an event after a copy"
    COPY_DEFAULT_STREAM = 11, "the next work waited for a copy through the legacy default stream"
    COPY_ENGINE = 12, "the next work waited for a copy that waited for its copy engine"
    WAIT_NOT_RECORDED = 13, "the next work was queued, and what it waited for is not recorded"
    COPY_ONLY = 14, "a copy ran and no other work was left"
    OTHER_DEVICE = 15, "the next work waited for another GPU"
    BACK_TO_BACK = 16, "the next work was queued already and followed at once"
    NO_WORK_LEFT = 17, "no work was left"


HOST_CAUSES = (
    Cause.HOST_NOT_RECORDED,
    Cause.HOST_WORK,
    Cause.API_CALL,
    Cause.COPY_CALL,
    Cause.SYNCHRONISATION,
    Cause.ALLOCATION,
)
"""Causes in which the launching thread was late."""
COPY_WAIT_CAUSES = (Cause.COPY_SAME_STREAM, Cause.COPY_EVENT, Cause.COPY_DEFAULT_STREAM, Cause.COPY_ENGINE)
"""Causes in which launched work waited for a copy."""


@dataclass(frozen=True)
class IdleByCause:
    """A device's idle time by cause, in ns; the causes add up to all of it."""

    of_cause: Mapping[Cause, int]

    @property
    def total_ns(self) -> int:
        """All of it."""
        return sum(self.of_cause.values())

    def sum_ns(self, *causes: Cause) -> int:
        """Idle time of some causes."""
        return sum(self.of_cause.get(cause, 0) for cause in causes)

    def to_dict(self) -> dict[str, int]:
        """As JSON-ready data: a key for every cause, such as ``copy_call_ns``."""
        return {f"{cause.name.lower()}_ns": self.of_cause.get(cause, 0) for cause in Cause}

    def to_pandas(self) -> pandas.DataFrame:
        """The causes, one per row, with their idle time in ns."""
        return frame({"cause": cause.name.lower(), "idle_ns": self.of_cause.get(cause, 0)} for cause in Cause)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IdleTime(Table):
    """Idle stretches of one device, disjoint, sorted."""

    row_meaning: ClassVar[str] = "One stretch in which a device did no work of its own, with one cause."

    start_ns: Int64 = column("i8", "begin, on the trace's clock", unit="ns")
    end_ns: Int64 = column("i8", "end, exclusive", unit="ns")
    cause: Int8 = column("i1", "what it is attributed to", enum=Cause)
    call: Int32 = column("i4", "row in api_calls of the call that its thread was in", null=NO_ID)
    blocking_call: Int32 = column(
        "i4", "row in api_calls of the call that blocked the thread, then or earlier, so that it was late", null=NO_ID
    )
    copy: Int32 = column("i4", "row in copies of the copy concerned: of the blocking call, or waited for", null=NO_ID)
    launch_call: Int32 = column("i4", "row in api_calls of the call that launched the next work", null=NO_ID)
    inferred: Bool = column("?", "whether the wait was inferred from times rather than recorded")

    @property
    def duration_ns(self) -> Int64:
        """``end_ns - start_ns``."""
        return self.end_ns - self.start_ns
