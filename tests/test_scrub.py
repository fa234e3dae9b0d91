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
from overlapscope.model.trace import TABLES, Trace
from overlapscope.read.opening import is_database, open_trace
from overlapscope.scrub.kineto import scrub_kineto
from overlapscope.scrub.nsys import scrub_nsys
from overlapscope.scrub.texts import Hiding
from tests import kineto_maker as make
from tests import nsys_maker

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
    assert dropped["unreadable events"] == 2
    assert len(json.loads(content(tmp_path / "out.json"))["traceEvents"]) == 2


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
            "META_DATA_EXPORT": [
                {"name": "EXPORT_USER", "value": "secret"},
                {"name": "EXPORT_PRODUCT_VERSION", "value": "1.2"},
            ],
            "TARGET_INFO_GPU": [{"id": 0, "name": "Test GPU", "uuid": "secret"}],
        },
        {3: "gemm", 4: "secret"},
    )
    dropped = scrub_nsys(source, tmp_path / "out.sqlite.gz")
    assert b"secret" not in content(tmp_path / "out.sqlite.gz")
    assert dropped["table TARGET_INFO_SYSTEM_ENV"] == 1
    trace = open_trace(tmp_path / "out.sqlite.gz")
    assert trace.names.decode(trace.kernels.name_id) == ["gemm"]
    assert trace.names.decode(trace.ranges.name_id) == ["load x.bin"]
    assert trace.metadata.tool == "Nsight Systems 1.2"
    with sqlite3.connect(source) as untouched:
        assert untouched.execute("SELECT COUNT(*) FROM TARGET_INFO_SYSTEM_ENV").fetchone() == (1,)
    untouched.close()


def test_scrubbing_leaves_the_figures_alone(corpus_trace: Path, tmp_path: Path) -> None:
    """Of every public trace, each number in each table is the same afterwards."""
    scrub = scrub_nsys if is_database(corpus_trace) else scrub_kineto
    scrub(corpus_trace, tmp_path / "out.gz")
    same_figures(open_trace(corpus_trace), open_trace(tmp_path / "out.gz"))


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
