"""Traces for other tools: what they require of a file, and that it says what the trace does."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from overlapscope import analyse, open_trace
from overlapscope.analysis.analysis import diagnose
from overlapscope.cli.main import app
from overlapscope.errors import OutputError
from overlapscope.export.perfetto import append_perfetto, perfetto_events, save_perfetto
from overlapscope.export.tables import save_tables
from overlapscope.formatting import time
from overlapscope.model.columns import NO_ID
from overlapscope.timeline.bars import nesting_levels
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES, audited

Events = list[dict[str, Any]]
SOME = [
    *(SAMPLES / f"gemm_copy-pageable-copy-first-non-blocking-side.{suffix}" for suffix in ("json.gz", "sqlite.gz")),
    SAMPLES / "prefetcher-non-blocking.json.gz",
    SAMPLES / "dataloader_train-pageable-blocking.sqlite.gz",
    CASES / "graph_parallel_branch.json.gz",
]


def ns(event: dict[str, Any]) -> tuple[int, int]:
    """Begin and end as Perfetto has them: whole ns."""
    start = round(event["ts"] * 1000)
    return start, start + round(event.get("dur", 0) * 1000)


def by_kind(events: Events) -> dict[str, Events]:
    found = defaultdict(list)
    for event in events:
        found[event["ph"]].append(event)
    return found


def check_rules(events: Events) -> None:
    """What Perfetto requires: slices of a thread nest, flows begin and end in slices, everything has a name."""
    kinds = by_kind(events)
    assert set(kinds) <= {"M", "X", "C", "s", "f"}
    named = {(event["pid"], event["tid"]) for event in kinds["M"] if event["name"] == "thread_name"}
    processes = {event["pid"] for event in kinds["M"] if event["name"] == "process_name"}
    assert len({thread for _, thread in named}) == len(named), "threads have numbers of their own in all processes"
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in kinds["X"]:
        assert event["dur"] >= 0
        assert isinstance(event["name"], str)
        slices[event["pid"], event["tid"]].append(ns(event))
    assert set(slices) <= named
    for spans in slices.values():
        open_until: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], "slices nest"
            open_until.append(end)
    starts = {place: np.array(sorted(span[0] for span in spans)) for place, spans in slices.items()}
    for kind in ("s", "f"):
        for event in kinds[kind]:
            own = starts[event["pid"], event["tid"]]
            assert ns(event)[0] in own[np.searchsorted(own, ns(event)[0]) :][:1], "flows are bound to slices"
    assert sorted(event["id"] for event in kinds["s"]) == sorted(event["id"] for event in kinds["f"])
    begins = {event["id"]: event["ts"] for event in kinds["s"]}
    assert all(begins[event["id"]] <= event["ts"] for event in kinds["f"]), "arrows lead forward"
    for event in kinds["C"]:
        assert event["pid"] in processes
        assert all(isinstance(value, int) for value in event["args"].values())


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_perfetto_s_rules_hold_and_nothing_is_lost(path: Path) -> None:
    trace = open_trace(path)
    events = list(perfetto_events(diagnose(trace)))
    check_rules(events)
    kinds = by_kind(events)
    titles = {event["tid"]: event["args"]["name"] for event in kinds["M"] if event["name"] == "thread_name"}
    groups = {event["pid"]: event["args"]["name"] for event in kinds["M"] if event["name"] == "process_name"}
    recorded = [event for event in kinds["X"] if groups[event["pid"]] != "overlapscope"]
    host = sum(len(getattr(trace, name)) for name in ("api_calls", "cpu_ops", "ranges", "frames", "overheads"))
    assert len(recorded) == host + sum(len(table) for table in trace.device_work)
    calls = trace.api_calls.start_ns
    issued = [(table.call != NO_ID) & (table.start_ns >= calls[table.call]) for table in trace.device_work]
    assert len(kinds["s"]) == sum(int(rows.sum()) for rows in issued)
    assert {title for title in titles.values() if title.startswith("stream")} >= {"stream 7"}


def test_any_trace_can_be_exported(corpus_trace: Path) -> None:
    check_rules(list(perfetto_events(audited(corpus_trace).diagnosis)))


def small(tmp_path: Path) -> Path:
    """A pageable copy of 60 us that blocks its thread, exposed for 20; a kernel beside it, and one after it."""
    return make.write(
        tmp_path / "t.json",
        make.annotation("outer", 0, 200),
        make.call(10, 4, correlation=1),
        make.kernel(20, 40, correlation=1, name="gemm <b>"),
        make.call(15, 60, name="cudaMemcpyAsync", correlation=2),
        make.copy(17, 60, correlation=2, size=4096),
        make.call(190, 4, correlation=3),
        make.kernel(200, 50, correlation=3),
    )


def test_what_is_in_the_file(tmp_path: Path) -> None:
    save_perfetto(diagnose(open_trace(small(tmp_path))), tmp_path / "out.json.gz")
    written = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))
    events: Events = written["traceEvents"]
    named = {event["name"]: event for event in events if event["ph"] == "X"}
    assert named["gemm <b>"]["ts"] == 20
    assert named["gemm <b>"]["dur"] == 40
    copy = next(event for event in events if event.get("args", {}).get("bytes") == 4096)
    assert copy["args"].pop("correlation") > 0
    assert copy["args"] == {"bytes": 4096, "direction": "HtoD", "from": "pageable", "to": "device"}
    hidden = [ns(event) for event in events if event["name"] == "copy hidden by kernels"]
    exposed = [ns(event) for event in events if event["name"] == "copy exposed"]
    assert hidden == [(20_000, 60_000)]
    assert exposed == [(17_000, 20_000), (60_000, 77_000)]
    assert ns(named["blocked by cudaMemcpyAsync"]) == (19_000, 75_000)
    idle = [event for event in events if event["name"] == "OVL001 pageable-copy" and "because" in event["args"]]
    assert sum(end - start for start, end in map(ns, idle)) == 56_000, "as long as the call blocked the host"
    flying = [(event["ts"], event["args"]["value"]) for event in events if "copies in flight" in event["name"]]
    assert flying == [(17, 1), (77, 0)]
    flows = [(event["ph"], event["id"], event["ts"]) for event in events if event["ph"] in "sf"]
    assert sorted((number, at) for _, number, at in flows if at in (15, 17)) == [(flows[-1][1], 15), (flows[-1][1], 17)]


def test_the_same_trace_gives_the_same_file(tmp_path: Path) -> None:
    found = diagnose(open_trace(SOME[0]))
    for name in ("a.json.gz", "b.json.gz"):
        save_perfetto(found, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_findings_are_tracks_with_advice() -> None:
    found = diagnose(open_trace(SOME[0]))
    events = list(perfetto_events(found))
    titles = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    for finding in found.findings:
        (tid,) = (tid for tid, title in titles.items() if title.startswith(f"{finding.rank} {finding.code}"))
        slices = [event for event in events if event["ph"] == "X" and event["tid"] == tid]
        assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in pairwise(slices)), "overlaps are merged"
        assert sum(event["args"]["copies"] for event in slices) == len(finding.copies)
        assert slices[0]["args"]["says"] == finding.message
        assert slices[0]["args"]["fix"] == finding.fix


def test_each_slice_of_a_finding_says_what_happened_in_it(tmp_path: Path) -> None:
    found = diagnose(open_trace(small(tmp_path)))
    (first,) = (finding for finding in found.findings if finding.code == "OVL001")
    (event,) = (event for event in perfetto_events(found) if event.get("args", {}).get("says") == first.message)
    assert ns(event) == (15_000, 77_000)
    assert event["name"] == f"1 copy, 4 KiB, GPU idle {time(first.idle_ns)}"


APPENDED = [SOME[0], SAMPLES / "prefetcher-non-blocking.json.gz"]


@pytest.mark.parametrize("path", APPENDED, ids=lambda path: path.name)
def test_what_was_recorded_survives_an_appended_export(path: Path, tmp_path: Path) -> None:
    recorded = gzip.decompress(path.read_bytes())
    found = diagnose(open_trace(path))
    append_perfetto(found, path, tmp_path / "out.json")
    written = (tmp_path / "out.json").read_bytes()
    theirs, both = json.loads(recorded), json.loads(written)
    added = both["traceEvents"][: len(both["traceEvents"]) - len(theirs["traceEvents"])]
    both["traceEvents"] = both["traceEvents"][len(added) :]
    assert both == theirs
    begin = written.index(b"[", written.index(b'"traceEvents"')) + 1
    assert written[:begin] == recorded[:begin]
    assert written.endswith(recorded[begin:])
    check_rules(added)
    used = {event.get(key) for event in theirs["traceEvents"] for key in ("pid", "tid")}
    assert not used & {event[key] for event in added for key in ("pid", "tid") if event.get(key)}
    alone = [event for event in perfetto_events(found) if event["ph"] == "X" and event["pid"] == 1]
    again = [event for event in added if event["ph"] == "X"]
    assert [event["name"] for event in again] == [event["name"] for event in alone]
    assert [event["dur"] for event in again] == pytest.approx([event["dur"] for event in alone], abs=0.125)
    names = {event["name"]: event for event in theirs["traceEvents"] if event["ph"] == "X"}
    idle = next(event for event in added if "GPU idle" in event["name"])
    assert any(event["ts"] <= idle["ts"] <= event["ts"] + event["dur"] for event in names.values()), "on the same axis"


def test_times_since_1970_stay_whole_in_an_appended_export(tmp_path: Path) -> None:
    since = 1_700_000_000_000_000
    events = [
        make.call(since + 15, 60, name="cudaMemcpyAsync", correlation=2),
        make.copy(since + 17, 60, correlation=2),
        make.call(since + 90, 4, correlation=3),
        make.kernel(since + 100, 50, correlation=3),
    ]
    path = make.write(tmp_path / "t.json", *events)
    append_perfetto(diagnose(open_trace(path)), path, tmp_path / "out.json")
    kinds = by_kind(json.loads((tmp_path / "out.json").read_text())["traceEvents"])
    assert all(isinstance(event["ts"], int) and event["ts"] >= since for event in kinds["X"])
    check_rules([*kinds["M"], *kinds["X"][: -len(events)]])


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": [ ]}', '[{"ph": "i", "ts": 1, "name": "]"}]'])
def test_bare_and_empty_lists_stay_json(text: str, tmp_path: Path) -> None:
    path = small(tmp_path)
    found = diagnose(open_trace(path))
    (tmp_path / "other.json").write_text(text)
    append_perfetto(found, tmp_path / "other.json", tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    events = written if isinstance(written, list) else written["traceEvents"]
    assert {event["ph"] for event in events} >= {"M", "X"}
    assert len(events) > len(json.loads(text))


def test_nothing_is_appended_to_what_is_no_whole_kineto_file(tmp_path: Path) -> None:
    path = small(tmp_path)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(OutputError, match="truncated"):
        append_perfetto(diagnose(open_trace(path)), path, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()
    database = SAMPLES / "dataloader_train-pageable-blocking.sqlite.gz"
    with pytest.raises(OutputError, match="no Kineto"):
        append_perfetto(diagnose(open_trace(database)), database, tmp_path / "out.json")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=25))
def test_slices_of_a_level_nest(spans: list[tuple[int, int]]) -> None:
    start = np.array([min(span) for span in spans], np.int64)
    end = np.array([max(span) for span in spans], np.int64)
    found = nesting_levels(start, end)
    for one in range(len(spans)):
        for other in range(one):
            if found[one] == found[other]:
                apart = end[one] <= start[other] or end[other] <= start[one]
                inside = start[one] <= start[other] <= end[other] <= end[one]
                around = start[other] <= start[one] <= end[one] <= end[other]
                assert apart or inside or around
    assert not len(spans) or found.min() == 0


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_tables_are_files_with_the_same_names(form: Literal["parquet", "csv"], tmp_path: Path) -> None:
    analysis = analyse(SOME[0])
    trace, found = analysis.trace, analysis.diagnosis
    files = save_tables(analysis, tmp_path / "tables", form)
    used = {name for name, table in trace.tables() if len(table)}
    assert {file.stem for file in files} == used | {"metadata", "gaps", "findings"}
    read = pd.read_parquet if form == "parquet" else pd.read_csv
    frames = {name: read(tmp_path / "tables" / f"{name}.{form}") for name in (*used, "gaps", "findings")}
    assert list(frames["findings"]) == list(found.to_pandas()) == list(analysis.findings.to_pandas())
    assert list(frames["gaps"]) == list(analysis.gaps.to_pandas())
    assert set(frames["copies"]) == set(trace.copies.to_pandas()) | set(analysis.copies.to_pandas())
    assert list(frames["kernels"]) == list(trace.kernels.to_pandas())
    assert frames["copies"]["start_ns"].tolist() == trace.copies.start_ns.tolist()
    assert frames["findings"]["message"].tolist() == [finding.message for finding in found.findings]
    about = json.loads((tmp_path / "tables" / "metadata.json").read_text())
    assert about["devices"][0]["name"] == "NVIDIA H200"
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        save_tables(analysis, tmp_path / "file", form)


def test_parquet_has_units(tmp_path: Path) -> None:
    save_tables(analyse(SOME[0]), tmp_path)
    copies = pq.read_table(tmp_path / "copies.parquet")
    assert copies.schema.field("size_bytes").metadata[b"unit"] == b"bytes"
    assert copies.schema.field("no_kernel_ns").metadata[b"unit"] == b"ns"


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    target = tmp_path / "t.json"
    result = runner.invoke(app, ["export", str(SOME[1]), "--format", "perfetto", "-o", str(target)])
    assert result.exit_code == 0, result.output
    assert "ui.perfetto.dev" in result.stderr
    check_rules(json.loads(target.read_text())["traceEvents"])
    result = runner.invoke(app, ["export", str(SOME[1]), "--format", "parquet", "-o", str(tmp_path / "tables")])
    assert result.exit_code == 0, result.output
    result = runner.invoke(app, ["export", str(SOME[0]), "--format", "perfetto", "--append", "-o", str(target)])
    assert result.exit_code == 0, result.output
    for options in (
        ["-o", "/nowhere/t.json"],
        ["-o", str(target), "--range", "nothing"],
        ["-o", str(target), "--append"],
    ):
        result = runner.invoke(app, ["export", str(SOME[1]), "--format", "perfetto", *options])
        assert result.exit_code == 2
        assert result.stderr.startswith("overlapscope: ")
