"""Measure one part in a process of its own, without what has to be there before it.

    python -m benchmarks.speed.phases NAME TRACE [OTHER]

Prints wall seconds, processor seconds and the peak of memory in MB as JSON.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Work = Callable[[], Any]
_KEPT: list[Any] = []


def _open(path: str) -> Work:
    from overlapscope.read.opening import open_trace

    return lambda: open_trace(path)


def _open_alone(path: str) -> Work:
    from overlapscope.read.opening import open_trace

    return lambda: open_trace(path, processes=1)


def _graph(path: str) -> Work:
    trace = _open(path)()
    from overlapscope.dependencies.build import build_graph

    return lambda: build_graph(trace)


def _audit(path: str) -> Work:
    trace = _open(path)()
    from overlapscope.report.content import audit

    return lambda: audit(trace, plan=False)


def _what_if(path: str) -> Work:
    trace = _open(path)()
    from overlapscope.analysis.analysis import what_if

    return lambda: what_if(trace, ["pin", "non-blocking"])


def _plan(path: str) -> Work:
    trace = _open(path)()
    from overlapscope.report.content import audit

    return lambda: audit(trace)


def _figure(path: str) -> Work:
    trace = _open(path)()
    from overlapscope.plot.timeline import timeline_png

    return lambda: timeline_png(trace)


def _report(path: str) -> Work:
    audited = _plan(path)()
    from overlapscope.html.page import save_report

    return lambda: save_report(audited, Path(tempfile.mkdtemp()) / "report.html")


def _compare(path: str, other: str) -> Work:
    before, after = _open(path)(), _open(other)()
    from overlapscope.comparison.compare import compare

    return lambda: compare(before, after)


def _fleet_map(path: str) -> Work:
    from overlapscope.fleet.rows import map_trace

    return lambda: map_trace(path, "0" * 64)


def _read(path: str) -> Work:
    return Path(path).read_bytes


def _gunzip(path: str) -> Work:
    packed = gzip.compress(Path(path).read_bytes(), 1)
    from isal import igzip

    return lambda: igzip.decompress(packed)  # type: ignore[no-untyped-call]


def _msgspec(path: str) -> Work:
    content = Path(path).read_bytes()
    import msgspec

    return lambda: msgspec.json.decode(content)


def _simdjson(path: str) -> Work:
    content = Path(path).read_bytes()
    import simdjson

    return lambda: _KEPT.append(simdjson.Parser().parse(content))


def _json(path: str) -> Work:
    return lambda: json.loads(Path(path).read_bytes())


def _hta(path: str) -> Work:
    from hta.common.trace import Trace

    return lambda: Trace(trace_files={0: path}, trace_dir="/").parse_traces()


def _tracelens(path: str) -> Work:
    from TraceLens import TreePerfAnalyzer

    return lambda: TreePerfAnalyzer.from_file(path)


def _perfetto(path: str, shell: str) -> Work:
    query = Path(tempfile.mkdtemp()) / "nothing.sql"
    query.write_text("select 1;")
    return lambda: subprocess.run([shell, "-q", str(query), path], check=True, capture_output=True)


PARTS: dict[str, Callable[..., Work]] = {
    "open": _open,
    "graph": _graph,
    "audit": _audit,
    "what-if": _what_if,
    "audit with plan": _plan,
    "figure": _figure,
    "report": _report,
    "compare": _compare,
    "fleet map": _fleet_map,
}
FLOORS: dict[str, Callable[..., Work]] = {
    "read the file": _read,
    "unpack gzip (isal)": _gunzip,
    "simdjson, parsed only": _simdjson,
    "msgspec, all objects": _msgspec,
    "json of the standard library": _json,
}
OTHERS: dict[str, Callable[..., Work]] = {
    "HTA parse_traces": _hta,
    "TraceLens TreePerfAnalyzer": _tracelens,
    "Perfetto trace_processor": _perfetto,
}
ALONE = "open on one core"


def measured(work: Work) -> dict[str, float]:
    """Wall and processor seconds of some work, and the peak of memory of this process, in MB."""
    wall, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    _KEPT.append(work())
    wall = time.perf_counter() - wall
    now, later = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    cpu += later.ru_utime + later.ru_stime - children.ru_utime - children.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, "peak_mb": max(now.ru_maxrss, later.ru_maxrss) / 1024}


if __name__ == "__main__":
    name, *paths = sys.argv[1:]
    print(json.dumps(measured((PARTS | FLOORS | OTHERS | {ALONE: _open_alone})[name](*paths))))
