"""Why a GPU was idle: the one list of causes, and of what made a launching thread late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from overlapscope.dependencies.kinds import DependencyKind
from overlapscope.measure.host_work import HostWorkKind
from overlapscope.measure.spans import Spans, union
from overlapscope.model.columns import NO_ID, Bool, Columnar, Int8, Int32, Int64, Table, column
from overlapscope.model.enums import Labelled
from overlapscope.model.frames import frame
from overlapscope.model.tables import ApiCalls
from overlapscope.model.trace import Trace
from overlapscope.whatif.calls import HOST_GAP_NS

if TYPE_CHECKING:
    import pandas


class CauseGroup(Enum):
    """The groups of causes; how idle time of a cause is treated depends on its group only."""

    HOST = "the launching thread was late"
    BLOCKED = "the launching thread was late: a call blocked it"
    PROFILER = "the launching thread was late: the profiler kept it"
    COPY = "launched work waited for a copy"
    DEVICE = "launched work waited for something else"
    NONE = "nothing was late"


class Cause(Labelled):
    """The causes of idle time: each with its number, its name in a report, and its group.

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
    GARBAGE_COLLECTION = 20, "garbage collection", CauseGroup.HOST
    INTERPRETER_LOCK = 21, "waiting for the interpreter lock", CauseGroup.HOST
    SLEEP = 22, "sleeping", CauseGroup.HOST
    FILE = 23, "reading and writing files", CauseGroup.HOST
    LOGGING = 24, "printing and logging", CauseGroup.HOST

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
        """The idle time of all causes."""
        return sum(self.of_cause.values())

    def sum_ns(self, *causes: Cause) -> int:
        """Idle time of some causes."""
        return sum(self.of_cause.get(cause, 0) for cause in causes)

    def to_dict(self) -> dict[str, int]:
        """The idle time as JSON-ready data: a key for every cause, such as ``copy_call_ns``."""
        return {f"{cause.name.lower()}_ns": self.of_cause.get(cause, 0) for cause in Cause}

    def to_pandas(self) -> pandas.DataFrame:
        """The causes, one per row, with their idle time in ns."""
        return frame({"cause": cause.name.lower(), "time_ns": self.of_cause.get(cause, 0)} for cause in Cause)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IdleTime(Table):
    """One stretch in which a device did no work of its own, with one cause.

    The stretches of a device are disjoint and sorted.
    """

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


@dataclass(frozen=True, eq=False)
class Pieces(Columnar):
    """Rows of `IdleTime` to be, with the stretch that each lies in; rows of tables are `NO_ID` where unknown."""

    gap: Int64
    start_ns: Int64
    end_ns: Int64
    cause: Int64 | Int8
    call: Int64
    blocking_call: Int64
    copy: Int64
    awaited_copy: Int64
    launch_call: Int64
    inferred: Bool

    @classmethod
    def of(
        cls, gap: Int64, start_ns: Int64, end_ns: Int64, cause: Int64 | Int8 | int, **columns: Int64 | Bool
    ) -> Pieces:
        """The pieces that have a length; columns that are left out are not known."""
        values: dict[str, Any] = {entry.name: NO_ID for entry in fields(cls)} | {"inferred": False} | columns
        values |= {"gap": gap, "start_ns": start_ns, "end_ns": end_ns, "cause": cause}
        return cls(*(np.broadcast_to(column, len(gap)) for column in values.values())).take(end_ns > start_ns)

    @property
    def spans(self) -> Spans:
        """The time that the pieces cover."""
        return union(self.start_ns, self.end_ns)

    @classmethod
    def by_start(cls, *parts: Pieces) -> Pieces:
        """The rows of all parts, sorted by their start."""
        pieces = cls.concat(*parts)
        return pieces.take(np.argsort(pieces.start_ns, kind="stable"))


class Lateness(Labelled):
    """The kinds of work that a launching thread did instead of launching, and what the GPU waited for."""

    waited_for: str

    def __new__(cls, value: int, label: str = "", waited_for: str = "") -> Lateness:
        """Make a member from its number, its name and its noun."""
        member = int.__new__(cls, value)
        member._value_, member.label, member.waited_for = value, label, waited_for
        return member

    LAUNCH_BOUND = 0, "launch-bound", "launch-bound (CPU overhead)"
    HOST_WORK = 1, "host-work", "host work between launches"
    DATA_LOADING = 2, "data-loading", "the data loader"
    FIRST_USE = 3, "first-use", "setup, one time"
    NOT_RECORDED = 4, "not-recorded", "host work that is not recorded"
    GARBAGE_COLLECTION = 5, "garbage-collection", "garbage collection"
    INTERPRETER_LOCK = 6, "interpreter-lock", "the interpreter lock"
    SLEEP = 7, "sleep", "a sleep of the host"
    FILE = 8, "file", "files"
    LOGGING = 9, "logging", "printing and logging"

    @property
    def host_work(self) -> HostWorkKind | None:
        """The kind of host work that it is; None for launches, and for what happens once."""
        return _HOST_WORK.get(self)


OF_HOST_WORK = {
    HostWorkKind.GC: Cause.GARBAGE_COLLECTION,
    HostWorkKind.LOADING: Cause.DATA_LOADING,
    HostWorkKind.LOGGING: Cause.LOGGING,
    HostWorkKind.SLEEP: Cause.SLEEP,
    HostWorkKind.FILE: Cause.FILE,
    HostWorkKind.LOCK: Cause.INTERPRETER_LOCK,
}
"""The causes of host work whose kind is known; of several at once the first one counts."""
_OF_CAUSE = {cause: Lateness[cause.name] for cause in (*OF_HOST_WORK.values(), Cause.FIRST_USE)}
_HOST_WORK = {Lateness[cause.name]: kind for kind, cause in OF_HOST_WORK.items()} | {
    Lateness.HOST_WORK: HostWorkKind.OTHER,
    Lateness.NOT_RECORDED: HostWorkKind.UNRECORDED,
}


def late_by_itself(idle: IdleTime | Pieces) -> Bool:
    """Which idle time the launching thread caused while no call blocked it, earlier or then."""
    late: Bool = np.isin(idle.cause, (*HOST_CAUSES, Cause.LAUNCH_LATENCY)) & (idle.blocking_call == NO_ID)
    return late


def waits_briefly(calls: ApiCalls, idle: IdleTime | Pieces) -> Bool:
    """Which idle time is before a launch that a GPU waited no longer for than what a CUDA graph is simulated to save.

    Only waits in which the thread was late by itself count.
    """
    late, wait = late_by_itself(idle), np.zeros(len(calls) + 1, np.int64)
    np.add.at(wait, idle.launch_call[late], (idle.end_ns - idle.start_ns)[late])
    short: Bool = (wait[idle.launch_call] <= HOST_GAP_NS) & (idle.launch_call != NO_ID)
    return short


def lateness(trace: Trace, idle: IdleTime) -> Int8:
    """The kind of each idle interval in which no call blocked the thread, earlier or then.

    A GPU that waits no longer for a launch than what a CUDA graph is simulated to save is launch-bound.
    """
    short = waits_briefly(trace.api_calls, idle)
    kind = np.where(short, Lateness.LAUNCH_BOUND, Lateness.HOST_WORK).astype(np.int8)
    kind[(idle.cause == Cause.HOST_NOT_RECORDED) & ~short] = Lateness.NOT_RECORDED
    for cause, number in _OF_CAUSE.items():
        kind[idle.cause == cause] = number
    return kind
