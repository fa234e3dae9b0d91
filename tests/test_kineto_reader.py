"""Kineto traces of every shape, whole and damaged. Long on purpose: one place for every kind of damage."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlapscope.errors import TraceNotFound, UnknownTraceFormat, UnusableTrace
from overlapscope.model.columns import NO_ID
from overlapscope.model.enums import ApiKind, Direction, MemoryKind, SyncKind
from overlapscope.model.trace import HealthSeverity, Trace
from overlapscope.read import bytestream, chunks
from overlapscope.read.chunks import cut, find_events
from overlapscope.read.opening import open_trace
from overlapscope.report.content import audit
from tests import kineto_maker as make

PAIR = [
    make.annotation("step", 0, 100),
    make.call(10, 5, name="cudaMemcpyAsync", correlation=1),
    make.copy(12, 20.5, correlation=1),
    make.call(20, 4, correlation=2),
    make.kernel(25, 10.001, correlation=2),
]


def read(path: Path, data: bytes | str) -> Trace:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_trace(path)


def same(one: Trace, other: Trace) -> bool:
    pairs = zip(one.tables(), other.tables(), strict=True)
    return all(left.to_pandas().equals(right.to_pandas()) for (_, left), (_, right) in pairs)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


def test_a_small_trace(file: Path) -> None:
    trace = read(file, make.text(*PAIR))
    assert trace.copies.start_ns.tolist() == [12_000]
    assert trace.copies.end_ns.tolist() == [32_500]
    assert trace.kernels.end_ns.tolist() == [35_001]
    assert trace.copies.size_bytes.tolist() == [1000]
    assert Direction(int(trace.copies.direction[0])) is Direction.HTOD
    assert MemoryKind(int(trace.copies.source_kind[0])) is MemoryKind.PAGEABLE
    assert trace.copies.process.tolist() == [1]
    assert trace.kernels.blocks.tolist() == [6]
    assert trace.kernels.threads_per_block.tolist() == [64]
    assert trace.api_calls.take(trace.copies.call.astype(np.int64)).correlation.tolist() == [1]
    assert [ApiKind(int(kind)) for kind in trace.api_calls.kind] == [ApiKind.COPY, ApiKind.LAUNCH]
    assert trace.names.decode(trace.ranges.name_id) == ["step"]
    assert trace.metadata.device_name(0) == "Test GPU"
    assert trace.metadata.base_time_ns == 10**18
    assert (trace.health.events_read, trace.health.events_kept) == (5, 5)


def test_content_decides_not_the_suffix(tmp_path: Path) -> None:
    plain = read(tmp_path / "plain.json", make.text(*PAIR))
    assert same(plain, read(tmp_path / "packed.json", gzip.compress(make.text(*PAIR).encode())))
    assert same(plain, read(tmp_path / "plain.json.gz", make.text(*PAIR)))
    assert same(plain, read(tmp_path / "bare.txt", json.dumps(PAIR)))
    assert same(plain, read(tmp_path / "compact.json", json.dumps({"traceEvents": PAIR}, separators=(",", ":"))))
    assert same(plain, read(tmp_path / "bom.json", b"\xef\xbb\xbf  " + make.text(*PAIR).encode()))


def test_keys_after_the_events(file: Path) -> None:
    about = {"traceEvents": PAIR, "deviceProperties": [{"id": 0, "name": "Late GPU"}], "distributedInfo": {"rank": 3}}
    trace = read(file, json.dumps(about))
    assert trace.metadata.device_name(0) == "Late GPU"
    assert trace.metadata.rank == 3
    assert not trace.health.damaged


def test_the_events_key_inside_other_values_is_not_the_list(file: Path) -> None:
    text = json.dumps({"note": 'says "traceEvents": [ here', "inner": {"traceEvents": [1]}, "traceEvents": PAIR})
    assert len(read(file, text).kernels) == 1


def test_empty_list_of_events(file: Path) -> None:
    with pytest.raises(UnusableTrace):
        read(file, make.text())


@pytest.mark.parametrize(
    "content",
    ["", "   ", "hello", "version https://git-lfs.github.com/spec/v1\noid", "42", "PK\x03\x04", "{}".encode("utf-16")],
)
def test_other_files_are_refused_with_a_sentence(file: Path, content: bytes | str) -> None:
    with pytest.raises(UnknownTraceFormat, match=r"trace\.json: .{8,}"):
        read(file, content)


@pytest.mark.parametrize("content", ['{"nodes": [1, 2]}', "{}", '{"traceEvents": 5}'])
def test_json_without_events_is_refused(file: Path, content: str) -> None:
    with pytest.raises(UnknownTraceFormat, match="trace events"):
        read(file, content)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFound):
        open_trace(tmp_path / "nowhere.json")
    with pytest.raises(TraceNotFound, match="directory"):
        open_trace(tmp_path)


def many(count: int, **more: Any) -> list[make.Event]:
    events = []
    for number in range(count):
        events.append(make.call(10 * number, 4, correlation=number + 1))
        events.append(make.kernel(10 * number + 5, 3, correlation=number + 1, **more))
    return events


@pytest.mark.parametrize("size", [1, 64, 257, 1000, 4096])
def test_chunks_may_end_anywhere(file: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    whole = read(file, make.text(*many(200)))
    monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
    monkeypatch.setattr(bytestream, "BLOCK_BYTES", size)
    cut = open_trace(file)
    assert same(whole, cut)
    assert len(cut.kernels) == 200
    assert not cut.health.damaged
    assert cut.health.events_read == 400


def test_names_that_look_like_boundaries(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 300)
    monkeypatch.setattr(bytestream, "BLOCK_BYTES", 300)
    names = ['}, {"ph": "X"', "}, {", '"}]}', '\\"}, {\\"ph\\": ', "], ["]
    events = [make.kernel(10 * number, 3, name=name) for number, name in enumerate(names * 20)]
    trace = read(file, make.text(*events))
    assert trace.names.decode(trace.kernels.name_id) == names * 20
    assert not trace.health.damaged


def test_lists_of_objects_among_the_arguments(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 400)
    monkeypatch.setattr(bytestream, "BLOCK_BYTES", 400)
    events = many(40, inputs=[{"name": "a"}, {"name": "b"}, {"ph": "X", "name": "c"}])
    trace = read(file, make.text(*events))
    assert len(trace.kernels) == 40
    assert not trace.health.damaged


@pytest.mark.parametrize("keep", [0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut(file: Path, keep: float) -> None:
    text = make.text(*many(300))
    trace = read(file, text[: int(len(text) * keep)])
    assert trace.health.has("truncated")
    assert trace.health.damaged
    assert len(trace.kernels) == pytest.approx(300 * keep, abs=6)


def test_a_cut_gzip(file: Path) -> None:
    data = gzip.compress(make.text(*many(3000)).encode())
    trace = read(file, data[: len(data) // 2])
    assert trace.health.has("truncated")
    assert 0 < len(trace.kernels) < 3000


def test_gzip_members_and_trailing_bytes(file: Path) -> None:
    text = make.text(*many(500)).encode()
    half = len(text) // 2
    whole = read(file, text)
    members = gzip.compress(text[:half]) + gzip.compress(text[half:])
    assert same(whole, read(file, members))
    trailing = read(file, members + b"\0\0garbage")
    assert same(whole, trailing)
    assert trailing.health.has("trailing-bytes")
    assert not trailing.health.damaged


def test_damaged_gzip(file: Path) -> None:
    data = bytearray(gzip.compress(make.text(*many(3000)).encode()))
    data[len(data) // 2] ^= 0xFF
    trace = read(file, bytes(data))
    assert trace.health.damaged


BROKEN_NAMES = [
    b'void f<"a">(int)',  # quotes not escaped
    b"C:\\path\\kernel",  # backslashes not escaped
    b"tab\there\x01",  # control characters
    b"\xff\xfe bytes",  # no UTF-8
]


@pytest.mark.parametrize("name", BROKEN_NAMES)
def test_malformed_names_cost_nothing_but_their_spelling(file: Path, name: bytes) -> None:
    events = [*many(20), make.kernel(1000, 7, name="BROKEN"), *many(20)]
    trace = read(file, make.text(*events).encode().replace(b"BROKEN", name))
    assert len(trace.kernels) == 41
    assert 7000 in trace.kernels.duration_ns.tolist()
    assert trace.health.has("repaired-events") or name == b"\xff\xfe bytes"
    assert not trace.health.damaged


@pytest.mark.parametrize("number", ["nan", "NaN", "inf", "-Infinity", "0.-660"])
def test_impossible_numbers(file: Path, number: str) -> None:
    events = [*many(10), make.kernel(123456, 7), *many(10)]
    trace = read(file, make.text(*events).replace("123456", number))
    assert len(trace.kernels) == 20
    assert trace.health.has("no-time")
    assert trace.health.damaged


@pytest.mark.parametrize(
    "value",
    ["nan", "inf(c)", "-nan(ind)", "1.#INF", "0x1f", "+5", ".5", "007", "None", "", "[1, nan,]", '"x",'],
)
def test_a_value_that_is_no_json_is_not_known_and_costs_no_event(file: Path, value: str) -> None:
    events = [*many(10), make.kernel(5, 7, name="a, nan,} b", other=123456), *many(10)]
    trace = read(file, make.text(*events).replace("123456", value))
    assert len(trace.kernels) == 21
    assert "a, nan,} b" in trace.names.values
    assert trace.health.has("repaired-events")
    assert not trace.health.damaged


@pytest.mark.parametrize("key", ["pid", "tid", "ts", "dur", "stream", "correlation", "bytes", "grid"])
@pytest.mark.parametrize("number", ["1e999999999", "-1.5E+999999999", "1e-999999999", "1" * 50_000])
def test_a_number_costs_no_more_than_its_digits(file: Path, key: str, number: str) -> None:
    plain = make.kernel(5, 7, correlation=1)
    events = [*many(3), plain | {key: 987654}, plain | {"args": {key: 987654}}]
    trace = read(file, make.text(*events).replace("987654", number))
    assert len(trace.kernels) == (4 if key in {"ts", "dur"} and number != "1e-999999999" else 5)


def test_quotes_brackets_and_braces_in_a_name_do_not_end_the_list(file: Path) -> None:
    for name in ('f<"a"}], int>', '"}], ', '"}]', "]}"):
        events = [*many(10), make.kernel(5000, 7, name="BROKEN"), *many(10)]
        trace = read(file, make.text(*events).replace("BROKEN", name))
        assert len(trace.kernels) >= 20, name


SEPARATORS = {
    "no comma": "}\n{",
    "stray bracket": "}],\n{",
    "no brace": "},\n",
    "two commas": "},,\n{",
    "junk": "}, @@ \n{",
}


@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
def test_a_damaged_separator_costs_at_most_one_event(file: Path, separator: str) -> None:
    texts = [json.dumps(event) for event in many(30)]
    joined = ",\n".join(texts[:20])[:-1] + separator + texts[20][1:] + ",\n" + ",\n".join(texts[21:])
    trace = read(file, '{"traceEvents": [' + joined + "]}")
    rows = len(trace.kernels) + len(trace.api_calls)
    assert rows >= 59
    assert rows == 60 or trace.health.damaged


def test_many_objects_among_the_arguments(file: Path) -> None:
    trace = read(file, make.text(*many(3, inputs=[{"name": number} for number in range(500)])))
    assert len(trace.kernels) == 3
    assert not trace.health.damaged


def test_events_that_start_with_another_key(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 200)
    monkeypatch.setattr(bytestream, "BLOCK_BYTES", 100)
    events = [{"sf": 1} | event for event in many(100)]
    trace = read(file, make.text(*events))
    assert len(trace.kernels) == 100
    assert not trace.health.damaged


@pytest.mark.parametrize("follows", [', "deviceProperties": [{"id": 0, "na', "", ", 5"])
def test_a_file_cut_behind_its_events_says_so(file: Path, follows: str) -> None:
    trace = read(file, '{"traceEvents": [' + ",".join(json.dumps(event) for event in many(5)) + "]" + follows)
    assert len(trace.kernels) == 5
    assert trace.health.damaged


def test_two_traces_in_one_file_say_so(file: Path) -> None:
    trace = read(file, make.text(*many(5)) + make.text(*many(5)))
    assert len(trace.kernels) == 5
    assert trace.health.has("second-trace")
    assert trace.health.damaged


def test_events_without_their_phase_are_counted(file: Path) -> None:
    events = many(5)
    events[1] = events[1] | {"ph": "Q"}
    trace = read(file, make.text(*events))
    assert len(trace.kernels) == 4
    assert trace.health.has("no-phase")
    assert trace.health.damaged


def test_numbers_too_large_for_their_column_are_not_known(file: Path) -> None:
    trace = read(file, make.text(make.call(0, 1), make.kernel(5, 5, device=2**32), make.kernel(5, 5, device=2**31)))
    assert trace.kernels.device.tolist() == [-1, -1]
    assert trace.health.has("no-device")


@pytest.mark.parametrize("pid", ["1" * 100_000 + "x", "a" * 1_000_000])
def test_absurd_strings_cost_no_time(file: Path, pid: str) -> None:
    assert len(read(file, make.text(*many(200), make.kernel(1, 1) | {"pid": pid, "args": {}})).kernels) == 201


def test_lone_surrogates_stay_printable(file: Path) -> None:
    text = make.text(*many(3)).replace('"k"', '"a\\ud800b"', 1).replace('"cbid"', '"\\ud800"', 1)
    trace = read(file, text)
    assert len(trace.kernels) == 3
    "".join(trace.names.values).encode("utf-8")


def test_fifos_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TraceNotFound, match="no regular file"):
        open_trace(tmp_path / "fifo")
    with pytest.raises(TraceNotFound):
        open_trace(tmp_path / ("x" * 300))
    with pytest.raises(TraceNotFound):
        open_trace("a\0b")


def test_an_unreadable_event_is_lost_alone(file: Path) -> None:
    events = [*many(10), make.kernel(123456, 7), *many(10)]
    trace = read(file, make.text(*events).replace("123456", "@@ ,, }{"))
    assert len(trace.kernels) == 20
    assert trace.health.has("lost-events")
    (warning,) = [entry for entry in trace.health if entry.code == "lost-events"]
    assert warning.severity is HealthSeverity.DAMAGE
    assert warning.count >= 1


def test_negative_durations_are_dropped_and_counted(file: Path) -> None:
    trace = read(file, make.text(*many(9), make.kernel(50, -3)))
    assert len(trace.kernels) == 9
    (warning,) = [entry for entry in trace.health if entry.code == "negative-duration"]
    assert warning.count == 1
    assert warning.share == pytest.approx(1 / 19)


def test_zero_times_on_an_epoch_clock_are_no_times(file: Path) -> None:
    epoch = 1_606_910_596_000_000
    events = [make.kernel(epoch + number * 10, 5) for number in range(20)]
    trace = read(file, make.text(*events, make.kernel(0, 5)))
    assert len(trace.kernels) == 20
    assert trace.health.has("far-off-time")
    zero = read(file, make.text(*[make.kernel(number * 10, 5) for number in range(20)]))
    assert len(zero.kernels) == 20, "a relative clock may start at zero"


@pytest.mark.parametrize("epoch", [0, 1_700_000_000_000_000])
@pytest.mark.parametrize("years", [63, -63])
def test_an_event_decades_off_is_left_out_alone(file: Path, epoch: int, years: int) -> None:
    good = make.kernel(epoch, 5)
    far = years * 31_557_600_000_000
    for event in (make.kernel(epoch + far, 5), make.kernel(epoch, abs(far)), make.kernel(epoch, 1e18)):
        trace = read(file, make.text(good, good, event))
        assert len(trace.kernels) == 2
        assert trace.health.has("far-off-time") or trace.health.has("no-time")
        assert trace.health.damaged
    with pytest.raises(UnusableTrace):
        read(file, make.text(make.kernel(epoch, 1e18)))


def test_sizes_and_numbers_that_cannot_be_are_not_known(file: Path) -> None:
    copies = [make.copy(number, 1, size=size) for number, size in enumerate((-7, 2**62, 2**64 - 10, 5))]
    trace = read(file, make.text(*copies, make.kernel(5, 5, device=-3)))
    assert trace.copies.size_bytes.tolist() == [NO_ID, NO_ID, NO_ID, 5]
    assert next(entry.count for entry in trace.health if entry.code == "impossible-size") == 3
    assert trace.kernels.device.tolist() == [NO_ID]


def test_epoch_times_with_decimals_are_exact(file: Path) -> None:
    text = make.text(*[make.kernel(111, 5)] * 3, baseTimeNanoseconds=None).replace("111", "1606910596297023.123")
    trace = read(file, text)
    assert trace.kernels.start_ns.tolist() == [1_606_910_596_297_023_123] * 3
    assert trace.kernels.end_ns.tolist() == [1_606_910_596_297_028_123] * 3


def test_strings_where_numbers_belong(file: Path) -> None:
    odd = {"ph": "X", "cat": "Kernel", "name": "k", "pid": "0", "tid": "stream 7", "ts": "12.5", "dur": "3", "args": {}}
    listed = odd | {"args": [1, 2]}
    trace = read(file, make.text(odd, listed, odd | {"args": None}))
    assert trace.kernels.start_ns.tolist() == [12_500] * 3
    assert trace.kernels.stream.tolist() == [7] * 3
    assert trace.kernels.device.tolist() == [0] * 3


def test_unknown_categories_are_counted(file: Path) -> None:
    trace = read(file, make.text(*PAIR, PAIR[0] | {"cat": "quantum_op"}))
    assert trace.health.has("unknown-category:quantum_op")
    assert not trace.health.damaged


@pytest.mark.parametrize(
    ("name", "args", "direction", "source", "target"),
    [
        ("Memcpy HtoD (Pinned -> Device)", {}, Direction.HTOD, MemoryKind.PINNED, MemoryKind.DEVICE),
        ("Memcpy DtoH (Device -> Pageable)", {}, Direction.DTOH, MemoryKind.DEVICE, MemoryKind.PAGEABLE),
        ("Memcpy HtoD (Host -> Device)", {}, Direction.HTOD, MemoryKind.UNKNOWN, MemoryKind.DEVICE),
        ("Memcpy PtoP (Device -> Device)", {}, Direction.PTOP, MemoryKind.DEVICE, MemoryKind.DEVICE),
        (
            "Memcpy",
            {"copy kind": "HtoD", "src kind": "Pageable", "dst kind": "Device"},
            Direction.HTOD,
            MemoryKind.PAGEABLE,
            MemoryKind.DEVICE,
        ),
        ("CopyDeviceToHost", {"kind": "DtoH"}, Direction.DTOH, MemoryKind.UNKNOWN, MemoryKind.UNKNOWN),
        ("Memcpy ????", {}, Direction.UNKNOWN, MemoryKind.UNKNOWN, MemoryKind.UNKNOWN),
    ],
)
def test_copy_kinds(
    file: Path, name: str, args: dict[str, str], direction: Direction, source: MemoryKind, target: MemoryKind
) -> None:
    event = make.copy(5, 5)
    event |= {"name": name, "args": event["args"] | args}
    copies = read(file, make.text(event)).copies
    assert (copies.direction[0], copies.source_kind[0], copies.target_kind[0]) == (direction, source, target)


def test_peer_copies_may_lack_a_device(file: Path) -> None:
    event = make.copy(5, 5, kinds="PtoP (Device -> Device)")
    event["args"] = {"fromDevice": 2, "inDevice": 2, "toDevice": 3, "stream": 9, "bytes": 8}
    copies = read(file, make.text(event | {"pid": 0})).copies
    assert (copies.device[0], copies.source_device[0], copies.target_device[0]) == (2, 2, 3)


def test_graph_launches_own_many_ops(file: Path) -> None:
    launch = make.call(0, 5, name="cudaGraphLaunch", correlation=4)
    kernels = [make.kernel(10 + 5 * number, 4, correlation=4) for number in range(6)]
    trace = read(file, make.text(launch, *kernels))
    assert trace.kernels.call.tolist() == [0] * 6
    assert not trace.health.has("shared-correlation")


def test_a_plain_launch_owns_one_kernel(file: Path) -> None:
    kernels = [make.kernel(10 + 5 * number, 4, correlation=4) for number in range(6)]
    trace = read(file, make.text(make.call(0, 5, correlation=4), *kernels))
    assert trace.kernels.call.tolist() == [0, -1, -1, -1, -1, -1]
    assert trace.health.has("shared-correlation")


def test_correlation_zero_joins_nothing(file: Path) -> None:
    trace = read(file, make.text(make.call(0, 5, correlation=0), make.kernel(10, 4, correlation=0)))
    assert trace.kernels.call.tolist() == [-1]
    assert trace.health.has("device-work-without-call")


def test_two_ranks_in_one_file_stay_apart(file: Path) -> None:
    events = []
    for rank, pid in enumerate((100, 200)):
        for number in range(20):
            at = 50 * number + 7 * rank
            events.append(make.call(at, 4, correlation=number + 1, pid=pid, tid=pid))
            events.append(make.kernel(at + 5, 3, correlation=number + 1, device=rank))
    trace = read(file, make.text(*events))
    by_device = {int(device): set(trace.kernels.process[trace.kernels.device == device].tolist()) for device in (0, 1)}
    assert by_device == {0: {100}, 1: {200}}
    owners = trace.api_calls.process[trace.kernels.call]
    assert (owners == trace.kernels.process).all()
    assert not trace.health.has("ambiguous-correlation")


def test_two_processes_on_devices_of_the_same_number(file: Path) -> None:
    events = []
    for pid, first in ((100, 1), (200, 1000)):
        for number in range(10):
            events.append(make.call(50 * number, 4, correlation=first + number, pid=pid, tid=pid))
            events.append(make.kernel(50 * number + 5, 3, correlation=first + number))
    trace = read(file, make.text(*events))
    assert sorted(set(trace.kernels.process.tolist())) == [100, 200]
    assert (trace.kernels.call >= 0).all()
    assert not trace.health.has("guessed-process")


def test_a_driver_call_inside_a_runtime_call(file: Path) -> None:
    """The copy is tied to the driver call; the call that held the thread is the one around it."""
    for inner in (1, 2):
        trace = read(
            file,
            make.text(
                make.call(0, 500, name="cudaMemcpyAsync", correlation=1),
                make.call(5, 490, name="cuMemcpyHtoDAsync_v2", correlation=inner),
                make.copy(10, 480, correlation=inner),
            ),
        )
        assert trace.copies.call.tolist() == [0]
        assert not trace.health.has("ambiguous-correlation")


def test_lost_device_work_is_damage(file: Path) -> None:
    trace = read(file, make.text(*[make.call(10 * number, 4, correlation=number + 1) for number in range(5)]))
    assert trace.health.has("device-work-lost")
    assert trace.health.damaged


def test_sync_kinds_by_the_call(file: Path) -> None:
    trace = read(
        file,
        make.text(
            make.call(0, 5, name="cudaEventQuery", correlation=1),
            make.sync("Event Sync", 1, 2, stream=-1, correlation=1),
            make.call(10, 5, name="cudaStreamSynchronize", correlation=2),
            make.sync("Stream Sync", 11, 2, stream=7, correlation=2),
            make.sync("Context Sync", 20, 2, stream=-1, correlation=99),
        ),
    )
    assert [SyncKind(int(kind)) for kind in trace.syncs.kind] == [
        SyncKind.EVENT_QUERY,
        SyncKind.STREAM,
        SyncKind.DEVICE,
    ]
    assert trace.syncs.stream.tolist() == [-1, 7, -1]


def test_device_clock_far_off_is_said(file: Path) -> None:
    events = [make.call(10 * number, 4, correlation=number + 1) for number in range(5)]
    kernels = [make.kernel(1e11 + 10 * number, 4, correlation=number + 1) for number in range(5)]
    far = read(file, make.text(*events, *kernels, make.copy(5, 5)))
    assert far.health.has("wrong-device-clock")
    assert far.health.damaged
    assert "another clock" in audit(far).verdict
    early = [make.kernel(10 * number - 3, 2, correlation=number + 1) for number in range(1, 5)]
    assert read(file, make.text(*events, *early)).health.has("starts-before-launch")


def test_doubled_device_work_is_said(file: Path) -> None:
    twice = make.kernel(10, 4, correlation=4)
    assert read(file, make.text(make.call(0, 5, correlation=4), twice, twice)).health.has("duplicate-device-work")


def test_progress_reaches_the_end(file: Path) -> None:
    read(file, make.text(*many(3000)))
    seen: list[tuple[int, int]] = []
    open_trace(file, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (file.stat().st_size, file.stat().st_size)


def test_a_header_that_is_no_json_is_given_up_before_the_whole_file_is_in_memory() -> None:
    """The events are read in pieces all the same."""
    events = b'{"ph": "X", "cat": "kernel"},\n' * 40_000
    taken = 0

    def blocks() -> Iterator[bytes]:
        nonlocal taken
        yield b'{"broken": [1, "traceEvents": ['
        for _ in range(100):
            taken += len(events)
            yield events

    opening = find_events(blocks())
    assert opening is not None
    assert not opening.header_ok
    assert opening.rest.startswith(b'{"ph"')
    assert taken < 20_000_000 < 100 * len(events)


def test_nothing_but_space_is_given_up() -> None:
    blocks = iter([b" " * 2**19] * 100)
    assert find_events(blocks) is None
    assert next(blocks, b"")


@pytest.mark.parametrize("start", ["", '{"name": "', '{"ph": "X", "args": {"a": ['])
@pytest.mark.parametrize("filler", [" ", "a", "[", "{},", '{"a":'])
def test_what_is_no_event_does_not_fill_the_memory(start: str, filler: str) -> None:
    block = filler.encode() * (2**20 // len(filler))
    chunks_of_it = cut(start.encode(), iter([block] * 12))
    assert max(map(len, chunks_of_it)) <= chunks.LONGEST_EVENT + len(block) + len(start) + 2


@pytest.mark.parametrize("long", [[make.cpu_op("a", 1, 2) | {"args": {"a": "b" * 2**19}}] * 80, []])
def test_only_a_part_of_the_text_is_in_memory(file: Path, long: list[make.Event]) -> None:
    """Neither long events nor much space between them add up."""
    space = "" if long else " " * (40 << 20)
    file.write_text(f'{{"traceEvents": [{space}{",".join(map(json.dumps, [*long, make.kernel(1, 2)]))}]}}')
    tracemalloc.start()
    try:
        assert len(open_trace(file, processes=1).kernels) == 1
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < file.stat().st_size * 0.75


def test_a_header_full_of_event_lists_is_given_up(file: Path) -> None:
    with pytest.raises(UnusableTrace):
        read(file, '{"a": {' + '"traceEvents":[' * 100_000)


@pytest.mark.parametrize("unit", ['{"ph":"X"', '{"ph":', '{"ph":["a",'])
def test_events_that_never_end_cost_no_more_than_their_text(file: Path, unit: str) -> None:
    """Each of them is tried with what is near, not with all that follows."""
    trace = read(file, '{"traceEvents": [' + unit * 30_000 + ", " + json.dumps(make.kernel(1, 2)) + "]}")
    assert len(trace.kernels) == 1


def test_a_gap_before_the_end_of_the_list_costs_no_time(file: Path) -> None:
    events = ",".join(json.dumps(event) for event in many(3))
    assert len(read(file, f'{{"traceEvents": [{events}{" " * 400_000}x').kernels) == 3


def test_a_collective_has_its_process_group_and_its_number_in_it(tmp_path: Path) -> None:
    plain = make.kernel(0, 5, correlation=1)
    reduce = make.kernel(6, 5, correlation=2, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    reduce["args"] |= {"Process Group Name": "3", "Process Group Ranks": "[0, 2]", "Seq": 17}
    kernels = open_trace(make.write(tmp_path / "t.json", plain, reduce)).kernels
    assert kernels.names.decode(kernels.group_id) == ["", "3 [0, 2]"]
    assert kernels.sequence.tolist() == [-1, 17]
