"""What a replay takes for granted, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.measure.host import DEFAULT as HOST
from overlapscope.measure.host import HostConfig
from overlapscope.measure.queues import DEFAULT as QUEUE
from overlapscope.measure.queues import QueueConfig


@dataclass(frozen=True)
class ProfilerConfig:
    """How what the profiler spent is estimated.

    ``calls_issued``: of a tiny kernel and a tiny copy together, theirs and a copy's question whether its stream is
    being captured. ``most_times``: an event costs up to so much more than the least that is known of it, which was
    measured with everything in the processor's caches. ``telling``: less than this share of the time says nothing of
    the host, also where steps seem to differ by less. ``most_event_ns``: at most that, where issuing was not
    measured. ``spread``: by how much, as a share, the host's pace differs between two stretches of one process; on
    hosts of H200s the same steps did so by a tenth, some by far more. ``rounds`` to find what is likeliest, no guess
    being off by more than ``most_off`` of its spreads, as is usual for outliers; what is left unexplained is said
    from ``worth_saying`` on. ``telling_operators``: so many that have others in them tell what is around those;
    ``least`` of them may take less, since some are no more than that.
    """

    calls_issued: int = 3
    most_times: float = 3.0
    telling: float = 0.01
    most_event_ns: float = 10_000.0
    spread: float = 0.1
    rounds: int = 4
    worth_saying: float = 0.03
    most_off: float = 3.0
    telling_operators: int = 20
    least: float = 0.25


@dataclass(frozen=True)
class ReplayConfig:
    """``profiler`` says how its cost is estimated; ``host`` and ``queue`` what a plain enqueue and a plain launch are.

    ``follow_ns``: what passes at most between two ops of a stream, or on an engine, when nothing else is in the way; 1
    to 2 us were measured on an H200. Where at least ``telling_gaps`` kernels waited for the one before them only, the
    trace tells what passes between two. ``near_ns``: work that ended this shortly before other work began may have kept
    it; no launch on an idle device takes longer. ``launch_gap_ns``: host work between two launches that a graph would
    save, or between two copies that are gathered; Python between two calls takes 10 to 60 us under a
    profiler, so that what takes several times that is other work too. ``node_gap_ns``: what a node of a graph takes
    beyond the duration that a kernel has outside of it; between 0.02 and 0.28 us in five chains of kernels on an H200
    (`benchmarks/graph_nodes.py`). ``full_queue``: a launch that is held while this much work is pending on its stream
    waits for room; streams are known to take about a thousand launches.
    ``telling_times``: a thread that goes on so many times after another tells that it waits for it, where that it did
    so by chance is no likelier than ``chance``, the usual level of such tests.
    """

    profiler: ProfilerConfig = ProfilerConfig()
    host: HostConfig = HOST
    queue: QueueConfig = QUEUE
    follow_ns: int = 2_000
    telling_gaps: int = 20
    near_ns: int = 20_000
    launch_gap_ns: int = 200_000
    node_gap_ns: int = 150
    full_queue: int = 900
    telling_times: int = 4
    chance: float = 0.01


DEFAULT = ReplayConfig()
