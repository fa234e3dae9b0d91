"""Draw a loop as it is above the same loop fixed, on one scale of time."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from overlapscope import Appearance, Shown, Trace, Window, analyse, draw_timelines

DOTS_PER_IN = 100
COLOURS = 32  # few enough for a small file, enough for the palette and its edges
SHOWN = Shown(ranges=(), most_threads=2, most_streams=4, overlap=False, why_idle=False)
LOOK = Appearance(width="page", exposed=False)


def draw(traces: Mapping[str, Trace], name: str, path: Path) -> None:
    """Write the last range of this name in each trace, under each other, to a PNG."""
    windows = {label: _last(trace, name) for label, trace in traces.items()}
    panels = [
        (f"{label}: {window.wall_ns / 1e6:.3g} ms under the profiler", analyse(traces[label], window))
        for label, window in windows.items()
    ]
    _write(draw_timelines(panels, shown=SHOWN, look=LOOK), path)


def _last(trace: Trace, name: str) -> Window:
    """The last range of this name: nothing follows it."""
    ranges = trace.ranges
    mine = np.flatnonzero(np.isin(ranges.name_id, trace.names.find(name)))
    last = mine[np.argmax(ranges.start_ns[mine])]
    return Window.between(int(ranges.start_ns[last]), int(ranges.end_ns[last]))


def _write(figure: Figure, path: Path) -> None:
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=DOTS_PER_IN)
    image = Image.open(picture).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
