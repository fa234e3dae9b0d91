"""What counts as a finding, and as a sign of one."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.dependencies.config import DEFAULT as DEPENDENCIES
from overlapscope.dependencies.config import DependencyConfig


@dataclass(frozen=True)
class DiagnosisConfig:
    """Thresholds, each with its reason.

    ``worth_saying``: share of the time that counts (a range, or from a device's first work to its last) below which
    lost time is noise; profilers lengthen a run by 1 to 10 %.
    ``high_share``, ``medium_share``: shares of that time from which on a loss is called high or medium; a fifth of a
    run is worth an afternoon, a tenth is beyond what profilers distort.
    ``start_ns``: host time up to the first launch of a window that is put down to its beginning: Python under
    a profiler that records stacks took up to 0.5 ms to get to its first launch.
    ``hidable_share``: where kernels could cover less than this share of what copies cost, there is nothing to hide
    behind; what is to be gained is then below a tenth of the loss.
    ``read_share``: a copy to the host whose transfer takes less than this share of the time it held the host
    was waited for, not transferred; a faster transfer cannot win most of that.
    ``read_most_bytes``: larger copies to the host are results, whose transfer counts, and no values to decide by.
    ``burst_least``: how many copies in a row, with no launch between, are many. Below it coalescing saves little
    more than 100 us: issuing a copy takes 5 to 10 us.
    ``burst_share``: copies in a row are small when carrying them out takes less than this share of their time.
    ``slow_factor``: a pinned copy is slow when it takes this many times what its link is known to need; what the host
    has just written is copied at half the speed (27 of 55 GB/s on an H200), both directions at once cost less.
    ``slow_least_bytes``: smaller copies do not reach the bandwidth of their link (pinned copies of 1 MiB reach 48 of
    55 GB/s on an H200).
    ``blocking_share``: where more than this share of the launches return after their kernel has ended, launches wait.
    ``went_on_ns``: host time after an asynchronous copy to the host, without a call, from which on the host
    did something else than to wait: Python between two calls takes 10 to 60 us under a profiler.
    ``waiting_share``: share of the kernel time for which kernels of another stream have to be queued
    before the lack of concurrency is mentioned, and share of it that a stream must have to count there.
    ``used_share``: a device that is busy for less than this share of the time of the busiest one of its process is not
    used; libraries touch every device that they see.
    ``most_nodes``: starts and ends of calls and device work up to which savings are replayed; it takes about 1 us
    for each, and a plan about twenty replays.
    """

    worth_saying: float = 0.05
    high_share: float = 0.2
    medium_share: float = 0.1
    start_ns: int = 500_000
    hidable_share: float = 0.1
    read_share: float = 0.5
    read_most_bytes: int = 2**20
    burst_least: int = 16
    burst_share: float = 0.5
    slow_factor: float = 2.25
    slow_least_bytes: int = 2**20
    blocking_share: float = 0.5
    went_on_ns: int = 200_000
    waiting_share: float = 0.2
    most_nodes: int = 100_000
    used_share: float = 0.01
    dependencies: DependencyConfig = DEPENDENCIES


DEFAULT = DiagnosisConfig()
