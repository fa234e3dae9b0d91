"""Opened traces that are kept: the same as read, never stale, never damaged, never too many."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from overlapscope import Trace, open_trace
from overlapscope.cache import store
from overlapscope.cache.store import SETTLED_NS, VARIABLE, Store, cache_folder, content_of, file_state
from overlapscope.cli.main import app
from overlapscope.read import opening as reading
from tests.conftest import PAIRS, SAMPLES

FIRST, SECOND = (SAMPLES / f"gemm_copy-{memory}-copy-first-blocking-same.json.gz" for memory in ("pageable", "pinned"))
KINDS = [
    FIRST,
    SAMPLES / "prefetcher-blocking.sqlite.gz",
    PAIRS / "ragged_batches-faulty.json.gz",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, which keeps everything."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(store, "LEAST_READ_S", 0)
    monkeypatch.setattr(store, "SETTLED_NS", 0)
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return Path(shutil.copy(FIRST, tmp_path / "trace.json.gz"))


def reopened(path: Path) -> Trace:
    return open_trace(path, cache=True)


def assert_same(one: Trace, other: Trace) -> None:
    assert one.names.values == other.names.values
    assert (repr(one.metadata), one.health) == (repr(other.metadata), other.health)
    for (name, table), (_, same) in zip(one.tables(), other.tables(), strict=True):
        for spec in table.columns():
            values, others = getattr(table, spec.name), getattr(same, spec.name)
            assert (values.dtype, values.flags.writeable) == (others.dtype, False)
            np.testing.assert_array_equal(values, others, f"{name}.{spec.name}")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The traces that were read, and not taken from the cache."""
    found: list[Path] = []
    read = reading.read_file

    def noting(path: Path, options: Any) -> Trace:
        found.append(path)
        return read(path, options)

    monkeypatch.setattr(reading, "read_file", noting)
    return found


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.name.split(".")[0])
def test_what_is_kept_is_what_was_read(path: Path, asked: list[Path]) -> None:
    reopened(path)
    assert_same(reopened(path), open_trace(path))
    assert asked == [path, path]  # first, and without the cache


def test_a_copy_of_a_file_is_found_by_its_content(trace: Path, asked: list[Path]) -> None:
    other = Path(shutil.copy(trace, trace.with_name("other.json.gz")))
    reopened(trace)
    assert reopened(other).metadata.path == str(other)
    assert asked == [trace]


@pytest.mark.parametrize("settled_ns", [0, SETTLED_NS])
def test_another_content_is_never_taken_for_this_one(
    trace: Path, settled_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where size and time of change are the same."""
    monkeypatch.setattr(store, "SETTLED_NS", settled_ns)
    plain = gzip.decompress(trace.read_bytes())
    trace.write_bytes(plain)
    about = trace.stat()
    first = reopened(trace)
    assert_same(reopened(trace), first)
    trace.write_bytes(plain.replace(b"Pageable", b"Pinned  "))
    os.utime(trace, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert trace.stat().st_size == about.st_size
    again = reopened(trace)
    assert_same(again, open_trace(trace))
    assert (again.copies.source_kind != first.copies.source_kind).any()


def test_a_file_that_has_just_changed_is_known_by_its_content_alone(
    trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another change may come within the resolution of its times."""
    monkeypatch.setattr(store, "SETTLED_NS", 10**9)
    state = file_state(trace)
    assert state is not None
    kept = Store(folder)
    kept.note(trace, state, "content", state.changed_ns + 10**9 - 1)
    assert not kept.seen(trace, state)
    kept.note(trace, state, "content", state.changed_ns + 10**9)
    assert kept.seen(trace, state) == "content"
    assert not kept.seen(trace, replace(state, inode=state.inode + 1))


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reading.read_file

    def growing(path: Path, options: Any) -> Trace:
        found = read(path, options)
        path.write_bytes(SECOND.read_bytes())
        return found

    monkeypatch.setattr(reading, "read_file", growing)
    monkeypatch.setattr(store, "content_of", _after(trace.stat().st_size, trace))
    reopened(trace)
    assert not Store(folder).entries()


def test_a_file_that_changes_after_it_was_hashed_is_not_kept(
    trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, hashed = reading.read_file, threading.Event()

    def late(path: Path, options: Any) -> Trace:
        assert hashed.wait(10)
        time.sleep(0.01)  # the state is compared right after the hash
        path.write_bytes(SECOND.read_bytes())
        return read(path, options)

    def content(path: Path) -> str:
        found = content_of(path)
        hashed.set()
        return found

    monkeypatch.setattr(reading, "read_file", late)
    monkeypatch.setattr(store, "content_of", content)
    reopened(trace)
    assert not Store(folder).entries()


def _after(size: int, trace: Path) -> Callable[[Path], str]:
    def content(path: Path) -> str:
        latest = time.monotonic() + 10
        while trace.stat().st_size == size and time.monotonic() < latest:
            pass
        return "content"

    return content


def _flip(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize("harm", [_flip, lambda data: data[: len(data) // 2], lambda data: b""])
def test_a_damaged_entry_is_read_again(
    trace: Path, folder: Path, harm: Callable[[bytes], bytes], asked: list[Path]
) -> None:
    reopened(trace)
    (entry,) = Store(folder).entries()
    whole = entry.path.read_bytes()
    entry.path.write_bytes(harm(whole))
    assert_same(reopened(trace), open_trace(trace))
    assert entry.path.read_bytes() == whole
    assert len(asked) == 3


def test_what_other_code_read_is_not_used(trace: Path, asked: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    reopened(trace)
    monkeypatch.setattr(store, "reader_version", lambda: "another")
    reopened(trace)
    assert asked == [trace, trace]


def test_the_last_used_stay_where_there_is_no_room(
    tmp_path: Path, folder: Path, asked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    plain = gzip.decompress(FIRST.read_bytes())
    for number, path in enumerate(paths):
        path.write_bytes(plain + b"\n" * number)
        reopened(path)
        for age, entry in enumerate(Store(folder).entries()):
            os.utime(entry.path, (number - age, number - age))
    reopened(paths[0])  # is used last now
    size = max(entry.size_bytes for entry in Store(folder).entries())
    (folder / ".writing-left").mkdir()
    os.utime(folder / ".writing-left", (0, 0))
    with monkeypatch.context() as little:
        little.setattr(store, "MOST_BYTES", 2 * size)
        Store(folder).evict()
    assert not (folder / ".writing-left").exists()
    assert len(list((folder / "seen").iterdir())) == 2
    asked.clear()
    for path in (paths[0], paths[2], paths[1]):
        reopened(path)
    assert asked == [paths[1]]


def test_many_writers_and_readers_at_once(trace: Path, folder: Path) -> None:
    """Some of them with so little room that they remove each other's entries."""
    program = (
        "import sys\n"
        "from overlapscope import open_trace\n"
        "from overlapscope.cache import store\n"
        "store.LEAST_READ_S, store.MOST_BYTES = 0, int(sys.argv[1])\n"
        "print(*{len(open_trace(sys.argv[2], cache=True).kernels) for _ in range(15)})\n"
    )
    command = [sys.executable, "-c", program]
    running = [
        subprocess.Popen([*command, size, str(trace)], stdout=subprocess.PIPE, text=True)
        for size in ("1000000000", "0", "1000000000")
    ]
    found = [(process.communicate()[0].strip(), process.returncode) for process in running]
    assert found == [(str(len(open_trace(trace).kernels)), 0)] * 3
    assert not list(folder.glob(".writing-*"))


def test_a_full_disk_costs_nothing_but_the_cache(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write_trace", full)
    assert_same(reopened(trace), open_trace(trace))
    assert not Store(folder).entries()


def test_a_quick_trace_is_not_kept_nor_one_that_nobody_asked_for(
    trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_trace(trace)
    monkeypatch.setattr(store, "LEAST_READ_S", 3600)
    reopened(trace)
    assert not folder.exists()


def test_where_the_cache_lies(tmp_path: Path) -> None:
    assert cache_folder({VARIABLE: str(tmp_path)}) == tmp_path
    assert cache_folder({VARIABLE: "off"}) is None
    if sys.platform == "linux":
        assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "overlapscope"
        assert cache_folder({"XDG_CACHE_HOME": "not/absolute"}) == Path.home() / ".cache" / "overlapscope"


def test_the_commands(trace: Path, folder: Path, asked: list[Path]) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    without = run("copies", str(trace), "--no-cache")
    assert not folder.exists()
    assert run("copies", str(trace)) == run("copies", str(trace)) == without
    assert len(asked) == 2
    assert "1 trace, " in (shown := run("cache"))
    assert "trace.json.gz" in shown
    assert "1 trace removed" in run("cache", "--clear")
    assert [file for file in folder.rglob("*") if file.is_file()] == []
    assert "0 traces" in run("cache")
