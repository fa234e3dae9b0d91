"""The inner pieces by themselves, with pytest-benchmark (extra ``bench``).

python -m pytest benchmarks/inner.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from benchmarks.big_trace import make
from overlapscope.analysis.analysis import analyse
from overlapscope.dependencies.build import build_graph
from overlapscope.dependencies.graph import Graph
from overlapscope.dependencies.simulate import Chains, critical_path, has_cycle, simulate
from overlapscope.measure.places import innermost
from overlapscope.measure.spans import union
from overlapscope.measure.windows import whole
from overlapscope.model.trace import Trace
from overlapscope.read.opening import open_trace
from overlapscope.whatif.catalogue import changed, understood
from overlapscope.whatif.retimed import length_ns, retimed

SOURCE = Path(__file__).resolve().parent.parent / "sample_traces" / "moe_prefetch-pageable.json.gz"
EVENTS = 100_000


@cache
def trace() -> Trace:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        make(SOURCE, path, events=EVENTS)
        return open_trace(path)


@cache
def graph() -> Graph:
    return build_graph(trace())


def moments_in_operators() -> object:
    calls, ops = trace().api_calls, trace().cpu_ops.take(slice(None))  # a new table, of which nothing is known yet
    return innermost(ops, calls.process, calls.thread, calls.start_ns)


def attributed_idle_time() -> object:
    return analyse(trace()).contexts


PIECES: dict[str, Callable[[], Any]] = {
    "graph": lambda: build_graph(trace()),
    "cycles": lambda: has_cycle(graph()),
    "chains": lambda: Chains.of(graph()),
    "simulation": lambda: simulate(graph()),
    "change": lambda: changed(graph(), understood(["pin", "non-blocking"])),
    "path": lambda: critical_path(simulate(graph())),
    "attribution": attributed_idle_time,
    "length": lambda: length_ns(simulate(graph()), whole(trace())),
    "retimed": lambda: retimed(simulate(graph())),
    "innermost": moments_in_operators,
    "union": lambda: union(trace().kernels.start_ns, trace().kernels.end_ns),
}


@pytest.mark.parametrize("piece", PIECES)
def test_piece(piece: str, benchmark: Callable[[Callable[[], Any]], Any]) -> None:
    PIECES[piece]()
    benchmark(PIECES[piece])
