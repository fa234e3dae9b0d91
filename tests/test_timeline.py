"""Timelines: lanes as data first, then pictures."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from overlapscope.plot.lanes import Bars, Lane, LaneKind, Style, binned, for_pixels, lanes, work_window
from overlapscope.plot.style import LOOKS
from overlapscope.plot.timeline import draw_timeline, save_timeline
from overlapscope.read.opening import open_trace
from tests import kineto_maker as make
from tests.conftest import SAMPLES

mpl.use("agg")
US = 1000
SAMPLE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"


def styles(lane: Lane) -> dict[Style, int]:
    return {bars.style: len(bars.start_ns) for bars in lane.bars}


def test_lanes_of_a_real_trace() -> None:
    found = lanes(open_trace(SAMPLE))
    assert [(lane.kind, lane.title) for lane in found] == [
        (LaneKind.RANGES, "ranges"), (LaneKind.RANGES, ""), (LaneKind.RANGES, ""), (LaneKind.THREAD, "calls"),
        (LaneKind.STREAM, "GPU 0 stream 7"), (LaneKind.STREAM, "GPU 0 stream 13"), (LaneKind.OVERLAP, "GPU 0 overlap"),
    ]  # fmt: skip
    by_title = {lane.title: styles(lane) for lane in found}
    assert by_title["GPU 0 stream 7"] == {Style.KERNEL: 12}
    assert by_title["GPU 0 stream 13"] == {Style.HTOD_PAGEABLE: 6}
    assert by_title["calls"][Style.HELD_COPY] == 6
    assert found[1].bars[0].labels == ("gemm_copy",)


def test_lanes_keep_to_their_window(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", make.kernel(0, 100), make.kernel(200, 100), make.copy(90, 20)))
    (kernels, copies, overlap) = lanes(trace, (50 * US, 150 * US))
    assert (kernels.bars[0].start_ns.tolist(), kernels.bars[0].end_ns.tolist()) == ([50 * US], [100 * US])
    assert styles(copies) == {Style.HTOD_PAGEABLE: 1}
    assert {bars.style: int((bars.end_ns - bars.start_ns).sum()) for bars in overlap.bars} == {
        Style.HIDDEN: 10 * US, Style.EXPOSED: 10 * US, Style.KERNELS_ONLY: 40 * US,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "style"),
    [
        ("HtoD (Pageable -> Device)", Style.HTOD_PAGEABLE), ("HtoD (Pinned -> Device)", Style.HTOD_PINNED),
        ("DtoH (Device -> Pageable)", Style.DTOH_PAGEABLE), ("DtoH (Device -> Pinned)", Style.DTOH_PINNED),
        ("DtoD (Device -> Device)", Style.COPY_ON_DEVICE), ("HtoD (Host -> Device)", Style.COPY_OTHER),
    ],
)  # fmt: skip
def test_copies_are_told_apart(tmp_path: Path, kinds: str, style: Style) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", make.copy(0, 100, kinds=kinds)))
    assert styles(lanes(trace)[0]) == {style: 1}


def test_every_style_has_a_look_and_copies_differ_in_grey() -> None:
    assert set(LOOKS) == set(Style)
    grey = {}
    for style in (Style.HTOD_PAGEABLE, Style.HTOD_PINNED, Style.KERNEL):
        red, green, blue = mpl.colors.to_rgb(LOOKS[style].color)
        grey[style] = 0.299 * red + 0.587 * green + 0.114 * blue
    assert LOOKS[Style.HTOD_PAGEABLE].hatch
    assert abs(grey[Style.HTOD_PINNED] - grey[Style.KERNEL]) > 0.2
    assert abs(grey[Style.HTOD_PAGEABLE] - grey[Style.KERNEL]) > 0.15


def test_short_copies_neither_vanish_nor_look_long() -> None:
    """1000 copies of 1 us in a second: marked low everywhere, drawn in full nowhere."""
    start = np.arange(1000, dtype=np.int64) * 1000 * US
    full, slight = for_pixels(Bars(Style.HTOD_PAGEABLE, start, start + US), 0, 10**9, 500)
    assert len(full.start_ns) == 0
    assert int((slight.end_ns - slight.start_ns).sum()) == 10**9
    dense = Bars(Style.KERNEL, start, start + 900 * US)
    full, slight = for_pixels(dense, 0, 10**9, 500)
    assert int((full.end_ns - full.start_ns).sum()) == 10**9
    wide = Bars(Style.KERNEL, np.array([0]), np.array([10**9]), ("k",))
    assert for_pixels(wide, 0, 10**9, 500)[0].labels == ("k",)


def test_the_overlap_strip_shows_what_fills_most_of_a_pixel() -> None:
    start = np.arange(100, dtype=np.int64) * 10
    hidden, exposed = Bars(Style.HIDDEN, start, start + 7), Bars(Style.EXPOSED, start + 7, start + 10)
    main, minor = binned(Lane(LaneKind.OVERLAP, "", "", (hidden, exposed)), 0, 1000, 20)
    assert [bars.style for bars in main.bars] == [Style.HIDDEN]
    assert [bars.style for bars in minor.bars] == [Style.EXPOSED]


def test_copy_lanes_are_kept_and_missing_ones_are_named(tmp_path: Path) -> None:
    events = []
    for device in range(8):
        events += [make.kernel(0, 100, device=device, stream=stream) for stream in (7, 8, 9)]
        events.append(make.copy(10, 5, device=device, stream=20))
    found = lanes(open_trace(make.write(tmp_path / "t.json", *events)))
    copies = [lane for lane in found if lane.title.endswith("stream 20")]
    assert len(copies) == 8
    assert "16 streams not shown" in [lane.title for lane in found if lane.kind is LaneKind.NOTE]


def test_thin_pageable_copies_are_drawn_in_their_colour(tmp_path: Path) -> None:
    """No white edge or hatch on bars too thin to show one."""
    events = [make.kernel(0, 10_000), *[make.copy(1000 * number, 20) for number in range(10)]]
    axes = draw_timeline(open_trace(make.write(tmp_path / "t.json", *events)))
    color = mpl.colors.to_rgba(LOOKS[Style.HTOD_PAGEABLE].color)
    thin = [item for item in axes.collections if tuple(item.get_facecolor()[0]) == color]
    assert sum(len(item.get_paths()) for item in thin) == 10
    assert all(not item.get_hatch() and not item.get_linewidth()[0] for item in thin)
    mpl.pyplot.close(axes.figure)


def test_the_default_window_is_that_of_device_work(tmp_path: Path) -> None:
    trace = open_trace(
        make.write(tmp_path / "t.json", make.cpu_op("setup", 0, 9000), make.call(5000, 2, correlation=1),
                   make.kernel(5010, 90, correlation=1))
    )  # fmt: skip
    assert work_window(trace) == (5000 * US, 5100 * US)


def test_drawing_returns_axes_with_everything_on_them() -> None:
    trace = open_trace(SAMPLE)
    axes = draw_timeline(trace)
    polygons = [item for item in axes.collections if isinstance(item, PolyCollection)]
    assert sum(len(item.get_paths()) for item in polygons) >= 12 + 6 + 6
    hatched = [item for item in polygons if item.get_hatch()]
    assert len(hatched) == 1
    assert len(hatched[0].get_paths()) == 6
    assert axes.get_xlim()[0] == 0
    assert axes.get_xlabel() == "time (ms)"
    assert "GPU 0 stream 13" in [label.get_text() for label in axes.get_yticklabels()]
    mpl.pyplot.close(axes.figure)


def test_the_same_trace_gives_the_same_file(tmp_path: Path) -> None:
    trace = open_trace(SAMPLE)
    for suffix in ("svg", "pdf", "png"):
        files = [tmp_path / f"{number}.{suffix}" for number in range(2)]
        for file in files:
            save_timeline(trace, file)
        assert files[0].read_bytes() == files[1].read_bytes()


def test_vector_files_hold_text(tmp_path: Path) -> None:
    save_timeline(open_trace(SAMPLE), tmp_path / "t.svg")
    assert "GPU 0 stream 13" in (tmp_path / "t.svg").read_text()


def test_an_empty_window_is_drawn(tmp_path: Path) -> None:
    save_timeline(open_trace(SAMPLE), tmp_path / "t.png", (0, 1))
