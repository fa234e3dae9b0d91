"""What may be published of a trace, and that it is still the same trace."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from overlapscope.cli.main import app
from overlapscope.errors import OutputError, TraceNotFound, UnknownTraceFormat, UnusableTrace
from overlapscope.fitness.fitness import fitness_of
from overlapscope.model.trace import TABLES, Trace
from overlapscope.read.opening import is_database, open_trace
from overlapscope.scrub.kineto import scrub_kineto
from overlapscope.scrub.nsys import scrub_nsys
from overlapscope.scrub.texts import Hiding
from tests import kineto_maker as make, nsys_maker
from tests.conftest import opened

NAMES = {"frames"}  # tables of which the names are what is scrubbed


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def same_figures(one: Trace, other: Trace) -> None:
    for table, kind in TABLES.items():
        first, second = getattr(one, table), getattr(other, table)
        assert len(first) == len(second), table
        for spec in kind.columns():
            if spec.name != "name_id":
                np.testing.assert_array_equal(getattr(first, spec.name), getattr(second, spec.name), (table, spec.name))


def same_statements(one: Trace, other: Trace) -> None:
    """The same is wrong with both, and both can answer the same."""
    assert one.health == other.health
    assert fitness_of(one).to_dict() == fitness_of(other).to_dict()


def test_header_and_trailer_keep_technical_keys_only(tmp_path: Path) -> None:
    trace = {
        "schemaVersion": 1,
        "host_name": "secret-host",
        "distributedInfo": {"rank": 3, "pg_config": "secret"},
        "traceEvents": [make.kernel(5, 5)],
        "traceName": "/home/secret/trace.json",
        "username": "secret",
        "cuda_driver_version": 13000,
    }
    (tmp_path / "in.json").write_text(json.dumps(trace))
    dropped = scrub_kineto(tmp_path / "in.json", tmp_path / "out.json.gz")
    assert b"secret" not in content(tmp_path / "out.json.gz")
    assert {"header host_name", "header username", "header traceName"} <= dropped.keys()
    scrubbed = open_trace(tmp_path / "out.json.gz")
    assert (len(scrubbed.kernels), scrubbed.metadata.rank) == (1, 3)
    assert scrubbed.metadata.versions["cuda_driver_version"] == "13000"


def test_events_keep_what_is_known_and_lose_their_folders(tmp_path: Path) -> None:
    frame = {"cat": "python_function", "ph": "X", "name": "/home/secret/net/train.py(7): step", "ts": 1, "dur": 9}
    op = {
        "cat": "cpu_op",
        "ph": "X",
        "name": "aten::add",
        "pid": 1,
        "tid": 1,
        "ts": 2,
        "dur": 3,
        "args": {"Concrete Inputs": ["secret"], "Input Dims": [[1]]},
        "secret": 1,
    }
    command = {
        "ph": "M",
        "name": "process_name",
        "pid": 1,
        "tid": 0,
        "args": {"name": "/opt/secret/python train.py --token=secret"},
    }
    source = make.write(tmp_path / "in.json", frame | {"pid": 1, "tid": 1}, op, command)
    scrub_kineto(source, tmp_path / "out.json")
    text = content(tmp_path / "out.json")
    assert b"secret" not in text
    events = json.loads(text)["traceEvents"]
    assert [event["name"] for event in events] == ["train.py(7): step", "aten::add", "process_name"]
    assert events[1]["args"] == {"Input Dims": [[1]]}
    assert events[2]["args"] == {"name": "python"}


def test_words_by_name_are_hidden_wherever_they_stand(tmp_path: Path) -> None:
    source = make.write(tmp_path / "in.json", make.kernel(5, 5) | {"name": "Customer_gemm<customer>"})
    scrub_kineto(source, tmp_path / "out.json", Hiding.of(["customer", ""]))
    assert json.loads(content(tmp_path / "out.json"))["traceEvents"][0]["name"] == "***_gemm<***>"


def test_bytes_behind_a_packed_export_are_said_to_be_left_out(tmp_path: Path) -> None:
    plain = nsys_maker.write(tmp_path / "a.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(5, 9)]}, {1: "k"})
    packed = tmp_path / "a.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()) + b"more")
    assert scrub_nsys(packed, tmp_path / "b.sqlite")["trailing-bytes"] == 1
    assert len(open_trace(tmp_path / "b.sqlite").kernels) == 1


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ("/home/ann/x/train.py(3): f", "train.py(3): f"),
        ("C:\\Users\\ann\\x\\train.py(3): f", "train.py(3): f"),
        ("/venv/lib/python3.12/site-packages/torch/nn/m.py(3): f", "torch/nn/m.py(3): f"),
        ("run /opt/ann/tool --x=/data/ann/y.bin", "run tool --x=y.bin"),
        ("torch/nn/modules/module.py(10): _call_impl", "torch/nn/modules/module.py(10): _call_impl"),
        ("epoch 1/10", "epoch 1/10"),
        ("void f<a / b>(int*)", "void f<a / b>(int*)"),
        ("load /home/ann", "load ~"),
        ("HOME=/home/ann/", "HOME=~/"),
        ("/home/ann/My Project/train.py(3): f", "train.py(3): f"),
        ("file:///home/ann/x.bin", "x.bin"),
        ("//nfs/ann/a.py and \\\\ann-server\\share\\x.py", "a.py and x.py"),
        ("~ann/x ../ann/x.py", "x x.py"),
        ("ann@host.org:/data/x", "***:x"),
        ("API_TOKEN=abc --password: xyz", "API_TOKEN=*** --password: ***"),
    ],
)
def test_folders_of_absolute_paths_are_left_out(text: str, published: str) -> None:
    assert Hiding()(text) == published


def test_what_cannot_be_read_does_not_get_through(tmp_path: Path) -> None:
    good = json.dumps(make.kernel(5, 5))
    (tmp_path / "in.json").write_text(
        f'{{"traceEvents": [{good}, {{"ph": "X", "name": "sec"ret"}}, {good}, {{"ph": "se'
    )
    dropped = scrub_kineto(tmp_path / "in.json", tmp_path / "out.json")
    assert (dropped["LOST: lost-events"], dropped["LOST: truncated"]) == (2, 1)
    assert open_trace(tmp_path / "out.json").health.damaged
    assert len(json.loads(content(tmp_path / "out.json"))["traceEvents"]) == 2


def test_what_is_nested_is_looked_at_too(tmp_path: Path) -> None:
    event = make.kernel(5, 5)
    event["args"] |= {"Input type": ["/home/secret/x", "float"], "grid": {"env": "secret"}, "block": [1, 2, 3]}
    event["id"] = {"secret": 1}
    header = {
        "deviceProperties": [
            {"id": 0, "name": "Test GPU", "hostname": "secret", "env": {"A": "secret"}, "x": ["secret"]}
        ],
        "distributedInfo": "secret",
        "displayTimeUnit": {"secret": "secret"},
        "overlapscope": {"schema": "overlapscope.recording/1", "argv": ["secret"], "versions": {"torch": "2.11"}},
    }
    names = [{"ph": "M", "name": name, "pid": "python x.py --token secret", "tid": 1, "ts": 0,
              "args": {"name": "python x.py --token secret", "labels": "TOKEN=secret python"}}
             for name in ("thread_name", "process_labels")]  # fmt: skip
    source = make.write(tmp_path / "in.json", event, *names, **header)
    scrub_kineto(source, tmp_path / "out.json")
    assert b"secret" not in content(tmp_path / "out.json")
    trace = open_trace(tmp_path / "out.json")
    assert trace.metadata.device_name(0) == "Test GPU"
    assert trace.metadata.recording is not None
    assert trace.metadata.recording.versions == {"torch": "2.11"}


def test_numbers_keep_their_text(tmp_path: Path) -> None:
    """At 1e15 us a float loses nanoseconds."""
    text = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1695835535123262.479, "dur": 2.5e1, "args": {"device": 0, "stream": 7, "x": NaN}}]}'  # noqa: E501
    (tmp_path / "in.json").write_text(text)
    scrub_kineto(tmp_path / "in.json", tmp_path / "out.json")
    scrubbed = content(tmp_path / "out.json").decode()
    assert '"ts":1695835535123262.479' in scrubbed
    assert '"dur":2.5e1' in scrubbed
    assert "NaN" not in scrubbed


@pytest.mark.parametrize("damage", ["cut", "cut gzip", "header", "trailer", "list cut"])
def test_a_damaged_trace_stays_damaged(damage: str, tmp_path: Path) -> None:
    """A scrubbed trace may not look whole where its source did not."""
    events = [make.kernel(5 + each, 1) | {"name": f"k{each * 7919}"} for each in range(900)]
    trailer = ', "traceName": "x", "displayTimeUnit": "ms"}'
    text = f'{{"schemaVersion": 1, "traceEvents": {json.dumps(events)}{trailer}'
    raw = {
        "cut": text[:-200].encode(),
        "cut gzip": gzip.compress(text.encode())[:-3000],
        "header": text.replace('"schemaVersion": 1', '"schemaVersion": 1 oops').encode(),
        "trailer": text[:-4].encode(),
        "list cut": json.dumps(events)[:-90].encode(),
    }[damage]
    (tmp_path / "in").write_bytes(raw)
    assert list(open_trace(tmp_path / "in").health)
    result = CliRunner().invoke(app, ["scrub", str(tmp_path / "in"), str(tmp_path / "out.json")])
    assert (result.exit_code, "could not be read" in result.stderr) == (1, True)
    scrubbed = open_trace(tmp_path / "out.json")
    if damage == "list cut":  # a list has no place to say more
        assert scrubbed.health.has("truncated")
    else:
        same_statements(open_trace(tmp_path / "in"), scrubbed)


def test_hiding_a_word_leaves_what_the_reader_needs(tmp_path: Path) -> None:
    source = make.write(tmp_path / "in.json", make.kernel(5, 5) | {"name": "kernel_e"})
    dropped = scrub_kineto(source, tmp_path / "out.json", Hiding.of(["kernel", "e"]))
    assert dropped["changed texts"] >= 1
    trace = open_trace(tmp_path / "out.json")
    assert trace.names.decode(trace.kernels.name_id) == ["***_***"]


DROPPED = "Exceeded max GPU buffer count"
DAMAGED = {
    "a list as a name": json.dumps(make.kernel(5, 5) | {"name": [1], "args": [1, {"a": 2}]}),
    "an object as a category": json.dumps(make.kernel(5, 5) | {"cat": {"a": 1}}),
    "lists in lists": json.dumps(make.kernel(5, 5)).replace('"grid": [', '"grid": [' + "[" * 300 + "]" * 300 + ", "),
    "no JSON": json.dumps(make.kernel(5, 5)).replace('"ph"', '"x": nan(ind), "y": , "ph"', 1),
    "a quote in a name": json.dumps(make.kernel(5, 5, name="BROKEN")).replace("BROKEN", 'a"b'),
    "bytes that are no text": json.dumps(make.kernel(5, 5, name="BROKEN")).replace("BROKEN", "\udcff"),
    "a time without end": json.dumps(make.kernel(5, 5)).replace('"ts": 5', '"ts": 1e999999999'),
    "one without a time, and one that is lost": json.dumps(make.kernel(5, 5) | {"ts": None}) + ', {"ph": "X" oops}',
    "an event that was cut": json.dumps(make.kernel(5, 5))[:-9],
}


@pytest.mark.parametrize("event", DAMAGED.values(), ids=DAMAGED)
def test_of_a_damaged_trace_all_that_can_be_read_stays(event: str, tmp_path: Path) -> None:
    good = [json.dumps(make.kernel(5 + number, 5, correlation=number)) for number in range(4)]
    text = '{"traceEvents": [' + ",\n".join([*good, event, *good]) + "]}"
    (tmp_path / "in.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    scrub_kineto(tmp_path / "in.json", tmp_path / "out.json")
    json.loads(content(tmp_path / "out.json"))
    one, other = open_trace(tmp_path / "in.json"), open_trace(tmp_path / "out.json")
    same_figures(one, other)
    same_statements(one, other)


def test_messages_about_dropped_records_stay(tmp_path: Path) -> None:
    """And nothing else of what the profilers said."""
    messages = [f"[secret] {DROPPED} secret", "secret", 7]
    kineto = make.write(
        tmp_path / "in.json", make.kernel(5, 5), WARNING=messages, ERROR=["CUDA events might be missing"]
    )
    diagnostics = [{"timestamp": 1, "text": text} for text in messages]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(5, 9)], "DIAGNOSTIC_EVENT": diagnostics}
    nsys = nsys_maker.write(tmp_path / "in.sqlite", tables)
    for scrub, source in ((scrub_kineto, kineto), (scrub_nsys, nsys)):
        scrub(source, tmp_path / "out")
        assert b"secret" not in content(tmp_path / "out")
        assert open_trace(source).health.has("records-dropped")
        same_statements(open_trace(source), open_trace(tmp_path / "out"))


def test_of_an_export_numbers_as_texts_and_names_in_place_stay(tmp_path: Path) -> None:
    rows = [nsys_maker.work(5, 9, shortName="gemm", correlation="7"), nsys_maker.work("11", 19)]  # type: ignore[arg-type]
    calls = [nsys_maker.call(1, 2, "cudaLaunchKernel", correlation=7)]  # type: ignore[arg-type]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": rows, "CUPTI_ACTIVITY_KIND_RUNTIME": calls}
    source = nsys_maker.write(tmp_path / "in.sqlite", tables)
    with sqlite3.connect(source) as database:
        database.execute("UPDATE StringIds SET value = CAST(x'ff41' AS TEXT)")
    scrub_nsys(source, tmp_path / "out.sqlite")
    same_figures(open_trace(source), open_trace(tmp_path / "out.sqlite"))


def test_of_an_export_texts_in_another_encoding_are_scrubbed(tmp_path: Path) -> None:
    ranges = [{"start": 1, "end": 9, "eventType": 59, "globalTid": 1, "text": "load /home/secret/x.bin"}]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(5, 9, shortName=3)], "NVTX_EVENTS": ranges}
    source = nsys_maker.write(tmp_path / "utf-8.sqlite", tables, {3: "gemm"})
    with sqlite3.connect(source) as plain, sqlite3.connect(tmp_path / "in.sqlite") as other:
        other.execute("PRAGMA encoding = 'UTF-16be'")
        other.executescript("".join(plain.iterdump()))
    scrub_nsys(tmp_path / "in.sqlite", tmp_path / "out.sqlite")
    scrubbed = open_trace(tmp_path / "out.sqlite")
    assert scrubbed.names.decode(scrubbed.ranges.name_id) == ["load x.bin"]
    same_figures(open_trace(source), scrubbed)
    assert "secret".encode("utf-16-be") not in content(tmp_path / "out.sqlite")


def test_a_bare_list_of_events_stays_one(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps([make.kernel(5, 5)]))
    scrub_kineto(tmp_path / "in.json", tmp_path / "out.json")
    assert isinstance(json.loads(content(tmp_path / "out.json")), list)


def test_an_empty_trace_stays_one(tmp_path: Path) -> None:
    source = make.write(tmp_path / "in.json")
    scrub_kineto(source, tmp_path / "out.json")
    assert json.loads(content(tmp_path / "out.json"))["traceEvents"] == []


def test_an_export_keeps_what_is_read_and_drops_the_rest(tmp_path: Path) -> None:
    source = nsys_maker.write(
        tmp_path / "in.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(5, 9, demangledName=3)],
            "NVTX_EVENTS": [{"start": 1, "end": 9, "eventType": 59, "globalTid": 1, "text": "load /home/secret/x.bin"}],
            "TARGET_INFO_SYSTEM_ENV": [{"name": "TOKEN", "value": "secret"}],
            "CUPTI_ACTIVITY_KIND_MEMSET": [nsys_maker.work(9, 10, cmdline="secret", blob=b"secret")],
            "ENUM_X": [{"id": 0, "name": "a", "label": "b", "note": "secret"}],
            "META_DATA_EXPORT": [
                {"name": "EXPORT_USER", "value": "secret"},
                {"name": "EXPORT_PRODUCT_VERSION", "value": "1.2"},
                {"name": "EXPORT_PRODUCT_NAME", "value": "/home/secret/nsys"},
            ],
            "TARGET_INFO_GPU": [{"id": 0, "name": "Test GPU", "uuid": "secret"}],
            "ThreadNames": [{"nameId": name, "globalTid": name} for name in (4, 5, 6, None)],
        },
        {3: "gemm", 4: "secret", 5: "pt_autograd_0", 6: "pt_autograd_0 secret"},
    )
    with sqlite3.connect(source) as connection:
        connection.execute("CREATE VIEW v AS SELECT 'secret'")
    connection.close()
    dropped = scrub_nsys(source, tmp_path / "out.sqlite.gz")
    assert b"secret" not in content(tmp_path / "out.sqlite.gz")
    assert dropped["table TARGET_INFO_SYSTEM_ENV"] == 1
    trace = open_trace(tmp_path / "out.sqlite.gz")
    assert trace.names.decode(trace.kernels.name_id) == ["gemm"]
    assert trace.names.decode(trace.ranges.name_id) == ["load x.bin"]
    assert trace.metadata.tool.endswith("1.2")
    assert list(trace.metadata.thread_names.values()) == ["pt_autograd_0"]
    with sqlite3.connect(source) as untouched:
        assert untouched.execute("SELECT COUNT(*) FROM TARGET_INFO_SYSTEM_ENV").fetchone() == (1,)
    untouched.close()


def test_scrubbing_leaves_the_figures_alone(corpus_trace: Path, tmp_path: Path) -> None:
    """Of every public trace, each number in each table is the same afterwards."""
    scrub = scrub_nsys if is_database(corpus_trace) else scrub_kineto
    scrub(corpus_trace, tmp_path / "out.gz")
    scrubbed = open_trace(tmp_path / "out.gz")
    same_figures(opened(corpus_trace), scrubbed)
    same_statements(opened(corpus_trace), scrubbed)


@pytest.mark.parametrize(
    ("make_source", "error"),
    [
        (lambda path: None, TraceNotFound),
        (lambda path: path.write_text("no trace"), UnknownTraceFormat),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"x" * 5000), UnusableTrace),
    ],
    ids=["missing", "not a trace", "damaged database"],
)
def test_what_cannot_be_scrubbed_is_said_and_leaves_nothing(
    make_source: Callable[[Path], object], error: type[Exception], tmp_path: Path
) -> None:
    source = tmp_path / "in"
    make_source(source)
    with pytest.raises(error):
        (scrub_nsys if source.exists() and is_database(source) else scrub_kineto)(source, tmp_path / "out.json")
    assert {path.name for path in tmp_path.iterdir()} <= {"in"}


def test_an_output_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    source = make.write(tmp_path / "in.json", make.kernel(5, 5))
    with pytest.raises(OutputError, match="cannot be written"):
        scrub_kineto(source, tmp_path / "none" / "out.json")


def test_the_command_tells_what_it_left_out(tmp_path: Path) -> None:
    source = make.write(tmp_path / "in.json", make.kernel(5, 5), host_name="secret")
    result = CliRunner().invoke(app, ["scrub", str(source), str(tmp_path / "out.json"), "--hide", "gemm"])
    assert result.exit_code == 0
    assert "header host_name (1)" in result.stderr
    missing = CliRunner().invoke(app, ["scrub", str(tmp_path / "none"), str(tmp_path / "out.json")])
    assert (missing.exit_code, "no such file" in missing.stderr) == (2, True)


def test_a_layout_that_no_reader_takes_is_refused(tmp_path: Path) -> None:
    source = nsys_maker.write(tmp_path / "in.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys_maker.work(5, 9)]})
    with sqlite3.connect(source) as database:
        database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN start TO began")
    with pytest.raises(UnusableTrace, match="layout of no known version"):
        scrub_nsys(source, tmp_path / "out.sqlite")
    assert not (tmp_path / "out.sqlite").exists()
