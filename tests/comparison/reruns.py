"""Other runs of a recorded program: its trace at times that scatter as those of runs do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from overlapscope import Trace, open_trace

_STRETCHES = 50
_LOCALLY, _ALL_OF_IT = 0.1, 0.02  # standard deviations of the speed


def rerun(path: Path, folder: Path, seed: int) -> Trace:
    """A trace whose time runs faster and slower from stretch to stretch; the order of everything stays."""
    found = json.loads(gzip.decompress(path.read_bytes()))
    events = [event for event in found["traceEvents"] if "ts" in event]
    start = np.array([float(event["ts"]) for event in events])
    end = start + [float(event.get("dur", 0)) for event in events]
    chance = np.random.default_rng(seed)
    speed = np.exp(chance.normal(0, _LOCALLY, _STRETCHES) + chance.normal(0, _ALL_OF_IT))
    old = np.linspace(start.min(), end.max(), _STRETCHES + 1)
    new = old[0] + np.append(0, np.cumsum(np.diff(old) * speed))
    begun, ended = (np.interp(moment, old, new).round(3) for moment in (start, end))
    for event, begin, length in zip(events, begun.tolist(), (ended - begun).round(3).tolist(), strict=True):
        event["ts"] = begin
        if "dur" in event:
            event["dur"] = length
    (folder / f"{seed}.json").write_text(json.dumps(found))
    return open_trace(folder / f"{seed}.json")
