"""Thresholds of the diagnosis, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.dependencies.config import DEFAULT as DEPENDENCIES
from overlapscope.dependencies.config import DependencyConfig
from overlapscope.formatting import changed


@dataclass(frozen=True)
class DiagnosisConfig:
    """Thresholds, each with its reason.

    ``report_share``: idle time below this share of the analysed time (the range, or from a device's first work to its
    last) is not reported; profilers lengthen a run by 1 to 10 %. Nor can overlap help where perfect overlap would save
    less, and a GPU that waits less is busy.
    ``high_share``, ``medium_share``: idle time from these shares of the analysed time on has severity high or medium;
    a fifth of a run is worth an afternoon, a tenth is beyond what profilers distort.
    ``startup_ns``: host time before the first launch of a window that counts as its start-up: Python under a profiler
    that records stacks took up to 0.5 ms to reach its first launch.
    ``hideable_share``: where kernels could overlap less than this share of the exposed copies, there is nothing to
    hide them behind; the gain is then below a tenth of the idle time.
    ``read_transfer_share``: a D2H copy whose transfer takes less than this share of the time it blocked the host
    waited for queued work; a faster transfer cannot gain most of that.
    ``read_max_bytes``: larger D2H copies are results, whose transfer counts, and not scalars that decide something.
    ``burst_min_copies``: fewest copies of a burst. Below it, batching saves little more than 100 us: issuing a copy
    takes 5 to 10 us.
    ``burst_copy_share``: the copies of a burst are small when their device time is less than this share of its time.
    ``issue_call_share``: a thread is bound by copy calls when they take more than this share of the time in which it
    issues one after the other; else its own work between them takes most of it.
    ``queued_min_copies``: a copy call that blocks although it waits for no copy of its own waits for room in its queue,
    if at least so many copies were queued before it; with fewer it waits for something else (a lock, the profiler). The
    shortest queue has room for 253 calls (H200, CUDA_SCALE_LAUNCH_QUEUES=0.25x), the usual one for 1021; this is a
    quarter of the shortest, since launches and waits for events between the copies take room too.
    ``slow_factor``: a pinned copy is slow when it takes this many times the time expected for its link; data that the
    host has just written copies at half the bandwidth (27 of 55 GB/s on an H200), bidirectional copies lose less.
    ``slow_min_bytes``: smaller copies do not reach the bandwidth of their link (pinned copies of 1 MiB reach 48 of
    55 GB/s on an H200).
    ``blocking_launch_share``: launches are blocking where more than this share of them return after their kernel has
    ended.
    ``blocking_kernel_factor``: a kernel shows whether its launch is blocking if it takes this many times what launches
    take that have nothing to wait for; else it may end before a slow host returns.
    ``host_active_ns``: host time without a call, after an asynchronous D2H copy, from which on the host did some work:
    Python between two calls takes 10 to 60 us under a profiler.
    ``queued_share``: share of the kernel time for which kernels of another stream must be queued before the lack of
    concurrency is mentioned, and share of it that a stream must have to count there.
    ``used_device_share``: a device that is busy for less than this share of the busiest device's time in its process
    is not used; libraries initialise every device that they see.
    ``worthless_share``: a fix that recovers less than this share of its GPU idle time is not offered.
    ``noise_share``: nor is one that saves less than this share of the window; two runs of a program differ by that.
    ``mapped_least_share``, ``mapped_most_share``: a kernel that moves the bytes of one operand at this share of the
    link's bandwidth moves them over the link. Measured: 0.42 to 0.7 of it where a kernel reads and writes host memory
    in place, 0.67 to 0.96 where it does one of them; a little more where its size is rounded up to whole blocks.
    ``mapped_contrast``: it counts only where similar kernels reach this many times the bandwidth of the link; a GPU's
    memory has 25 to 90 times that of its PCIe link, 10 times that of NVLink-C2C. Measured from 16 MiB on: 20 to 40.
    ``mapped_shared_share``: a kernel that shares the GPU for more of its time may be slow for that reason.
    ``mapped_least_kernels``: fewer runs of a kernel may be slow by chance.
    ``beside_share``, ``alone_share``: a copy runs beside collectives where they run for this share of its time or more,
    and alone where they run for no more than that; in between it is neither.
    ``beside_factor``: copies and collectives share a link where they take this many times as long together; copies of
    one size scatter by 2 %, and took 1.6 times as long beside all-reduces through host memory.
    ``beside_least``: fewest of each, alone and together, for their medians to say something.
    ``simulate``: whether savings are simulated, which takes most of the time of an audit.
    """

    report_share: float = 0.05
    high_share: float = 0.2
    medium_share: float = 0.1
    startup_ns: int = 500_000
    hideable_share: float = 0.1
    read_transfer_share: float = 0.5
    read_max_bytes: int = 2**20
    burst_min_copies: int = 16
    burst_copy_share: float = 0.5
    issue_call_share: float = 0.5
    queued_min_copies: int = 64
    slow_factor: float = 2.25
    slow_min_bytes: int = 2**20
    blocking_launch_share: float = 0.5
    blocking_kernel_factor: float = 2.0
    host_active_ns: int = 200_000
    queued_share: float = 0.2
    worthless_share: float = 0.05
    noise_share: float = 0.01
    mapped_least_share: float = 0.4
    mapped_most_share: float = 1.1
    mapped_contrast: float = 5.0
    mapped_shared_share: float = 0.1
    mapped_least_kernels: int = 3
    beside_share: float = 0.5
    alone_share: float = 0.1
    beside_factor: float = 1.25
    beside_least: int = 5
    simulate: bool = True
    used_device_share: float = 0.01
    dependencies: DependencyConfig = DEPENDENCIES

    __repr__ = changed


DEFAULT = DiagnosisConfig()
