"""Traces of real programs, and their graphs, each built once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Graph
from overlapscope.measure.windows import whole
from overlapscope.whatif.baseline import Baseline
from tests.conftest import CASES, SAMPLES
from tests.opened import trace_at

TRACES = sorted([*SAMPLES.glob("*-*.gz"), *CASES.glob("*.gz")])
SOME = [
    SAMPLES / f"{name}.json.gz"
    for name in ("moe_prefetch-pageable", "offload-pageable-same", "prefetcher-non-blocking")
]
SYNCHRONISED = [
    *SOME,
    *(
        SAMPLES / f"{name}.json.gz"
        for name in (
            "pinning_guide-read-after-wait",
            "scalar_reads-cpu",
            "offload-pinned-same",
            "gemm_copy-pinned-kernels-first-non-blocking-same",
            "prefetcher-prefetcher",
        )
    ),
    *(
        CASES / f"{name}.json.gz"
        for name in ("read_after_event", "read_after_synchronise", "prefetched", "two_copy_streams")
    ),
]
"""Traces with synchronisations, streams and events of many kinds."""


@cache
def graph(path: Path) -> Graph:
    """The graph of a trace."""
    return build_graph(trace_at(path))


@cache
def baseline(path: Path) -> Baseline:
    """What predictions of changes of a whole trace have in common."""
    return Baseline.of(graph(path), whole(trace_at(path)))
