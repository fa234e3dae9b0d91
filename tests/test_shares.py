"""One trace, read in every way: alone or by several processes, through floats, text or the repairing parser."""

from __future__ import annotations

import gzip
import io
import json
import random
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from overlapscope.model.trace import Trace
from overlapscope.read import bytestream, chunks, helpers, values
from overlapscope.read.events import FORMS
from overlapscope.read.helpers import answer_for
from overlapscope.read.opening import open_trace
from overlapscope.read.selection import Selection
from tests import kineto_maker as make
from tests.conftest import CASES, SAMPLES

COUNT = 120


def same(one: Trace, other: Trace) -> bool:
    """Whether everything in two traces of one file is equal."""
    tables = zip(one.tables(), other.tables(), strict=True)
    return (
        one.names.values == other.names.values
        and str(one.metadata) == str(other.metadata)
        and tuple(one.health) == tuple(other.health)
        and (one.health.events_read, one.health.events_kept) == (other.health.events_read, other.health.events_kept)
        and all(
            np.array_equal(getattr(left, spec.name), getattr(right, spec.name))
            for (_, left), (_, right) in tables
            for spec in left.columns()
        )
    )


def events(begin_us: float = 0.0, count: int = COUNT) -> list[make.Event]:
    """Calls, kernels and ranges whose names and ids do not repeat, so that they fill a file even when packed."""
    chance, result = random.Random(1), []  # noqa: S311
    for number in range(count):
        ts = round(begin_us + 20 * number + chance.random(), 3)
        result.append(make.call(ts, 4.25, correlation=number + 1, tid=number % 3))
        result.append(make.kernel(ts + 5, 3.001, name=f"k{chance.getrandbits(400):x}", correlation=number + 1))
        result.append(make.annotation(f"step {number % 9}", ts, 15.5))
    return result


def with_text(where: float, text: str) -> str:
    """A trace with this text in the place of one of its events."""
    here = events()
    here.insert(int(where * len(here)), make.annotation("HERE", 0, 0))
    whole = make.text(*here)
    start = whole.rindex("\n    {", 0, whole.index("HERE")) + 5
    return whole[:start] + text + whole[json.JSONDecoder().raw_decode(whole, start)[1] :]


def event_text(**changed: object) -> str:
    return json.dumps(make.kernel(5, 5) | changed)


EPOCH_US = 1_716_974_123_616_068.25
THREAD = '{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "late"}}'
BROKEN = '{"ph": "X", @@ ,, }{'
FILES = {
    "plain": make.text(*events()),
    "times since 1970": make.text(*events(EPOCH_US)),
    "times since 1970 from the middle on": make.text(*events(), *events(EPOCH_US)),
    "header behind": json.dumps({"traceEvents": events(), "deviceProperties": [{"id": 0, "name": "Late"}]}),
    "bare list": json.dumps(events()),
    "cut": make.text(*events())[:-1000],
    "two traces": make.text(*events()) * 2,
    "objects in lists": make.text(*[event | {"args": {"inputs": [{"name": 1}] * 3}} for event in events()]),
    "odd keys": make.text(*[{"sf": 1} | event for event in events()]),
    "an endless name": with_text(0.5, event_text(name="x" * 20_000)),
    "a thread, an unknown category and no phase": with_text(
        0.7, f"{THREAD}, {event_text(cat='odd')}, {event_text(ph='Q')}"
    ),
    "damaged early": with_text(0.1, BROKEN),
    "damaged late": with_text(0.8, BROKEN),
    "damaged twice": with_text(0.6, f"{BROKEN}, {', '.join(map(json.dumps, events(count=20)))}, {BROKEN}"),
    "repaired late": with_text(0.7, event_text().replace('"k"', '"a "quoted" name"')),
}


class InThisProcess(helpers.Helper):
    """A helper without a process, so that the sizes of this one hold for it too."""

    def __init__(self, share: helpers.Share, selection: Selection) -> None:
        self.share, self._selection = share, selection

    def __exit__(self, *_: object) -> None:
        pass

    def answer(self) -> helpers.Answer | None:
        answer = answer_for(self.share, self._selection)
        if answer is None:
            return None
        written = io.BytesIO()
        helpers.send(written, answer)
        written.seek(0)
        return helpers.receive(written)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, chunks and shares of a size that makes some of a short file."""
    monkeypatch.setattr(bytestream, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(bytestream, "PACKED_BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(bytestream, "UNPACKED_BLOCK_BYTES", 1 << 11)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1 << 11)
    monkeypatch.setattr(helpers, "LEAST_BYTES", 1 << 12)
    monkeypatch.setattr(helpers, "START_BYTES", 0)
    monkeypatch.setattr(helpers, "Helper", InThisProcess)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", FILES)
def test_several_processes_read_what_one_reads(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(FILES[name], encoding="utf-8")
    alone = open_trace(path, processes=1)
    for processes in (2, 3, 7):
        assert len(helpers.shares_of(path, 0, helpers.Options(processes=processes))) == processes
        assert same(alone, open_trace(path, processes=processes))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", [None, "cut", "flipped early", "flipped late"])
def test_packed_files_too(tmp_path: Path, damage: str | None) -> None:
    path, data = tmp_path / "trace.json.gz", bytearray(gzip.compress(FILES["plain"].encode()))
    if damage == "cut":
        del data[len(data) * 3 // 4 :]
    elif damage is not None:
        data[len(data) * (1 if "early" in damage else 3) // 4] ^= 0xFF
    path.write_bytes(data)
    for processes in (2, 5):
        assert len(helpers.shares_of(path, 0, helpers.Options(processes=processes))) == processes
        assert same(open_trace(path, processes=1), open_trace(path, processes=processes))


def test_helpers_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, answers = make.write(tmp_path / "trace.json", *events(count=1500)), []
    ask = helpers.Helper.answer
    monkeypatch.setattr(helpers, "LEAST_BYTES", 1 << 19)
    monkeypatch.setattr(helpers, "START_BYTES", 0)
    monkeypatch.setattr(helpers.Helper, "answer", lambda helper: answers.append(ask(helper)) or answers[-1])
    read: list[int] = []
    assert same(open_trace(path, processes=1), open_trace(path, processes=2, progress=lambda at, _: read.append(at)))
    (answer,) = answers
    assert answer is not None
    assert answer.whole
    assert answer.decoded.events > 1000
    assert read[-1] == path.stat().st_size
    (tmp_path / "python").symlink_to("/bin/false")
    for executable, shares in (("", 1), ("/bin/false", 1), (str(tmp_path / "python"), 2), ("/nowhere/python", 2)):
        monkeypatch.setattr(helpers.sys, "executable", executable)
        assert len(helpers.shares_of(path, 0, helpers.Options(processes=2))) == shares
        assert same(open_trace(path, processes=1), open_trace(path, processes=2)), "helpers that do not start"


def test_small_traces_need_no_helpers(tmp_path: Path) -> None:
    assert len(helpers.shares_of(make.write(tmp_path / "t.json", *events()), 0, helpers.Options(processes=8))) == 1


def test_what_is_no_event_does_not_fill_the_memory_of_a_share() -> None:
    text = chunks.Text((place << 20, b"a" * (1 << 20)) for place in range(16))
    parts = [len(part) for part in text.share(1 << 20)]
    assert sum(parts) == 16 << 20
    assert max(parts) <= chunks.LONGEST_EVENT + (1 << 20)


def every_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a trace as it comes, with all times as text, with the repairing parser alone, and in small chunks."""
    fast = open_trace(path)
    with monkeypatch.context() as patch:
        patch.setattr(values, "FLOAT_EXACT_US", 0.0)
        assert same(fast, open_trace(path))
    with monkeypatch.context() as patch:
        for exact, form in list(FORMS.items()):
            patch.setitem(FORMS, exact, replace(form, decode=_refuse))
        assert same(fast, open_trace(path))
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", 1 << 13)
        assert same(fast, open_trace(path))


def _refuse(_chunk: bytes) -> None:
    raise msgspec.DecodeError


@pytest.mark.parametrize("path", [*sorted(SAMPLES.glob("*side.json.gz"))[:4], *sorted(CASES.glob("*.gz"))[:8]], ids=str)
def test_every_way_to_read_gives_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every_way(path, monkeypatch)


def test_every_way_to_read_a_public_trace_gives_the_same(corpus_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ".json" in corpus_trace.name:
        every_way(corpus_trace, monkeypatch)
