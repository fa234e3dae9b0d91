"""Samples and events of the host: how they are read, selected, kept and scrubbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import open_trace
from overlapscope.cache.trace_file import read_trace, write_trace
from overlapscope.measure.host_work import HostWorkKind, HostWorkTimes
from overlapscope.model.enums import HostEventKind
from overlapscope.read.events import ARGUMENTS
from overlapscope.scrub.kineto import scrub_kineto
from overlapscope.scrub.texts import Hiding
from overlapscope.timeline.tracks import recorded_tracks
from tests import kineto_maker as make, nsys_maker
from tests.notation import trace_of

STACK = "main (train.py:3);collate (loader.py:41)"
EVENTS = (
    make.call(0, 5, correlation=1),
    make.kernel(10, 20, correlation=1),
    make.sample(STACK, 100, 40, cpu=12.5, count=8),
    make.sample("run (worker.py:9)", 100, 40, tid=2),
    make.host_event("gc.collect (train.py:30)", 200, 50, "gc", generation=2, place="main (train.py:30)"),
    make.host_event("next", 300, 10, "transfer", ready=3),
    make.host_event("new", 320, 10, "of a later version"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make.write(tmp_path / "t.json", *EVENTS)


def test_samples_have_their_stack_and_processor_time(path: Path) -> None:
    samples = open_trace(path).samples.to_dict()
    assert samples["name"] == ["collate (loader.py:41)", "run (worker.py:9)"]
    assert samples["stack"] == [STACK, "run (worker.py:9)"]
    assert samples["samples"] == [8, 1]
    assert samples["cpu_ns"] == [12_500, None]
    assert samples["thread"] == [1, 2]


def test_host_events_have_their_kind(path: Path) -> None:
    trace = open_trace(path)
    events = trace.host_events.to_dict()
    assert events["kind"] == ["garbage collection", "transfer", "other"]
    assert events["generation"] == [2, None, None]
    assert events["ready"] == [None, 3, None]
    assert events["place"] == ["main (train.py:30)", None, None]
    assert not trace.health.has("unknown-category")


def test_a_window_and_tables_select_them(path: Path) -> None:
    assert len(open_trace(path, window=(190_000, 260_000)).host_events) == 1
    chosen = open_trace(path, categories=["samples"])
    assert (len(chosen.samples), len(chosen.host_events), len(chosen.kernels)) == (2, 0, 0)


def test_the_cache_keeps_them(path: Path, tmp_path: Path) -> None:
    trace = open_trace(path)
    with (tmp_path / "t.arrow").open("wb") as file:
        write_trace(trace, file)
    again = read_trace(tmp_path / "t.arrow", str(path))
    assert again.samples.to_dict() == trace.samples.to_dict()
    assert again.host_events.to_dict() == trace.host_events.to_dict()


def test_scrubbing_hides_words_in_stacks_and_keeps_what_is_read(path: Path, tmp_path: Path) -> None:
    scrub_kineto(path, tmp_path / "s.json", Hiding.of(["collate"]))
    trace = open_trace(tmp_path / "s.json")
    assert trace.samples.to_dict()["stack"][0] == "main (train.py:3);*** (loader.py:41)"
    assert trace.samples.cpu_ns.tolist() == [12_500, -1]
    assert trace.host_events.to_dict() == open_trace(path).host_events.to_dict()
    assert {"stack", "samples", "cpu_ns", "kind", "place", "generation", "ready"} <= ARGUMENTS


def test_perfetto_gets_tracks_of_samples(path: Path) -> None:
    tracks = {track.title: track for track in recorded_tracks(open_trace(path))[0]}
    assert list(tracks["samples of thread 1"].names) == ["collate (loader.py:41)"]
    assert "gc.collect (train.py:30)" in tracks["thread 1"].names


def test_nsys_calls_of_the_operating_system_between_cuda_calls(tmp_path: Path) -> None:
    """Of a launching thread and from 1 ms on; the driver's thread only polls."""
    names = dict(enumerate(["cudaLaunchKernel_v7000", "nanosleep", "write", "poll"], 1))
    launch = [nsys_maker.call(1_000_000 * at, 1_000_000 * at + 5_000, 1, correlation=at) for at in (1, 20)]
    waits = [(2, 4, 2, 11), (5, 7, 3, 11), (8, 9, 4, 11), (2, 18, 4, 12), (30, 90, 4, 11)]
    os_calls = [nsys_maker.call(1_000_000 * a, 1_000_000 * b, name, tid=tid) for a, b, name, tid in waits]
    os_calls.append(nsys_maker.call(9_500_000, 9_700_000, 3))
    work = [nsys_maker.work(1_000_000 * at + 6_000, 1_000_000 * at + 9_000, correlation=at) for at in (1, 20)]
    tables = {"CUPTI_ACTIVITY_KIND_RUNTIME": launch, "CUPTI_ACTIVITY_KIND_KERNEL": work, "OSRT_API": os_calls}
    events = open_trace(nsys_maker.write(tmp_path / "t.sqlite", tables, names)).host_events
    kinds = [HostEventKind(kind) for kind in events.kind.tolist()]
    assert kinds == [HostEventKind.SLEEP, HostEventKind.FILE, HostEventKind.OTHER]
    assert events.to_dict()["name"] == ["nanosleep", "write", "poll"]


def test_samples_tell_no_loading_where_ranges_do(tmp_path: Path) -> None:
    """The sample of 5 ms began within the range of 1 ms and saw nothing of what came after it."""
    trace = trace_of(
        tmp_path,
        "thread 1: range enumerate(DataLoader)#_Iter.__next__ 0-1000 | launch 4000-4010 -> stream 7: 4020-4100",
        make.sample("__next__ (torch/utils/data/dataloader.py:9);get (a.py:1)", 0, 5000),
    )
    assert HostWorkTimes(trace).of(HostWorkKind.LOADING, 1, 1).total_ns == 1_000_000
