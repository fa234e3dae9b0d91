"""What a replay takes for granted, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from overlapscope.measure.host import DEFAULT as HOST
from overlapscope.measure.host import HostConfig
from overlapscope.measure.queues import DEFAULT as QUEUE
from overlapscope.measure.queues import QueueConfig


@dataclass(frozen=True)
class ReplayConfig:
    """``host`` and ``queue`` say what a plain enqueue and a plain launch are, as in the diagnosis.

    ``follow_ns``: what passes between two ops of a stream, or on an engine, when nothing else is in the way; 1 to 2 us
    were measured on an H200. ``near_ns``: work that ended this shortly before other work
    began may have kept it; no launch on an idle device takes longer. ``launch_gap_ns``: host work between two launches
    that a graph would save, or between two copies that are gathered; Python between two calls takes 10 to 60 us under a
    profiler. ``node_gap_ns``: what passes between two nodes of a graph that follow each other, beyond their recorded
    durations; five programs on an H200 took between 0 and 0.15 us a node without a profiler, and 0.2 to 0.3 us under
    one. ``full_queue``: a launch that is held while this much work is pending on its stream waits for room; streams are
    known to take about a thousand launches.
    """

    host: HostConfig = HOST
    queue: QueueConfig = QUEUE
    follow_ns: int = 2_000
    near_ns: int = 20_000
    launch_gap_ns: int = 200_000
    node_gap_ns: int = 100
    full_queue: int = 900


DEFAULT = ReplayConfig()
