"""Why a GPU was idle: the one list of causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.model.columns import NO_ID, Bool, Int8, Int32, Int64, Table, column
from overlapscope.model.enums import Labelled
from overlapscope.model.frames import frame

if TYPE_CHECKING:
    import pandas


class CauseGroup(Enum):
    """What the causes of a group have in common; how idle time of a cause is treated depends on its group only."""

    HOST = "the launching thread was late"
    BLOCKED = "the launching thread was late: a call blocked it"
    PROFILER = "the launching thread was late: the profiler kept it"
    COPY = "launched work waited for a copy"
    DEVICE = "launched work waited for something else"
    NONE = "nothing was late"


class Cause(Labelled):
    """What idle time is attributed to: each cause with its number, its name in a report, and its group.

    A cause in the group `COPY` names the dependency through which work waited for the copy.
    """

    group: CauseGroup
    dependency: DependencyKind | None

    def __new__(
        cls, value: int, label: str = "", group: CauseGroup = CauseGroup.NONE, dependency: DependencyKind | None = None
    ) -> Cause:
        """Make a member from its number, its name, its group and its dependency."""
        member = int.__new__(cls, value)
        member._value_, member.label = value, label
        member.group, member.dependency = group, dependency
        return member

    UNKNOWN = 0, "launch not recorded", CauseGroup.DEVICE
    HOST_NOT_RECORDED = 1, "host not recorded", CauseGroup.HOST
    HOST_WORK = 2, "host work in ranges and operators", CauseGroup.HOST
    API_CALL = 3, "launches and other CUDA calls", CauseGroup.HOST
    COPY_CALL = 4, "host blocked in copy calls", CauseGroup.BLOCKED
    SYNCHRONISATION = 5, "host blocked in synchronisations", CauseGroup.BLOCKED
    ALLOCATION = 6, "allocating or freeing memory", CauseGroup.BLOCKED
    PROFILER = 7, "profiler", CauseGroup.PROFILER
    LAUNCH_LATENCY = 8, "launch latency", CauseGroup.DEVICE
    COPY_SAME_STREAM = 9, "queued behind a copy on its stream", CauseGroup.COPY, DependencyKind.STREAM_ORDER
    COPY_EVENT = 10, "waiting for the event of a copy", CauseGroup.COPY, DependencyKind.EVENT
    COPY_DEFAULT_STREAM = (
        11,
        "waiting for a copy through the legacy default stream",
        CauseGroup.COPY,
        DependencyKind.LEGACY_DEFAULT_STREAM,
    )
    COPY_ENGINE = 12, "waiting for a copy that waited for its engine", CauseGroup.COPY, DependencyKind.COPY_ENGINE
    WAIT_NOT_RECORDED = 13, "queued; its wait is not recorded", CauseGroup.DEVICE, DependencyKind.NOT_RECORDED
    COPY_ONLY = 14, "only copies left", CauseGroup.DEVICE
    OTHER_DEVICE = 15, "waiting for another GPU", CauseGroup.DEVICE
    BACK_TO_BACK = 16, "between queued work", CauseGroup.NONE
    NO_WORK_LEFT = 17, "no work left", CauseGroup.NONE
    DATA_LOADING = 18, "data loading", CauseGroup.HOST
    FIRST_USE = 19, "first use: loading modules, setting up", CauseGroup.HOST

    @classmethod
    def in_groups(cls, *groups: CauseGroup) -> tuple[Cause, ...]:
        """The causes of some groups."""
        return tuple(cause for cause in cls if cause.group in groups)

    @classmethod
    def behind(cls, kind: DependencyKind) -> Cause:
        """The cause of work that waited for a copy through a dependency of this kind."""
        return next((cause for cause in cls if cause.dependency is kind), cls.UNKNOWN)


HOST_CAUSES = Cause.in_groups(CauseGroup.HOST, CauseGroup.BLOCKED)
"""Causes in which the launching thread was late by itself."""
COPY_WAIT_CAUSES = Cause.in_groups(CauseGroup.COPY)
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
    awaited_copy: Int32 = column(
        "i4", "row in copies of the copy that was waited for, queued behind ``copy`` where it is another", null=NO_ID
    )
    launch_call: Int32 = column("i4", "row in api_calls of the call that launched the next work", null=NO_ID)
    inferred: Bool = column("?", "whether the wait was inferred from times rather than recorded")

    @property
    def duration_ns(self) -> Int64:
        """``end_ns - start_ns``."""
        return self.end_ns - self.start_ns
