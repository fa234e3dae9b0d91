"""Timelines: lanes as data first, then pictures."""

from __future__ import annotations

import re
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from click.testing import Result
from hypothesis import given, strategies as st
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure
from typer.testing import CliRunner

from overlapscope import analyse, what_if
from overlapscope.analysis.analysis import diagnose
from overlapscope.analysis.window import between_ms, window_of
from overlapscope.cli.main import app
from overlapscope.diagnosis.catalogue import CLAIMING
from overlapscope.diagnosis.causes import Cause, Lateness
from overlapscope.diagnosis.intervals import finding_intervals
from overlapscope.errors import RangeNotFound, WindowEmpty
from overlapscope.formatting import time
from overlapscope.measure.windows import of_occurrence, whole, work_window
from overlapscope.plot import style
from overlapscope.plot.canvas import LANE_IN
from overlapscope.plot.labels import Legend, fitting, texts_in, width_in
from overlapscope.plot.style import LOOKS, PALETTES, Appearance, Font, Look, Palette, rc
from overlapscope.plot.timeline import draw_timeline, draw_timelines, save_timeline, timeline_png
from overlapscope.read.opening import open_trace
from overlapscope.timeline import view
from overlapscope.timeline.bars import Bars, Curve, Lane, LaneKind, Style
from overlapscope.timeline.caption import caption
from overlapscope.timeline.comparison import View
from overlapscope.timeline.lanes import arrows, lanes
from overlapscope.timeline.names import process_titles, stream_roles, thread_titles
from overlapscope.timeline.pixels import Levels, deepest, for_pixels, highest
from overlapscope.timeline.view import Shown
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES
from tests.opened import audit_of

mpl.use("agg")
US = 1000
SAMPLE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"


def styles(lane: Lane) -> dict[Style, int]:
    return {bars.style: len(bars.start_ns) for bars in lane.bars}


def test_lanes_of_a_real_trace() -> None:
    found = lanes(open_trace(SAMPLE))
    roles = {lane.title: lane.role for lane in found if lane.role}
    assert roles == {"stream 7": "kernels", "stream 13": "copies HtoD"}
    assert [(lane.kind, lane.title) for lane in found] == [
        (LaneKind.RANGES, "ranges"), (LaneKind.RANGES, ""), (LaneKind.RANGES, ""), (LaneKind.THREAD, "main thread"),
        (LaneKind.STREAM, "stream 7"), (LaneKind.STREAM, "stream 13"), (LaneKind.OVERLAP, "overlap"),
        (LaneKind.WHY_IDLE, "why no kernel"),
    ]  # fmt: skip
    assert {lane.group for lane in found} == {"", "GPU 0"}
    by_title = {f"{lane.group} {lane.title}".strip(): styles(lane) for lane in found}
    assert by_title["GPU 0 stream 7"] == {Style.KERNEL: 12}
    assert by_title["GPU 0 stream 13"] == {Style.HTOD_PAGEABLE: 6}
    assert by_title["main thread"][Style.BLOCKED_BY_COPY] == 6
    assert found[1].bars[0].labels == ("gemm_copy",)


def test_bars_know_the_rows_that_they_stand_for(tmp_path: Path) -> None:
    path = make.write(
        tmp_path / "t.json",
        make.annotation("early", 0, 10),
        make.annotation("inner", 60, 10),
        make.call(62, 2, correlation=1),
        make.copy(20, 20),
        make.kernel(70, 20, correlation=1),
    )
    trace = open_trace(path)
    ranges, calls, kernels, overlap, _ = lanes(trace, (50 * US, 150 * US))
    rows = [lane.bars[0].rows for lane in (ranges, calls, kernels)]
    assert [None if row is None else row.tolist() for row in rows] == [[1], [0], [0]]
    assert overlap.bars[0].rows is None


def test_lanes_keep_to_their_window(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", make.kernel(0, 100), make.kernel(200, 100), make.copy(90, 20)))
    (kernels, copies, overlap, why) = lanes(trace, (50 * US, 150 * US))
    assert (kernels.bars[0].start_ns.tolist(), kernels.bars[0].end_ns.tolist()) == ([50 * US], [100 * US])
    assert styles(copies) == {Style.HTOD_PAGEABLE: 1}
    assert {bars.style: int((bars.end_ns - bars.start_ns).sum()) for bars in overlap.bars} == {
        Style.HIDDEN: 10 * US, Style.EXPOSED: 10 * US, Style.KERNELS_ONLY: 40 * US,
    }  # fmt: skip
    assert (why.bars[0].start_ns.tolist(), why.bars[0].end_ns.tolist()) == ([100 * US], [150 * US])


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


def lane_of(*bars: Bars) -> Lane:
    return Lane(LaneKind.STREAM, "", "", bars)


def heights(levels: Levels, at: int) -> float:
    """How high a style is at a time, as a part of the lane."""
    here = (levels.start_ns <= at) & (at < levels.end_ns)
    return float((levels.high - levels.low)[here].sum())


def test_bars_thinner_than_a_pixel_are_as_high_as_the_time_they_fill() -> None:
    """A kernel of 600, a copy of 300 and a memset of 100 ns in each us, in pixels of 2 us."""
    start = np.arange(1000, dtype=np.int64) * US
    shown = lane_of(
        Bars(Style.KERNEL, start, start + 600),
        Bars(Style.DTOH_PINNED, start + 600, start + 900),
        Bars(Style.MEMSET, start + 900, start + 1000),
    )
    drawn, levels = for_pixels(shown, 0, 1000 * US, 500)
    assert not drawn
    at = {level.style: heights(level, 501 * US) for level in levels}
    assert at == pytest.approx({Style.KERNEL: 0.6, Style.DTOH_PINNED: 0.3, Style.MEMSET: 0.1}, abs=0.01)
    stacked = {level.style: float(level.low[0]) for level in levels}
    assert stacked == pytest.approx({Style.KERNEL: 0.4, Style.DTOH_PINNED: 0.1, Style.MEMSET: 0}, abs=0.01)


def test_bars_of_a_pixel_or_more_stay_as_they_are_and_leave_the_rest_to_thin_ones() -> None:
    """A kernel of 15 of 100 ns, then copies of 1 ns in every 2, in pixels of 10 ns."""
    start = np.arange(15, 99, 2)
    shown = lane_of(
        Bars(Style.KERNEL, np.array([0]), np.array([15]), ("k",)), Bars(Style.HTOD_PINNED, start, start + 1)
    )
    (kernel,), (copies,) = for_pixels(shown, 0, 100, 10)
    assert (kernel.end_ns.tolist(), kernel.labels) == ([15], ("k",))
    assert copies.start_ns[0] == 15
    assert heights(copies, 17) == pytest.approx(3 / 5)
    assert heights(copies, 55) == pytest.approx(0.5)


def test_a_mark_that_is_too_low_to_see_is_raised_by_little_in_all() -> None:
    """Copies of 1 in 1000 ns: everywhere, and once."""
    start = np.arange(0, 1_000_000, 1000)
    everywhere, once = (
        for_pixels(lane_of(Bars(Style.HTOD_PAGEABLE, begin, begin + 1)), 0, 1_000_000, 500)[1][0]
        for begin in (start, start[500:501])
    )
    area = ((everywhere.high - everywhere.low) * (everywhere.end_ns - everywhere.start_ns)).sum() / 1_000_000
    assert 0.001 < area < 0.02
    assert 0.1 < heights(once, 500_001) < 0.5, "to be seen, and not as a full bar"


bar = st.tuples(st.integers(0, 20), st.integers(1, 30), st.sampled_from([Style.HIDDEN, Style.EXPOSED]))


@given(st.lists(bar, min_size=1, max_size=60), st.integers(1, 40))
def test_the_painted_share_of_each_style_is_its_share_of_the_time(
    parts: list[tuple[int, int, Style]], pixels: int
) -> None:
    """Within two points, for bars that exclude each other, whatever their lengths."""
    lengths = np.array([length for gap, work, _ in parts for length in (gap, work)])
    edges = np.cumsum(lengths)
    last = int(edges[-1])
    of = {style: np.array([style is other for *_, other in parts]) for style in (Style.HIDDEN, Style.EXPOSED)}
    bars = [Bars(style, edges[::2][rows], edges[1::2][rows]) for style, rows in of.items()]
    drawn, levels = for_pixels(lane_of(*bars), 0, last, pixels)
    for wanted in bars:
        painted = sum(int((part.end_ns - part.start_ns).sum()) for part in drawn if part.style is wanted.style)
        thin = [level for level in levels if level.style is wanted.style]
        painted += sum(float(((level.high - level.low) * (level.end_ns - level.start_ns)).sum()) for level in thin)
        assert abs(painted - int((wanted.end_ns - wanted.start_ns).sum())) <= 0.02 * last


def test_copy_lanes_are_kept_and_missing_ones_are_named(tmp_path: Path) -> None:
    events = []
    for device in range(8):
        events += [make.kernel(0, 100, device=device, stream=stream) for stream in (7, 8, 9)]
        events.append(make.copy(10, 5, device=device, stream=20))
    found = lanes(open_trace(make.write(tmp_path / "t.json", *events)))
    assert [lane.group for lane in found if lane.title == "stream 20"] == [f"GPU {device}" for device in range(8)]
    notes = {lane.group: lane.title for lane in found if lane.kind is LaneKind.NOTE}
    assert notes["GPU 7"] == "3 more streams"
    assert sum(int(title.split()[0]) for title in notes.values()) == 16


def test_lanes_come_by_device(tmp_path: Path) -> None:
    events = [make.kernel(start, 10, device=device) for device in (0, 1) for start in (0, 50)]
    found = lanes(open_trace(make.write(tmp_path / "t.json", *events)))
    assert [(lane.group, lane.title) for lane in found] == [
        (f"GPU {device}", title) for device in (0, 1) for title in ("stream 7", "overlap", "why no kernel")
    ]


def test_thin_pageable_copies_are_drawn_in_their_colour(tmp_path: Path) -> None:
    """No white edge or hatch on bars too thin to show one."""
    events = [make.kernel(0, 10_000), *[make.copy(1000 * number, 20) for number in range(10)]]
    axes = draw_timeline(open_trace(make.write(tmp_path / "t.json", *events)))
    color = mpl.colors.to_rgba(LOOKS[Style.HTOD_PAGEABLE].color)
    thin = [item for item in axes.collections if tuple(item.get_facecolor()[:1].ravel()) == color]
    assert sum(len(item.get_paths()) for item in thin) == 10
    assert all(not item.get_hatch() and not item.get_linewidth()[0] for item in thin)
    mpl.pyplot.close(axes.figure)


def test_the_default_window_is_that_of_device_work(tmp_path: Path) -> None:
    trace = open_trace(
        make.write(tmp_path / "t.json", make.cpu_op("setup", 0, 9000), make.call(5000, 2, correlation=1),
                   make.kernel(5010, 90, correlation=1))
    )  # fmt: skip
    assert work_window(trace) == (5010 * US, 5100 * US)


def test_drawing_returns_axes_with_everything_on_them() -> None:
    trace = open_trace(SAMPLE)
    axes = draw_timeline(trace)
    polygons = [item for item in axes.collections if isinstance(item, PolyCollection)]
    assert sum(len(item.get_paths()) for item in polygons) >= 12 + 6 + 6
    hatched = [item for item in polygons if item.get_hatch()]
    assert len(hatched) == 1
    assert len(hatched[0].get_paths()) == 6
    assert "stream 13 (copies HtoD)" in [label.get_text() for label in axes.get_yticklabels()]
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
    assert "stream 13" in (tmp_path / "t.svg").read_text()


@pytest.mark.parametrize("name", ["", " ", "\N{IDEOGRAPHIC SPACE}"])
def test_blank_names_are_drawn(name: str, tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "blank.json", make.kernel(0, 90, name=name)))
    save_timeline(trace, tmp_path / "blank.svg")
    assert (tmp_path / "blank.svg").stat().st_size


def test_a_window_without_work_is_drawn(tmp_path: Path) -> None:
    trace = open_trace(SAMPLE)
    save_timeline(trace, tmp_path / "t.png", (trace.start_ns, trace.start_ns + 1))


def test_a_window_outside_of_the_trace_is_refused_in_words(tmp_path: Path) -> None:
    trace = open_trace(SAMPLE)
    for window, words in (((0, 10_000_000), "on its clock"), ((5, 5), "ends before it begins")):
        for draw in (draw_timeline, caption, timeline_png):
            with pytest.raises(WindowEmpty, match=words):
                draw(trace, window)
    with pytest.raises(WindowEmpty, match="not by both"):
        draw_timeline(trace, (trace.start_ns, trace.end_ns), within="gemm_copy")
    with pytest.raises(RangeNotFound, match="no range 'nowhere'"):
        save_timeline(trace, tmp_path / "t.png", within="nowhere")


@pytest.mark.parametrize("columns", [1, 2])
def test_in_given_axes_titles_and_legend_have_room(columns: int) -> None:
    figure = Figure(figsize=(7, 5))
    *others, ax = figure.subplots(1, columns, squeeze=False)[0]
    draw_timeline(open_trace(SAMPLE), ax=ax)
    needed, legend, label = ax.get_tightbbox(), ax.get_legend(), ax.xaxis.label
    assert needed is not None
    assert legend is not None
    assert needed.x0 >= max((other.get_window_extent().x1 for other in others), default=0)
    assert needed.y0 >= 0
    assert legend.get_window_extent().y1 <= label.get_window_extent().y0 + 1


# A figure of a window, and the audit of that window

WINDOWS = [
    ("dataloader_train-pageable-blocking.json.gz", "step"),
    ("dataloader_train-pageable-blocking.json.gz", None),
    ("dataloader_train-pinned-item.sqlite.gz", "train"),
    ("gemm_copy-pageable-kernels-first-non-blocking-side.json.gz", "gemm_copy"),
    ("moe_prefetch-pageable.json.gz", None),
]


@pytest.mark.parametrize(("name", "within"), WINDOWS)
def test_the_figure_of_a_window_has_the_causes_of_its_audit(name: str, within: str | None) -> None:
    found = audit_of(SAMPLES / name, within)
    drawn = {entry.kind: entry for entry in lanes(found.analysis)}
    view_lanes = View("", found.analysis, 0, found.trace.start_ns, found.trace.end_ns).lanes(Shown())
    in_view = {entry.kind: entry for entry in view_lanes}
    (device,) = found.diagnosis.devices
    for kind in (Style[rule.code] for rule in CLAIMING):
        idle_ns = sum(
            length
            for length, reason, lateness in zip(
                device.idle.duration_ns.tolist(), device.reason.tolist(), device.lateness.tolist(), strict=True
            )
            if reason >= 0 and Style.of_rule(device.codes[reason], Lateness(lateness)) is kind
        )
        for shown in (drawn, in_view):
            assert shown[LaneKind.WHY_IDLE].busy_ns(frozenset((kind,))) == idle_ns


def test_the_step_of_a_figure_is_that_of_the_audit() -> None:
    trace = open_trace(SAMPLES / "dataloader_train-pageable-blocking.json.gz")
    step = window_of(trace, step=1)
    assert caption(trace, step) == caption(trace, within="ProfilerStep#1")


# What is shown


def one_of_each(tmp_path: Path) -> Path:
    """A pageable copy of 60 us, blocked for 54, on stream 13 beside a kernel of 40 us on stream 7, in two ranges."""
    return make.write(
        tmp_path / "t.json",
        make.annotation("outer", 0, 200),
        make.annotation("inner", 5, 80),
        make.call(10, 4, correlation=1),
        make.kernel(20, 40, correlation=1),
        make.call(15, 60, name="cudaMemcpyAsync", correlation=2),
        make.copy(17, 60, correlation=2),
        make.call(90, 4, correlation=3),
        make.kernel(100, 50, correlation=3),
    )


def test_lanes_of_chosen_streams_threads_and_ranges(tmp_path: Path) -> None:
    trace = open_trace(one_of_each(tmp_path))
    found = lanes(trace, shown=Shown(ranges=("inn*",), streams=(13,)))
    assert [lane.title for lane in found] == ["ranges", "main thread", "stream 13", "overlap", "why no kernel"]
    assert found[0].bars[0].labels == ("inner",)
    found = lanes(trace, shown=Shown(threads=(99,), overlap=False, why_idle=False))
    assert [lane.title for lane in found] == ["stream 7", "stream 13"]
    assert "main thread" not in [lane.title for lane in lanes(trace, shown=Shown(calls=False))]


def test_the_queue_is_a_curve(tmp_path: Path) -> None:
    """Issued at 10, 15 and 90 us, begun at 20, 17 and 100; the first of these begins the window."""
    *_, queue = lanes(open_trace(one_of_each(tmp_path)), shown=Shown(queue=True))
    assert queue.kind is LaneKind.QUEUE
    assert queue.curve is not None
    steps = dict(zip((queue.curve.time_ns // US).tolist(), queue.curve.value.tolist(), strict=True))
    assert steps == {17: 1, 20: 0, 90: 1, 100: 0}
    pixels = highest(queue.curve, 0, 100 * US, 10)
    assert pixels.value.tolist()[:-1] == [0, 2, 0, 0, 0, 0, 0, 0, 0, 1]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 9)), max_size=20), st.integers(1, 30))
def test_a_curve_in_pixels_is_the_highest_of_each(steps: list[tuple[int, int]], pixels: int) -> None:
    by_time = dict(sorted(steps))
    curve = Curve(np.array(list(by_time), np.int64), np.array(list(by_time.values()), np.int64))
    found = highest(curve, 0, 100, pixels)
    values = [next((by_time[t] for t in range(now, -1, -1) if t in by_time), 0) for now in range(101)]
    edges = found.time_ns.tolist()
    for begin, end, value in zip(edges[:-1], edges[1:], found.value.tolist()[:-1], strict=True):
        assert value == max(values[begin:end])


def test_streams_are_called_by_what_runs_on_them(tmp_path: Path) -> None:
    def of(stream: int, *works: Any) -> list[Any]:
        return [work(10 * number, 5, stream=stream) for number, work in enumerate(works)]

    up, down = (partial(make.copy, kinds=kinds) for kinds in ("HtoD (Pinned -> Device)", "DtoH (Device -> Pinned)"))
    reduce = partial(make.kernel, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    events = [
        *of(1, make.kernel), *of(2, up), *of(3, up, down), *of(4, make.kernel, up), *of(5, make.kernel, up, down),
        *of(6, reduce), *of(7, make.kernel, reduce), *of(8, make.kernel, reduce, up),
    ]  # fmt: skip
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    roles = {key.stream: role for key, role in stream_roles(trace).items()}
    assert roles == {
        1: "kernels", 2: "copies HtoD", 3: "copies", 4: "kernels, HtoD", 5: "kernels, copies",
        6: "collectives", 7: "kernels, collectives", 8: "mixed",
    }  # fmt: skip


@pytest.mark.parametrize("codes", [False, True])
def test_a_finding_without_idle_time_has_its_place_in_a_lane(codes: bool) -> None:
    """A read too early costs the GPU nothing: only a mark shows where it is."""
    trace = open_trace(SAMPLES / "pinning_guide-read-early.json.gz")
    (mark,) = (lane for lane in lanes(trace) if lane.kind is LaneKind.MARK)
    found = analyse(trace).recorded
    finding = next(each for each in found.findings if each.code == "OVL103")
    start, end = finding_intervals(found, finding)
    assert (mark.bars[0].start_ns.min(), mark.bars[0].end_ns.max()) == (start.min(), end.max())
    axes = draw_timeline(trace, codes=codes)
    titles = [label.get_text() for label in axes.get_yticklabels()]
    assert ("OVL103 unsafe-read" if codes else "unsafe read") in titles
    signs = [item for item in axes.collections if isinstance(item, PathCollection)]
    zero = work_window(trace)[0]
    assert float(signs[0].get_offsets()[0][0]) == pytest.approx((start.min() - zero) / 1e6)
    assert Style.MARK.words in labels_of_legend(axes.figure)
    mpl.pyplot.close("all")


def test_a_fixed_program_has_no_mark() -> None:
    found = lanes(open_trace(SAMPLES / "pinning_guide-read-after-wait.json.gz"))
    assert LaneKind.MARK not in {lane.kind for lane in found}


def test_time_that_the_gpu_waits_for_the_data_loader_has_its_style() -> None:
    analysis = analyse(SAMPLES / "dataloader_train-article-loop.json.gz")
    (why,) = (lane for lane in lanes(analysis) if lane.kind is LaneKind.WHY_IDLE)
    (device,) = analysis.devices
    loading = (device.reason == device.codes.index("OVL008")) & (device.lateness == Lateness.DATA_LOADING)
    waited_ns = int(device.idle.duration_ns[loading].sum())
    assert why.busy_ns(frozenset((Style["OVL008_DATA_LOADING"],))) == waited_ns > 0
    assert Style["OVL008_DATA_LOADING"].colour != Style["OVL008"].colour


def test_arrows_lead_from_calls_to_their_work(tmp_path: Path) -> None:
    trace = open_trace(one_of_each(tmp_path))
    found = arrows(trace, trace.start_ns, trace.end_ns)
    columns = (found.issued_ns // US, found.begun_ns // US, found.stream)
    pairs = sorted(zip(*(column.tolist() for column in columns), strict=True))
    assert pairs == [(10, 20, 7), (15, 17, 13), (90, 100, 7)]
    assert arrows(trace, trace.start_ns, trace.end_ns, most=2).stream.tolist() == [13], "copies alone, if all are many"
    assert len(arrows(trace, trace.start_ns, trace.end_ns, most=0)) == 0


def test_a_caption_has_the_main_finding_then_the_share_of_work_then_what_was_recorded(tmp_path: Path) -> None:
    """The GPU waits 34 of 200 us for the copy, of which kernels hide 40 of 60 us, and computes for 90."""
    trace = open_trace(one_of_each(tmp_path))
    assert caption(trace, (0, 200 * US)) == (
        "The GPU lost 17 % of the time to pageable copies. "
        "The GPU computed for 45 % of the time; 67 % of 60 us of copies were hidden under kernels. "
        "Shown: 200 us, a part of the trace on Test GPU, recorded by torch.profiler (Kineto)."
    )
    assert "the range inner on Test GPU" in caption(trace, within="inner")


@pytest.mark.parametrize("name", ["pinning_guide-read-early", "dataloader_train-pinned-item", "moe_prefetch-ahead"])
def test_a_caption_has_three_sentences_in_words(name: str) -> None:
    said = caption(open_trace(SAMPLES / f"{name}.json.gz"))
    assert len(re.findall(r"\.(?= |$)", said)) == 3
    assert "OVL" not in said


def test_a_caption_puts_wrong_results_first() -> None:
    said = caption(open_trace(SAMPLES / "pinning_guide-read-early.json.gz"))
    assert said.startswith("Results may be wrong because of copies that are read too early. ")


def test_a_caption_without_a_finding_says_what_would_have_been_one() -> None:
    analysis = analyse(SAMPLES / "gemm_copy-pinned-copy-first-non-blocking-side.json.gz", "gemm_copy")
    least = time(analysis.recorded.report_threshold_ns)
    assert caption(analysis).startswith(f"No GPU lost more to a single cause than {least}. ")


def test_a_caption_names_the_adapters_that_worked_and_each_gpu(tmp_path: Path) -> None:
    """Two GPUs, one of which works half as much; and adapters of one number, of which the first is the GPU."""
    events = [make.kernel(0, 100, device=0), make.kernel(0, 50, device=1)]
    adapters = [{"id": 0, "name": "Test GPU"}, {"id": 0, "name": "Basic Render Driver"}]
    said = caption(open_trace(make.write(tmp_path / "t.json", *events, deviceProperties=adapters)))
    assert "Basic Render" not in said
    assert "The 2 GPUs computed for 50 to 100 % of the time and copied nothing." in said


def test_threads_are_called_by_what_they_do(tmp_path: Path) -> None:
    """Thread 5 has the steps and fewer calls than the one that runs the backward pass."""
    events = [
        make.annotation("ProfilerStep#1", 0, 90, pid=9, tid=5),
        make.call(10, 4, correlation=1, pid=9, tid=5),
        make.kernel(20, 10, correlation=1, pid=9),
        make.cpu_op("autograd::engine::evaluate_function: MmBackward0", 30, 20, pid=9, tid=7),
        *[make.call(30 + number, 1, correlation=2 + number, pid=9, tid=7) for number in range(4)],
        *[make.call(50 + number, 1, correlation=8, pid=9, tid=number) for number in (1, 2)],
        {"ph": "M", "name": "thread_name", "pid": 9, "tid": 2, "args": {"name": "thread 2 (loader)"}},
    ]
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    assert thread_titles(trace) == {(9, 5): "main thread", (9, 7): "autograd", (9, 1): "thread 1", (9, 2): "loader"}
    assert process_titles(trace) == {9: ""}


def test_the_threads_of_several_processes_stand_with_their_gpus(tmp_path: Path) -> None:
    events = []
    for process, device in ((3, 0), (4, 1)):
        events += [make.call(0, 4, correlation=process, pid=process, tid=process)]
        events += [make.kernel(3, 50, correlation=process, pid=process, device=device)]
    found = lanes(open_trace(make.write(tmp_path / "t.json", *events)))
    assert [(lane.group, lane.title) for lane in found] == [
        (f"GPU {device}", title) for device in (0, 1) for title in ("main thread", "stream 7", "overlap")
    ]


@pytest.mark.parametrize("name", ["gemm_copy-pageable-copy-first-non-blocking-side", "scalar_reads-item"])
def test_the_why_idle_lane_adds_up_to_the_idle_time_of_each_finding(name: str) -> None:
    trace = open_trace(SAMPLES / f"{name}.json.gz")
    found = diagnose(trace)
    (why,) = (lane for lane in lanes(trace, (trace.start_ns, trace.end_ns)) if lane.kind is LaneKind.WHY_IDLE)
    by_code = {bars.style.value[:6]: int((bars.end_ns - bars.start_ns).sum()) for bars in why.bars}
    assert {finding.code: finding.idle_ns for finding in found.findings if finding.idle_ns}.items() <= by_code.items()
    assert sum(by_code.values()) == found.idle_ns
    named = lanes(analyse(trace), shown=Shown(labels=True))
    (why,) = (lane for lane in named if lane.kind is LaneKind.WHY_IDLE)
    assert {label for bars in why.bars for label in bars.labels} <= {cause.label for cause in Cause}


# Windows


def test_a_window_by_time_range_occurrence_step_and_finding(tmp_path: Path) -> None:
    events = [
        *[make.annotation(f"ProfilerStep#{number}", number * 100, 90) for number in (1, 2)],
        *[make.annotation("part", start, 10) for start in (100, 150, 200)],
        make.call(205, 4, correlation=1),
        make.kernel(300, 50, correlation=1),
    ]
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    _, end = work_window(trace)
    for between, edges in (
        ((0.05, None), (trace.start_ns + 50 * US, end)),
        ((-1e300, float("inf")), (trace.start_ns, trace.end_ns)),
    ):
        window = between_ms(trace, *between)
        assert (window.first_ns, window.last_ns) == edges
    for window, edges in (
        (window_of(trace, step=1), (100, 190)),
        (window_of(trace, step=2), (200, 350)),  # with the work that it issued
        (of_occurrence(trace, "part", 2), (150, 160)),
        (of_occurrence(trace, "part"), (100, 350)),
    ):
        assert (window.first_ns // US, window.last_ns // US) == edges
    with pytest.raises(RangeNotFound, match="occurs 3 times"):
        of_occurrence(trace, "part", 4)
    for begin, until in ((3, 1), (300, 500), (-5, -3), (float("nan"), None)):
        with pytest.raises(WindowEmpty, match="window from"):
            between_ms(trace, begin, until)


def test_a_window_of_a_finding_is_around_its_longest_copy() -> None:
    found = diagnose(open_trace(SAMPLE))
    finding, copies = found.findings[0], found.trace.copies
    window = view.of_finding(found, finding)
    lengths = copies.duration_ns[list(finding.copies)]
    row = finding.copies[int(np.argmax(lengths))]
    assert window.first_ns < copies.start_ns[row] < copies.end_ns[row] < window.last_ns
    assert window.wall_ns < 3 * lengths.max()


@pytest.mark.parametrize("name", ["collective_exposed", "blocking_launches", "full_device", "strided_view"])
def test_every_finding_has_a_place(name: str) -> None:
    """Also those that are about no call and no copy."""
    found = diagnose(open_trace(CASES / f"{name}.json.gz"))
    assert any(not finding.copies and not finding.calls for finding in found.findings)
    for finding in found.findings:
        start, end = finding_intervals(found, finding)
        assert len(start)
        assert (start <= end).all()
        if finding.code == "OVL016":
            assert (end - start).sum() == finding.idle_ns
        window = view.of_finding(found, finding)
        assert found.trace.start_ns <= window.first_ns <= window.last_ns <= found.trace.end_ns


# Texts and legend


def texts(*kinds: tuple[LaneKind, Bars], inches: float = 2.7, **options: Any) -> list[str]:
    found, look = [Lane(kind, "", "", (bars,)) for kind, bars in kinds], Appearance(**options)
    with mpl.rc_context(rc()):
        return [text.text for lane in found for text in texts_in(lane, (0, 1000), inches, look)]


def some(style: Style, *lengths: int, gap: int = 50, labels: tuple[str, ...] = ()) -> Bars:
    ends = np.cumsum([length + gap for length in lengths])
    return Bars(style, ends - gap - np.array(lengths), ends - gap, labels)


def test_kernels_have_their_names_where_they_fit_and_shortened_on_demand() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, float>(int, float)"
    with mpl.rc_context(rc()):
        whole = width_in("vectorized_elementwise_kernel", rc()["font.family"][0])
    lengths = (round(1000 * (part * whole + 0.05) / 2.7) for part in (1.1, 0.9))
    bars = some(Style.KERNEL, *lengths, gap=0, labels=(name, name))
    assert texts((LaneKind.STREAM, bars)) == ["vectorized_elementwise_kernel"]
    full, short = texts((LaneKind.STREAM, bars), kernel_names=True)
    assert (full, short) == ("vectorized_elementwise_kernel", "vectorized_elementwise\N{HORIZONTAL ELLIPSIS}")


def test_what_a_colour_stands_for_is_said_once_in_a_lane_and_why_it_was_idle_in_each_bar() -> None:
    assert texts((LaneKind.OVERLAP, some(Style.EXPOSED, 300, 400))) == ["copy exposed"]
    bars = some(Style["OVL001"], 400, 250)
    assert texts((LaneKind.WHY_IDLE, bars), codes=True) == ["OVL001 pageable-copy", "OVL001"]
    with mpl.rc_context(rc()):
        whole, short = (width_in(text, rc()["font.family"][0]) for text in ("idle: pageable copies", "pageable copies"))
    inches = (whole + short) / 2 / 0.25 + 0.2
    assert texts((LaneKind.WHY_IDLE, bars), inches=inches) == ["idle: pageable copies", "pageable copies"]
    touching = some(Style["OVL001"], 90, 90, 90, 90, gap=2)
    assert texts((LaneKind.WHY_IDLE, touching)) == ["idle: pageable copies"], "what looks like one bar is one"


@pytest.mark.parametrize("codes", [False, True])
def test_what_a_colour_stands_for_is_said_whole_or_not_at_all(*, codes: bool) -> None:
    """No "GPU" for a GPU that is idle, and no "copy" for one that is exposed."""
    for one in set(Style) - set(FINDINGS) - {Style.RANGE}:
        bar = (LaneKind.WHY_IDLE if one is Style.IDLE else LaneKind.OVERLAP, some(one, 900))
        said = {text for inches in np.linspace(0.2, 2, 40) for text in texts(bar, inches=inches, codes=codes)}
        assert said == {one.value}


def test_texts_never_overlap_where_bars_do() -> None:
    bars = Bars(Style.KERNEL, np.array([0, 100]), np.array([500, 600]), ("first_kernel", "second_kernel"))
    assert texts((LaneKind.STREAM, bars)) == ["first_kernel"]


@pytest.mark.parametrize("options", [{}, {"ax": True}])
def test_texts_are_as_narrow_as_their_bars_when_drawn(options: dict[str, Any], tmp_path: Path) -> None:
    """Titles of lanes take room, which texts in bars must know: long ones, of a thread here."""
    name = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "a thread with a name that is long"}}
    events = [make.annotation(f"label_of_{number}", 1000 * number, 990) for number in range(8)]
    events += [make.call(10, 4, correlation=1, tid=2), make.kernel(20, 8000, correlation=1), name]
    ax = Figure(figsize=(5, 3)).subplots() if options else None
    axes = draw_timeline(open_trace(make.write(tmp_path / "t.json", *events)), ax=ax)
    figure = axes.figure
    figure.draw_without_rendering()
    drawn = [text for text in axes.texts if text.get_text().startswith("label")]
    per_us = axes.get_window_extent().width / np.diff(axes.get_xlim())[0] / 1000
    assert all(text.get_window_extent().width <= 990 * per_us for text in drawn)
    mpl.pyplot.close("all")


def labels_of_legend(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def legend_of(tmp_path: Path, *events: dict[str, Any], **options: Any) -> set[str]:
    axes = draw_timeline(open_trace(make.write(tmp_path / "t.json", *events)), **options)
    mpl.pyplot.close(axes.figure)
    return set(labels_of_legend(axes.figure))


@pytest.mark.parametrize(("length", "is_told"), [(2000, True), (1020, True), (980, False), (0.5, False)])
def test_every_colour_that_fills_a_hundredth_is_in_the_legend(tmp_path: Path, length: float, *, is_told: bool) -> None:
    """A memset of some length in 100 ms, and the pageable copy of a stream that has nothing else."""
    memset = make.kernel(60_000, length) | {"cat": "gpu_memset", "name": "Memset (Device)"}
    events = [make.kernel(0, 50_000), make.copy(50_000, 1, stream=9), memset, make.kernel(65_000, 35_000)]
    told = legend_of(tmp_path, *events)
    assert ("memset" in told) == is_told
    assert {"kernel", "HtoD pageable", "kernels only"} <= told
    assert "copy exposed" not in told


def test_the_legend_has_each_rule_that_is_named_by_its_code() -> None:
    trace = open_trace(SAMPLES / "dataloader_train-pageable-blocking.json.gz")
    worded, coded = (
        labels_of_legend(draw_timeline(trace, within=of_occurrence(trace, "step", 3), codes=codes).figure)
        for codes in (False, True)
    )
    mpl.pyplot.close("all")
    assert "idle: synchronisations of the host" not in worded
    assert "OVL004 host-synchronises" in coded


def test_the_shade_behind_streams_has_no_entry_of_its_own_but_half_of_one(tmp_path: Path) -> None:
    trace = open_trace(make.write(tmp_path / "t.json", make.kernel(0, 50_000), make.copy(60_000, 10_000)))
    for exposed in (True, False):
        axes = draw_timeline(trace, exposed=exposed)
        assert labels_of_legend(axes.figure).count("copy exposed") == 1
        faces = {
            mpl.colors.to_hex(patch.get_facecolor()) for patch in axes.figure.legends[0].findobj(mpl.patches.Patch)
        }
        assert (style.SHADES["colour"].lower() in faces) == exposed
        drawn = {mpl.colors.to_hex(colour) for item in axes.collections for colour in item.get_facecolor()}
        assert drawn <= faces
        mpl.pyplot.close("all")


@pytest.mark.parametrize("width", [3.5, 7.16])
def test_the_columns_of_a_legend_have_room(width: float) -> None:
    legend = Legend(set(Style), Appearance())
    figure = Figure(figsize=(width, 8), layout="constrained")
    with mpl.rc_context(rc()):
        legend.add(figure.subplots())
        figure.draw_without_rendering()
        found = figure.legends[0].get_window_extent()
        assert found.x0 >= 0
        assert found.x1 <= width * figure.dpi
        assert found.height <= legend.height_in(width) * figure.dpi * 1.1


@pytest.mark.parametrize(
    ("window", "unit", "first"),
    [
        ((500_000, 900_000), "us", 400), ((812 * 10**6, 812_200_000), "ms", 811.9), ((100_000, 10**10), "s", 0),
    ],
)  # fmt: skip
def test_the_axis_says_which_clock_it_has(tmp_path: Path, window: tuple[int, int], unit: str, first: float) -> None:
    """Zero is the begin of the window, or on demand that of the trace, as in tables."""
    trace = open_trace(make.write(tmp_path / "t.json", make.kernel(100, 5), make.kernel(9_000_000, 5)))
    axes = draw_timeline(trace, window, clock="trace")
    label = f"time since the start of the trace ({unit})"
    assert (axes.get_xlabel(), axes.get_xlim()[0]) == (label, pytest.approx(first, abs=0.001))
    axes = draw_timeline(trace, window)
    assert axes.get_xlabel().startswith("time since the start of the window (")
    assert axes.get_xlim()[0] == 0
    mpl.pyplot.close("all")


def test_the_first_installed_of_the_fonts_that_papers_want_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert style.SANS[:2] == ("Liberation Sans", "Arial")
    monkeypatch.setattr(style, "SANS", ("No Such Font", "STIXGeneral", "DejaVu Sans"))
    assert rc()["font.family"][0] == "STIXGeneral"


# Looks


@pytest.mark.parametrize("palette", PALETTES)
def test_what_shares_a_lane_differs_in_grey_or_in_its_hatch(palette: Palette) -> None:
    looks = PALETTES[palette]
    assert set(looks) == set(Style)
    copies = (Style.HTOD_PAGEABLE, Style.HTOD_PINNED, Style.DTOH_PAGEABLE, Style.DTOH_PINNED)
    together = (
        copies,
        (Style.BLOCKED_BY_COPY, Style.BLOCKED_BY_SYNC, Style.CALL),
        *((Style.KERNEL, style) for style in copies),
        (Style.HIDDEN, Style.EXPOSED, Style.KERNELS_ONLY),
    )
    for group in together:
        for one, other in combinations(group, 2):
            # Thin bars have no hatch: pageable and pinned copies of a direction differ without it.
            hatched = looks[one].hatch != looks[other].hatch and {one, other} not in map(set, (copies[:2], copies[2:]))
            assert hatched or abs(grey_of(looks[one]) - grey_of(looks[other])) > 0.06, (one, other)


STREAMS = (
    *(Style.HTOD_PAGEABLE, Style.HTOD_PINNED, Style.DTOH_PAGEABLE, Style.DTOH_PINNED, Style.COPY_ON_DEVICE),
    *(Style.KERNEL, Style.COLLECTIVE, Style.MEMSET, Style.COPY_OTHER),
)
"""What streams are made of."""
FINDINGS = tuple(style for style in Style if style.name.startswith("OVL"))


def lightness(look: Look) -> float:
    """L* of CIE L*a*b*, of a look as a grey printer has it."""
    grey = np.full(3, mpl.colors.to_rgb(look.color)[0])
    return float(lab(np.where(grey <= 0.04045, grey / 12.92, ((grey + 0.055) / 1.055) ** 2.4))[0])


STEP = 7.0
"""Of L*, by which greys are told apart: three times what can just be seen (2.3: Mahy, Van Eycken, Oosterlinck 1994)."""


def test_steps_of_lightness_tell_apart_what_streams_are_made_of_in_grey() -> None:
    """Without a hatch, which thin bars have no room for."""
    greys = PALETTES["grey"]
    assert min(abs(lightness(greys[a]) - lightness(greys[b])) for a, b in combinations(STREAMS, 2)) > STEP


def test_every_two_looks_differ_in_grey() -> None:
    """By their lightness or their hatch; the shade behind streams too."""
    looks: dict[str, Look] = {**PALETTES["grey"], "shade": Look(style.SHADES["grey"])}
    alike = [
        (one, other)
        for one, other in combinations(looks, 2)
        if looks[one].hatch == looks[other].hatch and abs(lightness(looks[one]) - lightness(looks[other])) < STEP
    ]
    assert not alike


def test_no_finding_has_the_colour_of_a_copy_or_of_a_call() -> None:
    calls = (Style.BLOCKED_BY_COPY, Style.BLOCKED_BY_SYNC, Style.BLOCKED_BY_OTHER, Style.CALL)
    for one in FINDINGS:
        for other in (*STREAMS, *calls):
            pair = [lab(linear_of(style)) for style in (one, other)]
            assert float(np.linalg.norm(pair[0] - pair[1])) > (20 if other in STREAMS else 12), (one, other)


SEEN_WITHOUT = {
    "red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What eyes without one kind of cone make of linear RGB: Machado, Oliveira and Fernandes 2009, severity 1."""


def lab(linear: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB, D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ linear / [0.9505, 1.0, 1.089], 0.0089, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("without", SEEN_WITHOUT)
def test_the_colour_blind_can_tell_apart_what_shares_a_lane(without: str) -> None:
    """By a distance of 10 in L*a*b*, where 2 can just be seen, or by the hatch."""

    def seen(style: Style) -> np.ndarray:
        return lab(np.clip(np.array(SEEN_WITHOUT[without]) @ linear_of(style), 0, 1))

    calls = (Style.BLOCKED_BY_COPY, Style.BLOCKED_BY_SYNC, Style.BLOCKED_BY_OTHER, Style.CALL)
    copies = (Style.HTOD_PAGEABLE, Style.HTOD_PINNED, Style.DTOH_PAGEABLE, Style.DTOH_PINNED, Style.COPY_ON_DEVICE)
    strip = (Style.HIDDEN, Style.EXPOSED, Style.KERNELS_ONLY)
    idle = (Style.IDLE, *(Style[rule.code] for rule in CLAIMING))
    for group in (calls, (Style.KERNEL, Style.COLLECTIVE), (Style.KERNEL, *copies), strip, idle):
        for one, other in combinations(group, 2):
            apart = float(np.linalg.norm(seen(one) - seen(other)))
            assert apart > 10 or LOOKS[one].hatch != LOOKS[other].hatch, (one, other, apart)
    for one, other in product(set(FINDINGS) - {Style.OVL000}, STREAMS):
        assert float(np.linalg.norm(seen(one) - seen(other))) > 10, (one, other)


def linear_of(style: Style) -> np.ndarray:
    """Linear RGB of a style's colour."""
    colour = np.array(mpl.colors.to_rgb(LOOKS[style].color))
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def grey_of(look: Look) -> float:
    red, green, blue = mpl.colors.to_rgb(look.color)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_a_figure_of_very_many_bars_is_pixels_with_text_around_them(tmp_path: Path) -> None:
    events = [
        make.kernel(number * 10.0, 9, stream=stream, correlation=None)
        for stream in range(16) for number in range(2200)
    ]  # fmt: skip
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    save_timeline(trace, tmp_path / "t.svg", look=Appearance(width="page"))
    text = (tmp_path / "t.svg").read_text()
    assert "data:image/png" in text
    assert "stream 3" in text
    assert len(text) < 2_000_000


@pytest.mark.parametrize("font", ["sans", "serif"])
def test_a_scale_bar_replaces_the_axis(font: Font) -> None:
    axes = draw_timeline(open_trace(SAMPLE), scale_bar=True, font=font)
    assert axes.get_xlabel() == ""
    assert list(axes.get_xticks()) == []
    assert "10 ms" in [text.get_text() for text in axes.texts]
    mpl.pyplot.close(axes.figure)


def test_the_name_of_a_range_keeps_its_number() -> None:
    with mpl.rc_context(rc()):
        assert fitting("step", 1.0, "sans-serif") == "step"
        whole = width_in("ProfilerStep#12", "sans-serif")
        assert fitting("ProfilerStep#12", 0.9 * whole, "sans-serif") == "Profiler\N{HORIZONTAL ELLIPSIS}#12"
        assert fitting("ProfilerStep#12", 0.6 * whole, "sans-serif") == ""
        assert fitting("batch #3", 0.6 * width_in("batch #3", "sans-serif"), "sans-serif") == "", "no b...#3"
        assert fitting("a->b->phase_1", 0.6 * width_in("a->b->phase_1", "sans-serif"), "sans-serif") == ""
        assert fitting("$x_1$ \N{GREEK SMALL LETTER ALPHA}", 2.0, "sans-serif")


def test_a_queue_that_does_not_change_is_a_flat_strip(tmp_path: Path) -> None:
    events = [make.call(0, 4, correlation=1), make.call(5, 4, correlation=2),
              make.kernel(1000, 50, correlation=1), make.kernel(1100, 50, correlation=2)]  # fmt: skip
    trace = open_trace(make.write(tmp_path / "t.json", *events))
    *_, queue = lanes(trace, (500 * US, 600 * US), Shown(queue=True))
    assert queue.curve is not None
    assert queue.curve.value.tolist() == [2]
    assert deepest([queue], 500 * US, 600 * US) == 2


def test_the_trace_itself_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(SAMPLE.read_bytes())
    for command in (["export", "--format", "perfetto"], ["report"]):
        result = CliRunner().invoke(app, [*command, str(path), "-o", str(path)])
        assert result.exit_code == 2
        assert "is the trace itself" in result.stderr
    assert path.read_bytes() == SAMPLE.read_bytes()


# Several timelines in one figure


def test_panels_have_their_titles_one_scale_and_one_legend() -> None:
    long, short = (
        analyse(SAMPLES / f"dataloader_train-{name}.json.gz", "dataloader_train")
        for name in ("pageable-blocking", "pinned-non-blocking")
    )
    figure = draw_timelines([("slow", long), ("fast", short)])
    slow, fast = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["slow", "fast"]
    assert slow.get_xlim() == fast.get_xlim() == (0, pytest.approx(long.window.wall_ns / 1e6))
    assert fast.get_xlabel().startswith("time since the start of the window")
    assert (slow.get_xlabel(), len(figure.legends)) == ("", 1)
    said = labels_of_legend(figure)
    assert {"HtoD pageable", "HtoD pinned", "idle: pageable copies"} <= set(said)
    assert not any("OVL" in text for text in said)
    coded = draw_timelines([("slow", long), ("fast", short)], look=Appearance(codes=True))
    assert "OVL001 pageable-copy" in labels_of_legend(coded)


def test_a_figure_without_panels_is_refused() -> None:
    with pytest.raises(ValueError, match="no panels"):
        draw_timelines([])


def test_a_figure_of_two_sides_is_no_higher_than_a_half_page() -> None:
    """A page of a two-column paper has 9 to 9.5 in of text; all rows and the legend are as high as they need be."""
    figure = draw_timelines(what_if(open_trace(SAMPLE), "pin", "gemm_copy"))
    width, height = figure.get_size_inches()
    assert (width, height) == (3.5, pytest.approx(4, abs=0.5))
    figure.draw_without_rendering()
    rows = [(axes.get_window_extent().height / np.diff(axes.get_ylim())[0] / figure.dpi) for axes in figure.axes]
    assert rows == pytest.approx([LANE_IN] * 2, rel=0.15)


def test_the_end_of_a_shorter_side_is_seen() -> None:
    """A line is there, and nothing of the steps that follow."""
    trace = open_trace(SAMPLES / "dataloader_train-pageable-blocking.json.gz")
    found = what_if(trace, "pin", of_occurrence(trace, "step", 3))
    measured, predicted = draw_timelines(found, shown=Shown(queue=True)).axes
    assert measured.get_xlim() == predicted.get_xlim()
    assert not measured.lines
    (line,) = predicted.lines
    end = found.predicted_ns / 1e6
    assert line.get_xdata() == pytest.approx([end, end])
    corners = [path.vertices[:, 0].max() for item in predicted.collections for path in item.get_paths()]
    assert end * 0.99 < max(corners) <= end * (1 + 1e-9)


# Pictures


@pytest.mark.mpl_image_compare(tolerance=2, style="default", savefig_kwargs={"dpi": 100}, baseline_dir="pictures")
@pytest.mark.parametrize("look", ["column", "page", "grey"])
def test_pictures(look: str, monkeypatch: pytest.MonkeyPatch) -> Figure:
    """In the font that matplotlib brings along."""
    monkeypatch.setattr(style, "SANS", ("DejaVu Sans",))
    options: dict[str, Any] = {
        "column": {},
        "page": {"width": "page", "arrows": True, "shown": Shown(queue=True)},
        "grey": {"palette": "grey", "font": "serif", "scale_bar": True},
    }[look]
    figure = draw_timeline(open_trace(SAMPLE), **options).figure
    assert isinstance(figure, Figure)
    return figure


# The command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["timeline", *arguments])


def test_the_command_writes_a_figure_and_prints_a_caption(tmp_path: Path) -> None:
    for name, options in {
        "a.svg": (),
        "b.pdf": ("--range", "round", "--occurrence", "2", "--width", "page", "--queue", "--arrows"),
        "c.png": ("--finding", "ovl001", "--palette", "grey", "--font", "serif", "--scale-bar", "--no-legend"),
        "d.png": ("--step", "1", "--stream", "13", "--show-range", "round"),
        "e.svg": ("--from", "5", "--to", "20", "--kernel-names", "--no-why-idle", "--codes", "--clock", "trace"),
    }.items():
        result = run(str(SAMPLE), "-o", str(tmp_path / name), *options)
        assert result.exit_code == 0, result.output
        assert "hidden under kernels" in result.stdout
        assert (tmp_path / name).stat().st_size > 1000


def test_the_timeline_before_and_after_a_change_is_of_the_wanted_part(tmp_path: Path) -> None:
    trace = open_trace(SAMPLE)
    analysis = analyse(trace)
    for options, window in (
        (("--range", "gemm_copy"), window_of(trace, "gemm_copy")),
        (("--range", "round", "--occurrence", "2"), of_occurrence(trace, "round", 2)),
        (("--step", "1"), window_of(trace, step=1)),
        (("--from", "5", "--to", "20"), between_ms(trace, 5, 20)),
        (("--finding", "OVL001"), view.of_finding(analysis.recorded, analysis.recorded.findings[0])),
        ((), whole(trace)),
    ):
        result = run(str(SAMPLE), "-o", str(tmp_path / "f.svg"), "--what-if", "pin", *options)
        assert result.exit_code == 0, result.output
        found = what_if(trace, "pin", window)
        assert found.sentence in result.stdout
        drawn = (tmp_path / "f.svg").read_text()
        assert f"measured: {time(window.wall_ns)}" in drawn
        assert f"{time(found.predicted_ns)} predicted" in drawn


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-o", "t.gif"), "use .png"),
        (("-o", "t.png", "--range", "nothing"), "no range"),
        (("-o", "t.png", "--occurrence", "1"), "goes with --within"),
        (("-o", "t.png", "--step", "1", "--range", "round"), "one of"),
        (("-o", "t.png", "--finding", "OVL099"), "there is OVL001"),
        (("-o", "t.png", "--from", "9", "--to", "3"), "window from 9 to 3 ms"),
        (("-o", "t.png", "--from", "nan"), "no window"),
        (("-o", "t.png", "--stream", "99"), "there is 7, 13"),
        (("-o", "t.png", "--thread", "99"), "no thread 99"),
        (("-o", "t.png", "--show-range", "nosuch"), "no range"),
        (("-o", "t.png", "--what-if", "magic"), "no change"),
        (("-o", "/nowhere/t.png"), "cannot be written"),
    ],
)
def test_what_cannot_be_drawn_is_said(options: tuple[str, ...], says: str) -> None:
    result = run(str(SAMPLE), *options)
    assert result.exit_code == 2
    assert says in result.stderr
