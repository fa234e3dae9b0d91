"""What a simulation assumes, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.dependencies.config import DEFAULT as DEPENDENCIES
from overlapscope.dependencies.config import DependencyConfig
from overlapscope.formatting import changed


@dataclass(frozen=True)
class ProfilerConfig:
    """How the profiler's own cost is estimated.

    ``calls_issued``: calls of a tiny kernel and a tiny copy together: theirs, and a copy's question whether its stream
    is being captured. ``most_times``: an event costs up to so many times the least that is known of it, which was
    measured with everything in the processor's caches. ``negligible``: less than this share of the time says nothing
    of the host, also where steps seem to differ by less. ``most_event_ns``: the most that an event can cost, where
    issuing was not measured. ``spread``: by how much, as a share, the host's speed differs between two stretches of
    one process; on hosts of H200s the same steps did so by a tenth, some by far more. ``rounds``: of the search for the
    likeliest costs. ``most_off``: no guess is off by more than this many of its spreads, as is usual for outliers.
    ``worth_saying``: what is left unexplained is mentioned from this share on. ``enough_operators``: so many operators
    with others inside them are needed to learn the cost of an event. ``least``: the quantile of their time that is
    taken for the cost.
    """

    calls_issued: int = 3
    most_times: float = 3.0
    negligible: float = 0.01
    most_event_ns: float = 10_000.0
    spread: float = 0.1
    rounds: int = 4
    worth_saying: float = 0.03
    most_off: float = 3.0
    enough_operators: int = 20
    least: float = 0.25

    __repr__ = changed


@dataclass(frozen=True)
class PackingConfig:
    """What packing tensors into a pinned buffer takes the host where a trace has no calibration of it.

    Measured on hosts of H200s (`benchmarks/packing.py`), after other work of the host, with 4 to 256 tensors of one
    size. ``start_ns``: a call of ``torch.stack`` or ``torch.cat`` without its pieces. ``piece_ns``: a piece without its
    bytes. ``ragged_ns``: as much more for each piece where they have several sizes, which torch copies one by one.
    ``gb_s``: their bytes, by one thread; torch takes several threads for megabytes, then it is up to five times as
    fast. ``view_ns``: a view of a piece; ``torch.split`` makes them.
    """

    start_ns: int = 11_000
    piece_ns: int = 500
    ragged_ns: int = 1_200
    gb_s: float = 13.0
    view_ns: int = 1_000

    __repr__ = changed


@dataclass(frozen=True)
class UncertaintyConfig:
    """How far off predictions may be, for reasons that their own trace does not tell; shares of the time.

    ``host``: of its work; on hosts of H200s it takes 10 to 20 % longer in one second than in the next, and four
    host-bound programs took 17 to 33 % more in one of two processes than in the other. ``device``: of its kernels;
    a GPU that never pauses lowers its clock by that much. ``beside``: as much more of kernels beside copies; matrix
    products took up to 11 % longer (`activation_offload`, `offloaded_blocks` of ``benchmarks/pairs``, on an H200).
    ``link``: of pinned copies; 52 to 57 GB/s were seen in public over one kind of link. The trace's own copies may
    vary more: those of ``large_bytes``, which no latency bounds, where there are ``enough_copies`` of a size, at
    their quantile ``usual``. ``operator_ns`` and ``call_ns``: the most that an operator and a call cost torch's
    profiler in 71 recordings on hosts of H200s in which it cost a tenth of the time or more. ``events``: by how
    much, as a share, a cost may be off where only issuing was timed; an event costs one to three times the least
    that is known of it. ``free_page_ns``: to give a page of ``page_bytes`` of pageable memory back to the system,
    measured where 453 MB of gradients are freed in each step. ``wide``: an interval of this width is of little use.
    """

    host: float = 0.2
    device: float = 0.05
    beside: float = 0.05
    link: float = 0.05
    large_bytes: int = 2**20
    enough_copies: int = 8
    usual: float = 0.9
    operator_ns: float = 4_300.0
    call_ns: float = 17_900.0
    events: float = 0.5
    free_page_ns: float = 125.0
    page_bytes: int = 4096
    wide: float = 0.5

    __repr__ = changed


@dataclass(frozen=True)
class SimulationConfig:
    """Thresholds; ``dependencies``, ``profiler``, ``packing``, ``uncertainty`` have those of what they are named after.

    ``host_gap_ns``: host work between two launches that a CUDA graph would save, or between two copies that are sent as
    one; Python between two calls takes 10 to 60 us under a profiler, so that what takes several times that is other
    work too. ``node_gap_ns``: time between two nodes of a CUDA graph beyond the duration that a kernel has outside of
    it; between 0.02 and 0.28 us in five chains of kernels on an H200 (`benchmarks/graph_nodes.py`).
    ``loader_gb_s``: what the thread of a DataLoader pins of batches that come from workers, in shared memory that it
    has not touched yet; 3.8 to 5.0 in five loops on hosts of H200s, 4.8 at the median.
    """

    dependencies: DependencyConfig = DEPENDENCIES
    profiler: ProfilerConfig = ProfilerConfig()
    packing: PackingConfig = PackingConfig()
    uncertainty: UncertaintyConfig = UncertaintyConfig()
    host_gap_ns: int = 200_000
    node_gap_ns: int = 150
    loader_gb_s: float = 4.8

    __repr__ = changed


DEFAULT = SimulationConfig()
