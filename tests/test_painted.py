"""Figures show no false shares: what is painted of each colour is what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from overlapscope.measure.spans import union
from overlapscope.measure.windows import work_window
from overlapscope.model.trace import Trace
from overlapscope.plot import style
from overlapscope.plot.canvas import BAR_HEIGHT, rows_of
from overlapscope.plot.timeline import draw_timeline, draw_timelines
from overlapscope.read.opening import open_trace
from overlapscope.timeline.bars import Lane, Style
from overlapscope.timeline.lanes import lanes
from tests import kineto_maker as make
from tests.conftest import SAMPLES

mpl.use("agg")
DOTS_PER_IN = 900
"""Three dots each way for a pixel of a figure: few are at an edge, of a mixed colour."""
DENSE = (
    "dataloader_train-pinned-item", "moe_prefetch-pageable", "scalar_reads-item", "pinning_guide-list-to-non-blocking",
)  # fmt: skip
PUBLIC = ("saf-base-oct", "nsys-mfu-before", "hta-diff-control", "nsys-cloverleaf", "kin-rn50-w4", "tr-qcomm5-r0")


@pytest.fixture(autouse=True)
def without_hatches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hatch is lines of another colour on a bar, which counts as a whole."""
    plain = {entry: replace(look, hatch="") for entry, look in style.LOOKS.items()}
    monkeypatch.setitem(style.PALETTES, "colour", plain)


def shares(trace: Trace) -> list[tuple[str, Style, float, float]]:
    """For each lane and style of a figure of all of a trace the part of the lane that it covers: measured, painted."""
    window = work_window(trace)
    found = lanes(trace, window)
    axes = draw_timeline(trace, window, legend=False, exposed=False)
    for text in axes.texts:
        text.set_visible(False)
    figure = axes.figure
    figure.set_dpi(DOTS_PER_IN)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(np.int16)
    result = []
    for row in rows_of(found):
        if row.lane is None or not row.lane.bars:
            continue
        half = BAR_HEIGHT * row.height / 2
        edges = [(axes.get_xlim()[0], row.centre - half), (axes.get_xlim()[1], row.centre + half)]
        (left, low), (right, high) = axes.transData.transform(edges).round().astype(int)
        painted = of_colours(picture[low:high, left:right], row.lane)
        result += [
            (f"{row.lane.group} {row.lane.title}", one, covered(row.lane, one, window), part)
            for one, part in painted.items()
        ]
    mpl.pyplot.close(figure)
    return result


def of_colours(picture: np.ndarray, lane: Lane) -> dict[Style, float]:
    """The part of a picture that is nearest to each colour of a lane, and not to the ground's white."""
    styles = sorted({bars.style for bars in lane.bars}, key=list(Style).index)
    colours = [mpl.colors.to_rgb(style.LOOKS[entry].color) for entry in styles]
    wanted = np.round(np.array([*colours, (1.0, 1.0, 1.0)]) * 255).astype(np.int16)
    kinds, which = np.unique(picture.reshape(-1, 3), axis=0, return_inverse=True)
    nearest = np.argmin(((kinds[:, None].astype(int) - wanted[None].astype(int)) ** 2).sum(axis=2), axis=1)
    counts = np.bincount(nearest[which.reshape(-1)], minlength=len(wanted)) / which.size
    return dict(zip(styles, counts.tolist(), strict=False))


def covered(lane: Lane, wanted: Style, window: tuple[int, int]) -> float:
    """The part of a window in which a style is there."""
    spans = [union(bars.start_ns, bars.end_ns).total_ns for bars in lane.bars if bars.style is wanted]
    return sum(spans) / (window[1] - window[0])


def check(trace: Trace) -> None:
    found = shares(trace)
    assert found
    for title, entry, measured, painted in found:
        assert abs(measured - painted) < 0.02, (title, entry, measured, painted)


@pytest.mark.parametrize("labels", [("alone",), ("above", "below")])
def test_stretches_have_their_labels_in_order(labels: tuple[str, ...]) -> None:
    trace = open_trace(SAMPLES / "gemm_copy-pageable-kernels-first-non-blocking-side.json.gz")
    figure = draw_timelines((label, trace) for label in labels)
    assert tuple(ax.get_title(loc="left") for ax in figure.axes) == labels


def test_copies_of_half_a_percent_do_not_paint_the_lane(tmp_path: Path) -> None:
    """4000 kernels of 80 us, and an exposed copy of 0.5 us after each."""
    events = [make.kernel(100 * number, 80, correlation=None) for number in range(4000)]
    events += [make.copy(100 * number + 90, 0.5, stream=7, correlation=None) for number in range(4000)]
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    found = {(title, entry): (measured, painted) for title, entry, measured, painted in shares(trace)}
    measured, painted = found["GPU 0 overlap", Style.EXPOSED]
    assert measured == pytest.approx(0.005, abs=0.0005)
    assert 0 < painted < 0.025
    check(trace)


@pytest.mark.parametrize("name", DENSE)
def test_what_is_painted_is_what_was_measured(name: str) -> None:
    check(open_trace(SAMPLES / f"{name}.json.gz"))


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_painted_of_public_traces_is_what_was_measured(name: str, corpus: Path) -> None:
    check(open_trace(next(corpus.rglob(f"{name}*"))))
