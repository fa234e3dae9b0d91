"""The tables of a trace, with every column declared once.

All times are integer nanoseconds on the trace's own clock, intervals are half-open [start, end), and tables are sorted
by start. A row number (``call``, ``parent``) is an index into the whole table that it refers to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlapscope.model.columns import NO_ID, NO_TIME, Bool, Int8, Int32, Int64, Table, column
from overlapscope.model.enums import ApiKind, Direction, HostEventKind, MemoryKind, RangeKind, StreamKind, SyncKind


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Timed(Table):
    """Base of tables whose rows have a start and an end in a process."""

    start_ns: Int64 = column("i8", "begin, on the trace's clock", unit="ns")
    end_ns: Int64 = column("i8", "end, exclusive", unit="ns")
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)

    @property
    def duration_ns(self) -> Int64:
        """``end_ns - start_ns``."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DeviceWork(Timed):
    """Base of kernels, copies and memsets: device, stream, and the call that issued the work."""

    device: Int32 = column("i4", "device number as its process sees it", null=NO_ID)
    context: Int64 = column("i8", "CUDA context id", null=NO_ID)
    stream: Int64 = column("i8", "stream id, unique within process and device", null=NO_ID)
    correlation: Int64 = column("i8", "the profiler's correlation id, shared with the call", null=NO_ID)
    call: Int32 = column("i4", "row in api_calls of the call that issued it", null=NO_ID)
    graph_node: Int64 = column("i8", "node id when a CUDA graph launch issued it", null=NO_ID)
    name_id: Int32 = column("i4", "name as recorded", text=True, null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Kernels(DeviceWork):
    """One execution of a kernel on a device."""

    blocks: Int64 = column("i8", "thread blocks in the grid", null=NO_ID)
    threads_per_block: Int32 = column("i4", "threads in a block", null=NO_ID)
    group_id: Int32 = column("i4", "process group of a collective: its name and ranks", text=True, null=NO_ID)
    sequence: Int64 = column("i8", "number of a collective in its process group", null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Copies(DeviceWork):
    """One copy on a device, or one unified-memory page migration."""

    size_bytes: Int64 = column("i8", "bytes copied", unit="bytes", null=NO_ID)
    direction: Int8 = column("i1", "direction", enum=Direction)
    source_kind: Int8 = column("i1", "memory kind of the source", enum=MemoryKind)
    target_kind: Int8 = column("i1", "memory kind of the target", enum=MemoryKind)
    source_device: Int32 = column("i4", "source device of a peer copy", null=NO_ID)
    target_device: Int32 = column("i4", "target device of a peer copy", null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Memsets(DeviceWork):
    """One memset on a device."""

    size_bytes: Int64 = column("i8", "bytes written", unit="bytes", null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class HostWork(Timed):
    """Base of everything that runs on a host thread."""

    thread: Int64 = column("i8", "operating-system thread id", null=NO_ID)
    name_id: Int32 = column("i4", "name as recorded", text=True, null=NO_ID)

    @property
    def threads(self) -> list[tuple[int, int]]:
        """Process and thread of every thread with rows, sorted."""
        changes = (self.process[1:] != self.process[:-1]) | (self.thread[1:] != self.thread[:-1])
        first = np.append(True, changes)[: len(self)]  # rows of one thread often follow each other
        return sorted(set(zip(self.process[first].tolist(), self.thread[first].tolist(), strict=True)))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ApiCalls(HostWork):
    """One CUDA or HIP runtime or driver call on a host thread."""

    kind: Int8 = column("i1", "kind of call, by its name", enum=ApiKind)
    correlation: Int64 = column("i8", "the profiler's correlation id, shared with device work", null=NO_ID)
    parent: Int32 = column("i4", "row of the call that encloses it on its thread", null=NO_ID)

    @property
    def captured(self) -> Bool:
        """Which calls were captured into a CUDA graph: they issue nothing until the graph is launched."""
        begins, ends = (np.isin(self.name_id, self._named(f"Stream{what}Capture")) for what in ("Begin", "End"))
        result = np.zeros(len(self), np.bool_)
        for process, thread in {*zip(self.process[begins].tolist(), self.thread[begins].tolist(), strict=True)}:
            rows = np.flatnonzero((self.process == process) & (self.thread == thread))
            depth = np.cumsum(begins[rows].astype(np.int64) - ends[rows])
            result[rows] = depth > np.minimum(np.minimum.accumulate(depth), 0)
        return result

    def _named(self, part: str) -> list[int]:
        return [number for number in np.unique(self.name_id).tolist() if part in self.names[number]]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Syncs(Timed):
    """One synchronisation event of the profiler; not device work."""

    device: Int32 = column("i4", "device concerned", null=NO_ID)
    stream: Int64 = column("i8", "stream waited for, or the stream that waits for an event", null=NO_ID)
    kind: Int8 = column("i1", "kind of synchronisation, by its call where that is known", enum=SyncKind)
    correlation: Int64 = column("i8", "the profiler's correlation id, shared with the call", null=NO_ID)
    call: Int32 = column("i4", "row of its call in api_calls", null=NO_ID)
    event: Int64 = column("i8", "CUDA event id", null=NO_ID)
    source_stream: Int64 = column("i8", "stream that recorded the event waited for", null=NO_ID)
    record_call: Int32 = column("i4", "row in api_calls of the call that recorded the event", null=NO_ID)
    inferred: Bool = column("?", "whether the source was inferred rather than recorded")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EventRecords(Table):
    """One CUDA event recorded on a stream, where the profiler notes it."""

    time_ns: Int64 = column("i8", "when the device reached it", unit="ns", null=NO_TIME)
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    stream: Int64 = column("i8", "stream it was recorded on", null=NO_ID)
    event: Int64 = column("i8", "CUDA event id", null=NO_ID)
    correlation: Int64 = column("i8", "the profiler's correlation id, shared with the call", null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EventWaits(Table):
    """One stream made to wait for an event, by a synchronisation record or, then inferred, by its calls alone."""

    time_ns: Int64 = column("i8", "when the wait was issued", unit="ns")
    recorded_ns: Int64 = column("i8", "when the event's record was issued, where known, else as above", unit="ns")
    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device of the stream that waits", null=NO_ID)
    stream: Int64 = column("i8", "stream that waits", null=NO_ID)
    source_device: Int32 = column("i4", "device of the stream that is waited for", null=NO_ID)
    source_stream: Int64 = column("i8", "stream that is waited for", null=NO_ID)
    call: Int32 = column("i4", "row in api_calls of the wait", null=NO_ID)
    record_call: Int32 = column("i4", "row in api_calls of the event's record", null=NO_ID)
    inferred: Bool = column("?", "whether the source was inferred rather than recorded")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Ranges(HostWork):
    """One named host range, from NVTX or from the profiler's annotations."""

    kind: Int8 = column("i1", "NVTX range or profiler annotation", enum=RangeKind)
    domain_id: Int32 = column("i4", "NVTX domain", text=True, null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Modules(HostWork):
    """One call of a torch module, under its name in the model (in recordings)."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CpuOps(HostWork):
    """One PyTorch operator on the host."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Frames(HostWork):
    """One Python function call (recorded with stacks)."""

    python_id: Int64 = column("i8", "the profiler's id of the call", null=NO_ID)
    python_parent: Int64 = column("i8", "the profiler's id of the caller", null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Samples(HostWork):
    """Consecutive samples of a thread with one Python stack, named after its innermost function (in recordings)."""

    stack_id: Int32 = column("i4", "frames from the outermost to the innermost, joined by ;", text=True, null=NO_ID)
    samples: Int64 = column("i8", "number of samples", null=NO_ID)
    cpu_ns: Int64 = column("i8", "processor time of the thread meanwhile", unit="ns", null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class HostEvents(HostWork):
    """One garbage collection, sleep, file access or the like on a host thread (in recordings and Nsight Systems)."""

    kind: Int8 = column("i1", "what it was", enum=HostEventKind)
    place_id: Int32 = column("i4", "who called it, as the name of a sample", text=True, null=NO_ID)
    generation: Int64 = column("i8", "generation of a garbage collection", null=NO_ID)
    ready: Int64 = column("i8", "batches that were ready when the next one was asked for", null=NO_ID)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Overheads(HostWork):
    """One interval of profiler overhead on a host thread; calls near it are longer."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Streams(Table):
    """One stream as the profiler lists it, used or not."""

    process: Int64 = column("i8", "operating-system process id", null=NO_ID)
    device: Int32 = column("i4", "device number", null=NO_ID)
    context: Int64 = column("i8", "CUDA context id", null=NO_ID)
    stream: Int64 = column("i8", "stream id", null=NO_ID)
    kind: Int8 = column("i1", "whether it synchronises with the legacy default stream", enum=StreamKind)
    priority: Int32 = column("i4", "CUDA stream priority, lower is more urgent")
