"""Traces in a few lines of text, for tests.

A line is a thread, with what it does one after the other and what that makes a GPU do; times are in us:

    thread 1: launch 0-5 -> stream 7: 10-110 | sync 112-115
    thread 2: copy 64MB pageable HtoD 20-320 -> stream 13: 25-318

A line without ``thread N:`` goes on with the thread before it. What a thread does:

    launch                   a kernel; ``launch gemm`` names it
    copy 4KiB pinned DtoH    an asynchronous copy; ``memcpy ...`` one that blocks by its name
    peer-copy 4KiB 0 to 1    a copy from one GPU to another
    record A, wait A, event-sync A
                             an event; the trace knows of which record a wait is where both name one
    sync, stream-sync, event-sync
                             a synchronisation; the trace knows of which stream where one follows
    cudaMalloc               any call by its name
    op aten::add, range my step, overhead
                             an operator, a named range, what the profiler did for itself

After ``->`` comes what a call makes a GPU do: ``gpu 1 stream 7: 10-110``, on GPU 0 where none is named; a kernel's
``of 132 blocks`` after that. A call's correlation is its number in the text, from 1 on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlapscope import open_trace
from overlapscope.model.trace import Trace
from tests import kineto_maker as make

_CALLS = {
    "launch": "cudaLaunchKernel",
    "copy": "cudaMemcpyAsync",
    "memcpy": "cudaMemcpy",
    "peer-copy": "cudaMemcpyPeerAsync",
    "record": "cudaEventRecord",
    "wait": "cudaStreamWaitEvent",
    "sync": "cudaDeviceSynchronize",
    "stream-sync": "cudaStreamSynchronize",
    "event-sync": "cudaEventSynchronize",
}
_ENDS = {"HtoD": "HtoD ({} -> Device)", "DtoH": "DtoH (Device -> {})", "DtoD": "DtoD (Device -> Device)"}
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_TIMES = r"([\d_.]+)-([\d_.]+)"
_ITEM = re.compile(rf"(.+?) {_TIMES}(?: -> (.+))?")
_PLACE = re.compile(rf"(?:gpu (\d+) )?stream (\d+)(?:: {_TIMES})?(?: of (\d+) blocks)?")


def trace_of(tmp_path: Path, *parts: str | make.Event, **header: Any) -> Trace:
    """The trace of some text, with further events and fields of the file's header."""
    text = "\n".join(part for part in parts if isinstance(part, str))
    further = [part for part in parts if not isinstance(part, str)]
    return open_trace(make.write(tmp_path / "t.json", *events(text), *further, **header))


def events(text: str) -> list[make.Event]:
    """The events of some text, as Kineto writes them."""
    reader, thread = _Reader(), 1
    for line in text.splitlines():
        if named := re.match(r"\s*thread (\d+):", line):
            thread = int(named[1])
        for item in line[named.end() if named else 0 :].split("|"):
            if item.strip():
                reader.add(item.strip(), thread)
    return reader.events


@dataclass
class _Reader:
    """What was read so far, with stream and correlation of each event that was recorded."""

    events: list[make.Event] = field(default_factory=list)
    calls: int = 0
    recorded: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, item: str, thread: int) -> None:
        match = _ITEM.fullmatch(item)
        assert match is not None, f"{item!r} is not of the form WHAT BEGIN-END"
        (what, *words), times = match[1].split(), _times(match[2], match[3])
        if what == "op":
            self.events.append(make.cpu_op(*words, *times, tid=thread))
        elif what == "range":
            self.events.append(make.annotation(" ".join(words), *times, tid=thread))
        elif what == "overhead":
            self.events.append(make.overhead(*times))
        else:
            self.calls += 1
            name = _CALLS.get(what, what)
            self.events.append(make.call(*times, name=name, tid=thread, correlation=self.calls))
            if match[4]:
                self.events += self._on_device(what, words, times, match[4])

    def _on_device(self, what: str, words: list[str], called: tuple[float, float], place: str) -> list[make.Event]:
        match = _PLACE.fullmatch(place)
        assert match is not None, f"{place!r} is not of the form gpu 0 stream 7: 10-20"
        gpu, stream, begin, end, blocks = match.groups()
        where: dict[str, Any] = {"device": int(gpu or 0), "stream": int(stream), "correlation": self.calls}
        if what == "record":
            self.recorded[words[0]] = int(stream), self.calls
            return []
        if what in {"wait", "event-sync"}:
            known = self.recorded[words[0]] if words else (-1, None)
            named = dict(zip(("wait_on_stream", "wait_on_cuda_event_record_corr_id"), known, strict=True))
            kind = "Stream Wait Event" if what == "wait" else "Event Sync"
            return [make.sync(kind, *called, **where, **named)]
        if what == "stream-sync":
            return [make.sync("Stream Sync", *called, **where)]
        if what in {"copy", "memcpy"}:
            kinds = _ENDS[words[2]].format(words[1].capitalize())
            return [make.copy(*_times(begin, end), kinds=kinds, size=_bytes(words[0]), **where)]
        if what == "peer-copy":
            event = make.copy(*_times(begin, end), kinds="PtoP (Device -> Device)", size=_bytes(words[0]), **where)
            event["args"] |= {"fromDevice": int(words[1]), "inDevice": int(gpu or 0), "toDevice": int(words[3])}
            return [event]
        grid = {"grid": [int(blocks), 1, 1]} if blocks else {}
        return [make.kernel(*_times(begin, end), name=(words or ["k"])[0], **where, **grid)]


def _times(begin: str, end: str) -> tuple[float, float]:
    """Begin and duration."""
    return float(begin), round(float(end) - float(begin), 3)


def _bytes(size: str) -> int:
    match = re.fullmatch(r"([\d_]+)([A-Za-z]+)", size)
    assert match is not None, f"{size!r} is no size such as 64MB"
    return int(match[1]) * _UNITS[match[2]]
