"""Nsight Systems exports: columns that come and go, numbers that mean other things, processes kept apart."""

from __future__ import annotations

import gzip
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from overlapscope.errors import UnknownTraceFormat, UnusableTrace
from overlapscope.model.enums import ApiKind, Direction, MemoryKind, RangeKind, StreamKind, SyncKind
from overlapscope.model.trace import HealthSeverity
from overlapscope.read.opening import open_trace
from tests import nsys_maker as make

KERNEL, MEMCPY, RUNTIME = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "RUNTIME"))
SYNC, EVENT = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
STRINGS = {
    1: "cudaLaunchKernel_v7000", 2: "cudaMemcpyAsync_v3020", 3: "gemm", 4: "cudaStreamSynchronize_v3020",
    5: "cudaEventQuery_v3020", 6: "cudaStreamWaitEvent_v3020", 7: "cudaEventRecordWithFlags_v11010", 8: "step",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.sqlite"


def test_a_small_export(file: Path) -> None:
    make.write(
        file,
        {
            KERNEL: [make.work(100, 200, demangledName=3, gridX=2, gridY=3, gridZ=1, blockX=64, blockY=1, blockZ=1)],
            MEMCPY: [make.work(50, 150, stream=13, correlation=2, bytes=64, copyKind=1, srcKind=1, dstKind=2)],
            RUNTIME: [make.call(10, 20, 1), make.call(30, 40, 2, correlation=2)],
        },
        STRINGS,
    )
    trace = open_trace(file)
    assert trace.metadata.format == "nsys"
    assert (trace.kernels.process[0], trace.api_calls.thread[0]) == (10, 11)
    assert trace.names.decode(trace.kernels.name_id) == ["gemm"]
    assert trace.names.decode(trace.api_calls.name_id) == ["cudaLaunchKernel", "cudaMemcpyAsync"]
    assert (trace.kernels.blocks[0], trace.kernels.threads_per_block[0]) == (6, 64)
    assert (trace.kernels.call[0], trace.copies.call[0]) == (0, 1)
    assert trace.copies.direction[0] == Direction.HTOD


def test_memory_kinds_are_not_numbered_as_cupti_does(file: Path) -> None:
    kinds = [make.work(10 * n, 10 * n + 5, correlation=n, bytes=1, copyKind=1, srcKind=n, dstKind=2) for n in range(3)]
    make.write(file, {MEMCPY: kinds}, STRINGS)
    assert open_trace(file).copies.source_kind.tolist() == [MemoryKind.PAGEABLE, MemoryKind.PINNED, MemoryKind.DEVICE]


def test_the_files_own_labels_win(tmp_path: Path) -> None:
    labels = [{"id": 1, "name": "X", "label": "Pageable"}, {"id": 2, "name": "Y", "label": "Device"}]
    copies = [make.work(0, 5, bytes=1, copyKind=1, srcKind=1, dstKind=2)]
    trace = open_trace(make.write(tmp_path / "a.sqlite", {MEMCPY: copies, "ENUM_CUDA_MEM_KIND": labels}, STRINGS))
    assert trace.copies.source_kind.tolist() == [MemoryKind.PAGEABLE]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 99])
def test_sync_kinds_follow_the_call_whatever_the_number(file: Path, number: int) -> None:
    syncs = [make.work(10, 20, correlation=1, syncType=number), make.work(30, 40, correlation=2, syncType=number)]
    calls = [make.call(5, 25, 4), make.call(28, 45, 5, correlation=2)]
    make.write(file, {SYNC: syncs, RUNTIME: calls, KERNEL: [make.work(0, 1, correlation=9)]}, STRINGS)
    assert open_trace(file).syncs.kind.tolist() == [SyncKind.STREAM, SyncKind.EVENT_QUERY]


def test_sync_numbers_without_labels_or_calls_say_nothing(file: Path) -> None:
    make.write(file, {SYNC: [make.work(10, 20, correlation=77, syncType=2)], KERNEL: [make.work(0, 1)]}, STRINGS)
    assert open_trace(file).syncs.kind.tolist() == [SyncKind.UNKNOWN]


def test_correlations_of_processes_do_not_mix(file: Path) -> None:
    kernels = [make.work(100, 110, pid=pid, shortName=3) for pid in (10, 20)]
    calls = [make.call(50, 60, 1, pid=10), make.call(55, 65, 1, pid=20, tid=21)]
    make.write(file, {KERNEL: kernels, RUNTIME: calls}, STRINGS)
    trace = open_trace(file)
    assert (trace.api_calls.process[trace.kernels.call] == trace.kernels.process).all()


def test_missing_tables_columns_and_nulls(file: Path) -> None:
    make.write(file, {KERNEL: [{"start": 5, "end": 9, "deviceId": 0, "streamId": None}]}, STRINGS)
    trace = open_trace(file)
    assert (len(trace.kernels), len(trace.copies), trace.kernels.stream[0], trace.kernels.process[0]) == (1, 0, -1, -1)
    assert trace.health.has("no-stream")
    assert trace.health.has("no-process")


def test_none_is_written_as_all_ones(file: Path) -> None:
    make.write(file, {SYNC: [make.work(5, 9, stream=2**32 - 1, syncType=1)], KERNEL: [make.work(0, 1)]}, STRINGS)
    assert open_trace(file).syncs.stream.tolist() == [-1]


def test_all_ones_are_none_in_ids_only(file: Path) -> None:
    """4.29 s and 4 GiB are a time and a size like any other."""
    ones = 2**32 - 1
    copies = [make.work(ones, 2 * ones, bytes=ones, copyKind=1, srcKind=1, dstKind=2)]
    trace = open_trace(make.write(file, {MEMCPY: copies}, STRINGS))
    assert trace.copies.start_ns.tolist() == [ones]
    assert trace.copies.size_bytes.tolist() == [ones]
    assert not trace.health.has("no-time")


def test_page_migrations_are_no_copies_that_were_asked_for(file: Path) -> None:
    moved = [
        make.work(5, 9, stream=0, correlation=0, bytes=4096, copyKind=kind, srcKind=7, dstKind=7) for kind in (11, 12)
    ]
    trace = open_trace(make.write(file, {MEMCPY: moved}, STRINGS))
    assert trace.copies.direction.tolist() == [Direction.UVM_HTOD, Direction.UVM_DTOH]
    assert not trace.health.has("device-work-without-call")


def test_a_call_recorded_twice_counts_once(file: Path) -> None:
    calls = [make.call(10, 50, 30, eventClass=67), make.call(12, 48, 2, eventClass=0)]
    copies = [make.work(60, 70, bytes=1, copyKind=1, srcKind=0, dstKind=2)]
    trace = open_trace(make.write(file, {RUNTIME: calls, MEMCPY: copies}, STRINGS | {30: "cudaMemcpyAsync"}))
    assert len(trace.api_calls) == 1
    assert trace.api_calls.duration_ns.tolist() == [40]
    assert trace.copies.call.tolist() == [0]
    assert trace.health.has("duplicate-calls")


def test_driver_calls_inside_runtime_calls(file: Path) -> None:
    calls = [make.call(10, 50, 2), make.call(12, 48, 31, correlation=2)]
    trace = open_trace(
        make.write(
            file, {RUNTIME: calls, KERNEL: [make.work(0, 1, correlation=9)]}, STRINGS | {31: "cuMemcpyHtoDAsync_v2"}
        )
    )
    assert trace.api_calls.kind.tolist() == [ApiKind.COPY, ApiKind.COPY]
    assert trace.api_calls.parent.tolist() == [-1, 0]


def test_nvtx_ranges(file: Path) -> None:
    tid = make.global_id(10, 11)
    rows = [
        {"start": 0, "end": None, "eventType": 75, "text": "my domain", "domainId": 3, "globalTid": tid},
        {"start": 5, "end": 50, "eventType": 59, "textId": 8, "domainId": 3, "globalTid": tid},
        {"start": 6, "end": 20, "eventType": 60, "text": "start/end", "domainId": 0, "globalTid": tid},
        {"start": 7, "end": None, "eventType": 34, "text": "mark", "domainId": 0, "globalTid": tid},
        {"start": 8, "end": None, "eventType": 59, "text": "never closed", "domainId": 0, "globalTid": tid},
    ]
    trace = open_trace(make.write(file, {"NVTX_EVENTS": rows, KERNEL: [make.work(0, 1)]}, STRINGS))
    assert trace.names.decode(trace.ranges.name_id) == ["step", "start/end"]
    assert trace.names.decode(trace.ranges.domain_id) == ["my domain", ""]
    assert trace.ranges.kind.tolist() == [RangeKind.NVTX] * 2
    assert trace.health.has("open-range")


def test_event_waits_lead_to_the_recorded_stream(file: Path) -> None:
    calls = [
        make.call(10, 11, 7, correlation=1),
        make.call(20, 21, 7, correlation=2),
        make.call(30, 31, 6, correlation=3),
    ]
    records = [
        {
            "deviceId": 0,
            "streamId": stream,
            "correlationId": correlation,
            "globalPid": make.global_id(10),
            "eventId": event,
        }
        for stream, correlation, event in ((5, 1, 100), (6, 2, 200))
    ]
    waits = [make.work(30, 31, stream=9, correlation=3, eventId=100, syncType=2)]
    trace = open_trace(make.write(file, {RUNTIME: calls, EVENT: records, SYNC: waits}, STRINGS))
    assert trace.syncs.source_stream.tolist() == [5]
    assert trace.syncs.record_call.tolist() == [0]
    assert trace.syncs.inferred.tolist() == [False]


def test_streams_know_their_device(file: Path) -> None:
    streams = [{"streamId": 7, "contextId": 2, "processId": 10, "priority": 2**32 - 5, "flag": 3}]
    contexts = [{"processId": 10, "contextId": 2, "deviceId": 4, "nullStreamId": 7}]
    tables = {"TARGET_INFO_CUDA_STREAM": streams, "TARGET_INFO_CUDA_CONTEXT_INFO": contexts, KERNEL: [make.work(0, 1)]}
    table = open_trace(make.write(file, tables, STRINGS)).streams
    assert (table.device[0], table.kind[0], table.priority[0]) == (4, StreamKind.LEGACY_DEFAULT, -5)


def test_whole_graph_traces_say_so(file: Path) -> None:
    make.write(file, {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [{"start": 1, "end": 5}], KERNEL: [make.work(0, 1)]}, STRINGS)
    assert open_trace(file).health.has("whole-graph-trace")


def test_packed_and_plain_are_the_same(tmp_path: Path) -> None:
    plain = make.write(tmp_path / "a.sqlite", {KERNEL: [make.work(5, 9), make.work(1, 4)]}, STRINGS)
    packed = tmp_path / "b.bin"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert open_trace(packed).kernels.start_ns.tolist() == open_trace(plain).kernels.start_ns.tolist() == [1, 5]


def test_the_file_is_not_touched(file: Path) -> None:
    make.write(file, {KERNEL: [make.work(5, 9)]}, STRINGS)
    file.chmod(0o444)
    before = file.read_bytes(), sorted(path.name for path in file.parent.iterdir())
    open_trace(file)
    assert (file.read_bytes(), sorted(path.name for path in file.parent.iterdir())) == before


@pytest.mark.parametrize("name", ["a?b#c %20", os.fsdecode(b"no-utf8-\xff")])
def test_a_path_with_odd_characters(tmp_path: Path, name: str) -> None:
    path = make.write(tmp_path / "a.sqlite", {KERNEL: [make.work(5, 9)]}, STRINGS).rename(tmp_path / f"{name}.sqlite")
    assert len(open_trace(path).kernels) == 1


def test_other_databases_and_damaged_ones(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(UnknownTraceFormat, match="SQLite"):
        open_trace(tmp_path / "other.sqlite")
    whole = make.write(tmp_path / "a.sqlite", {KERNEL: [make.work(n, n + 1) for n in range(3000)]}, STRINGS)
    (tmp_path / "cut.sqlite").write_bytes(whole.read_bytes()[:20_000])
    with pytest.raises(UnusableTrace, match="damaged"):
        open_trace(tmp_path / "cut.sqlite")


@pytest.mark.parametrize("strings", [{1: "else"}, {99: "else"}])
def test_names_without_their_strings_are_damage(tmp_path: Path, strings: dict[int, str]) -> None:
    tables = {
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3"}],
        KERNEL: [make.work(5, 9, shortName=7)],
        RUNTIME: [make.call(1, 2, 5)],
    }
    path = make.write(tmp_path / "lost.sqlite", tables, strings)
    for _ in range(2):  # without these strings, and without the table
        trace = open_trace(path)
        assert next(entry.count for entry in trace.health if entry.code == "lost-names") == 2
        assert trace.health.damaged
        with sqlite3.connect(path) as database:
            database.execute("DROP TABLE IF EXISTS StringIds")


@pytest.mark.parametrize("key", ["globalPid", "streamId", "correlationId"])
def test_a_table_without_a_key_column_is_damage(file: Path, key: str) -> None:
    row = make.work(5, 9)
    row[f"was_{key}"] = row.pop(key)
    (damage,) = [
        each for each in open_trace(make.write(file, {KERNEL: [row]}, STRINGS)).health if "missing" in each.code
    ]
    assert f"no column {key}" in damage.message
    assert damage.severity is HealthSeverity.DAMAGE


@pytest.mark.parametrize("key", ["start", "end"])
def test_a_table_without_its_times_is_refused(file: Path, key: str) -> None:
    row = {name: value for name, value in make.work(5, 9).items() if name != key}
    with pytest.raises(UnusableTrace, match=f"no column {key}"):
        open_trace(make.write(file, {KERNEL: [row], RUNTIME: [make.call(1, 2, 1)]}, STRINGS))


def test_times_at_the_end_of_all_numbers_are_no_times(file: Path) -> None:
    last = 2**63 - 1
    rows = [make.work(last - 9, last), make.work(-last, last), make.work(-(2**63), 5), make.work(100, 200)]
    trace = open_trace(make.write(file, {KERNEL: rows}, STRINGS))
    assert trace.kernels.start_ns.tolist() == [100]
    assert trace.health.has("no-time")


def test_times_are_taken_as_they_are(file: Path) -> None:
    start = 1_790_857_026_000_000_001
    trace = open_trace(make.write(file, {KERNEL: [make.work(start, start + 3)]}, STRINGS))
    assert trace.kernels.start_ns.dtype == np.int64
    assert trace.kernels.start_ns.tolist() == [start]


def test_times_that_are_no_numbers_are_no_times(file: Path) -> None:
    rows = [make.work(100, 200), make.work("1000.5", 2000), make.work("12:34", 99), make.work(None, 5)]  # type: ignore[arg-type]
    trace = open_trace(make.write(file, {KERNEL: rows}, STRINGS))
    assert trace.kernels.start_ns.tolist() == [100]
    assert trace.health.damaged


def test_metadata_of_wrong_types_is_not_known(file: Path) -> None:
    tables = {
        "TARGET_INFO_GPU": [
            {"id": 0, "name": None, "cuDevice": "x", "smCount": b"1"},
            {"id": 1, "name": "G", "cuDevice": 1},
        ],
        "ThreadNames": [{"globalTid": "x"}],
        KERNEL: [make.work(1, 2)],
    }
    trace = open_trace(make.write(file, tables, STRINGS))
    assert [device.number for device in trace.metadata.devices] == [1]


def test_a_view_is_no_table(tmp_path: Path) -> None:
    """One may have no end."""
    source = make.write(tmp_path / "t.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [make.work(5, 9)]})
    with sqlite3.connect(source) as database:
        rows = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end FROM n"
        database.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS {rows}")
    trace = open_trace(source)
    assert (len(trace.kernels), len(trace.copies)) == (1, 0)
