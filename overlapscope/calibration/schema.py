"""The parts of a calibration: frozen dataclasses whose field names are the keys in a trace.

Times are wall times in nanoseconds unless a field says otherwise. What was not measured is None or empty.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

KEY = "overlapscope"
"""The top-level key of a Kineto trace under which its calibration stands."""
VERSION_KEYS = (
    "cuda_driver_version",
    "cuda_runtime_version",
    "cupti_version",
    "hip_driver_version",
    "hip_runtime_version",
    "roctracer_version",
    "rocprofiler-sdk_version",
)
"""The top-level keys of a Kineto trace that say versions of drivers, runtimes and tracers."""
SCHEMA = "overlapscope.calibration/2"
"""The value of ``schema`` in the data of this version."""
MODULE = "nn.Module: "
"""The begin of the name of a range that is a call of a torch module; its name in the model follows."""

Positive = int
"""The type of a number without which a row says nothing; 0 is as good as none."""
Cumulative = tuple[int, ...]
"""The type of times of which each is more than the one before; there is at least one."""
Levels = tuple[int, ...]
"""The type of numbers of things, of which some may be 0."""
_MIDDLE_HALF = 1.35  # standard deviations of a normal distribution
_LEAST_STEPS = 4  # from which scatter can be told


@dataclass(frozen=True)
class PcieLink:
    """PCIe generation and lanes of a GPU: what the link ran at when it was asked, and the most that it can do."""

    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None


@dataclass(frozen=True)
class Gpu:
    """A GPU of the machine, by its CUDA ordinal ``number``, as torch, the CUDA driver and NVML describe it.

    ``copy_engines`` is CUDA's ``asyncEngineCount``.
    """

    number: int
    name: str = ""
    memory_bytes: int | None = None
    multiprocessors: int | None = None
    compute_capability: str | None = None
    copy_engines: int | None = None
    link: PcieLink = PcieLink()


@dataclass(frozen=True)
class CopyTime:
    """The time of a copy of this size with nothing beside it, copies following each other without a pause.

    ``direction`` is HtoD or DtoH, ``host_memory`` pageable or pinned, ``device`` the CUDA ordinal.
    """

    direction: str
    host_memory: str
    size_bytes: Positive
    copy_ns: Positive
    device: int | None = None


@dataclass(frozen=True)
class DuplexTime:
    """Device time of a large pinned copy, ``alone_ns``, and ``beside_ns`` while others go in the other direction."""

    direction: str
    alone_ns: Positive
    beside_ns: Positive


@dataclass(frozen=True)
class PackTime:
    """Host time per piece to pack many pieces of this size into one pinned buffer.

    ``pack_ns`` where all are of one size, ``ragged_ns`` where they are not, both after other work of the host;
    ``warm_pack_ns`` and ``warm_ragged_ns`` right after the same packing, its memory in the caches.
    """

    size_bytes: Positive
    pack_ns: Positive
    ragged_ns: int | None = None
    warm_pack_ns: int | None = None
    warm_ragged_ns: int | None = None


@dataclass(frozen=True)
class Packing:
    """Host time of packing by size of the ``pieces``; ``start_ns`` beside them, ``view_ns`` for a view of a piece."""

    pieces: tuple[PackTime, ...] = ()
    start_ns: int | None = None
    view_ns: int | None = None


@dataclass(frozen=True)
class PostStaging:
    """Host time to issue some tiny work right after a pageable copy of this size, and what it usually takes.

    Both are cumulative, for several amounts of work: the first number is for the least of it.
    """

    size_bytes: Positive
    issue_ns: Cumulative
    usual_ns: Cumulative


@dataclass(frozen=True)
class IssueCost:
    """Host time to issue a tiny kernel and a tiny pinned copy from Python, and that of the copy's call itself."""

    kernel_ns: int | None = None
    copy_ns: int | None = None
    call_ns: int | None = None

    def least(self, other: IssueCost) -> IssueCost:
        """The lesser of two measurements, of what this one measured: other work of the machine only adds to them."""
        return IssueCost(*map(_least, astuple(self), astuple(other)))


@dataclass(frozen=True)
class TimedSteps:
    """Steps of the program in a row, from idle GPUs to idle GPUs, at least one.

    ``host_ns`` is the time from each call of `record.step` to the next.
    """

    count: Positive
    wall_ns: Positive
    host_ns: tuple[int, ...] = ()

    @property
    def step_ns(self) -> float:
        """Wall time per step."""
        return self.wall_ns / self.count

    @property
    def scatter(self) -> float:
        """The width of the middle half of pairs of steps, as a share of their median; 0.0 with fewer than four steps.

        Pairs, because a host that runs ahead in one step waits in the next.
        """
        if len(self.host_ns) < _LEAST_STEPS:
            return 0.0
        pairs = [first + second for first, second in zip(self.host_ns[::2], self.host_ns[1::2], strict=False)]
        quarter, middle, three_quarters = statistics.quantiles(pairs, n=4, method="inclusive")
        return (three_quarters - quarter) / middle


@dataclass(frozen=True)
class Loader:
    """A torch DataLoader of the program from which at least one batch was taken.

    ``place`` is the file, without folders, and the line that makes it, or that loops over it where it was made before
    the recording. ``batch`` is the class of its first batch, ``unpinnable`` the classes in that batch that hold
    tensors, but have no method ``pin_memory()``: ``pin_memory=True`` leaves them pageable. ``batches`` were taken.

    ``item_ns`` is the wall time in ``__getitem__`` or in the iterator of the dataset and ``collate_ns`` that in
    ``collate_fn``, both per batch, the medians; ``in_worker`` says whether a worker process spent them. ``ready`` has
    for each ``next`` how many batches were waiting when it was called; at most 100, and none without workers.
    """

    place: str = ""
    workers: int | None = None
    pin_memory: bool | None = None
    prefetch_factor: int | None = None
    persistent_workers: bool | None = None
    batch: str = ""
    unpinnable: str = ""
    batches: int | None = None
    item_ns: int | None = None
    collate_ns: int | None = None
    in_worker: bool | None = None
    ready: Levels = ()

    @property
    def settings(self) -> str:
        """Place and settings of the DataLoader as code has them: ``DataLoader(num_workers=4) at train.py:31``."""
        names = (("num_workers", self.workers), ("pin_memory", self.pin_memory))
        given = ", ".join(f"{name}={value}" for name, value in names if value is not None)
        return f"DataLoader({given})" + (f" at {self.place}" if self.place else "")


@dataclass(frozen=True)
class Sampling:
    """The cost of sampling Python stacks: ``cost_ns`` of processor time of the sampler in ``wall_ns`` of sampled time.

    ``interval_ns`` is the time between two samples that the sampler arrived at, ``samples`` how often it looked.
    """

    interval_ns: Positive
    samples: int | None = None
    cost_ns: int | None = None
    wall_ns: int | None = None

    def plus(self, other: Sampling | None) -> Sampling:
        """Both together, with the longer interval."""
        if other is None:
            return self
        sums = (sum(filter(None, pair)) for pair in zip(astuple(self)[1:], astuple(other)[1:], strict=True))
        return Sampling(max(self.interval_ns, other.interval_ns), *sums)


@dataclass(frozen=True)
class SampledPlace:
    """An innermost Python function with its line, ``function (file:line)``, and in how many samples it ran."""

    place: str
    samples: Positive


@dataclass(frozen=True, eq=False)
class OperatorTimes:
    """Base class of columns of one length about torch's operators, sorted by the first.

    Columns of starts of operators are on the trace's clock.
    """

    @classmethod
    def of(cls, rows: Iterable[tuple[int, ...]]) -> Self:
        """The columns of some rows."""
        import numpy as np

        return cls(*np.array(sorted(rows), np.int64).reshape(-1, len(fields(cls))).T)

    def since(self, zero_ns: int) -> Self:
        """The columns with starts on a clock that is 0 at ``zero_ns``."""
        names = (entry.name for entry in fields(self) if entry.name.endswith("_start_ns"))
        return replace(self, **{name: getattr(self, name) - zero_ns for name in names})


@dataclass(frozen=True, eq=False)
class CopyConsumers(OperatorTimes):
    """Which of torch's operators were given a tensor that a copy between host and GPU reads or writes on the GPU.

    Pairs of an operator, by its start, and a number for the tensor's memory. An operator of torch that is not here was
    given none of these tensors. Known from the arguments that torch's profiler records with shapes.
    """

    op_start_ns: Int64
    tensor: Int64


@dataclass(frozen=True, eq=False)
class D2HConsumers(OperatorTimes):
    """The first of torch's operators that was given what a device-to-host copy brought.

    Pairs of the operator that copied and the one that was given the result, both by their start. Results that no
    operator was given are not here.
    """

    copy_start_ns: Int64
    op_start_ns: Int64


class Access(IntEnum):
    """Kind of access of an operator to a host tensor."""

    DOWNLOAD = 0
    UPLOAD = 1
    READ = 2
    WRITE = 3


@dataclass(frozen=True, eq=False)
class HostAccesses(OperatorTimes):
    """Accesses of torch's operators to host tensors that were copied, in their order.

    Each operator by its start; a number for the tensor, which stands for its memory from one address on; and the
    `Access`. Tensors that were only copied, in one direction, are not here.
    """

    op_start_ns: Int64
    tensor: Int64
    access: Int64


@dataclass(frozen=True, eq=False)
class ReusedBlocks(OperatorTimes):
    """Memory of a GPU that was freed and handed out again, and that two streams used: one before that, one after.

    Pairs of the last operator that used it on a stream before, and the first that used it on another one after that, by
    their start. Blocks that ``Tensor.record_stream`` guards are not here.
    """

    used_start_ns: Int64
    reused_start_ns: Int64


@dataclass(frozen=True)
class Calibration:
    """Everything that a recording notes of the machine, the profiler and the program.

    Attributes:
        versions: of Python, packages, CUDA and its driver, by name.
        devices: the GPUs that torch saw.
        copies: copy times by direction, host memory and size.
        duplex: what copies of each direction take while others go in the other direction.
        packing: what the host takes to pack many tensors into one pinned buffer.
        post_staging: how much longer issuing work takes right after pageable copies, by their size.
        issue_unprofiled: what issuing work takes without a profiler, before the first profiler of the process.
        issue_profiled: the same under the profiler.
        recorded: the steps that are in the trace.
        unprofiled: the same steps before, without a profiler.
        loaders: the DataLoaders of the program, those with the most batches first.
        copy_consumers: which operators were given which copied tensors.
        d2h_consumers: which operators were first given what came to the host.
        host_accesses: what operators did with host tensors that were copied.
        reused_blocks: which operators used memory of a GPU on one stream before and on another after it was freed.
        sampling: what sampling Python stacks cost while steps were recorded or timed.
        unprofiled_samples: where the launching thread was while steps were timed without a profiler, the most first.
    """

    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    devices: tuple[Gpu, ...] = ()
    copies: tuple[CopyTime, ...] = ()
    duplex: tuple[DuplexTime, ...] = ()
    packing: Packing = Packing()
    post_staging: tuple[PostStaging, ...] = ()
    issue_unprofiled: IssueCost | None = None
    issue_profiled: IssueCost | None = None
    recorded: TimedSteps | None = None
    unprofiled: TimedSteps | None = None
    loaders: tuple[Loader, ...] = ()
    copy_consumers: CopyConsumers | None = None
    d2h_consumers: D2HConsumers | None = None
    host_accesses: HostAccesses | None = None
    reused_blocks: ReusedBlocks | None = None
    sampling: Sampling | None = None
    unprofiled_samples: tuple[SampledPlace, ...] = ()

    @property
    def profiler_factor(self) -> float | None:
        """How much longer a step took under the profiler; None where that was not measured."""
        if self.recorded is None or self.unprofiled is None or not self.unprofiled.wall_ns:
            return None
        return self.recorded.step_ns / self.unprofiled.step_ns

    @property
    def unsure(self) -> float:
        """The standard error of the mean step without a profiler, as a share of it; 0.0 where that is not known.

        From the middle half of pairs of steps, which is 1.35 standard deviations wide where they scatter normally.
        """
        steps = self.unprofiled
        return 0.0 if steps is None else steps.scatter / (_MIDDLE_HALF * math.sqrt(max(steps.count / 2, 1)))

    def since(self, zero_ns: int) -> Calibration:
        """The calibration with the starts of operators on a clock that is 0 at ``zero_ns``."""
        parts = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        moved: dict[str, Any] = {
            name: part.since(zero_ns) for name, part in parts.items() if isinstance(part, OperatorTimes)
        }
        return replace(self, **moved)

    def gpu(self, number: int) -> Gpu:
        """The GPU with this CUDA ordinal; one with nothing but its number where it is not known."""
        return next((gpu for gpu in self.devices if gpu.number == number), Gpu(number))


def _least(one: int | None, other: int | None) -> int | None:
    return one if one is None or other is None else min(one, other)
