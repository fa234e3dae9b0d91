"""Note a program's DataLoaders while it is recorded: their settings, and what their batches take.

A batch is made by a fetcher of torch, in this process or in a worker. Workers that were forked while loaders are
watched tell through a pipe what each batch took; of others that is not known.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from overlapscope.calibration.schema import Loader
from overlapscope.capture import places
from overlapscope.capture.host_log import CATEGORY, LEAST_NS, LEAST_REGULAR_NS, HostLog
from overlapscope.capture.kineto_file import TraceEvent
from overlapscope.capture.watch import replaced

_DEEPEST = 8  # lists within lists of a batch that are looked into
_KEPT = 100  # batches of a loader, the last
_PIPE_BYTES = 1 << 16  # at once: what a pipe holds on Linux


@dataclass(frozen=True)
class _Made:
    """When a batch was made: its items from the begin on, and collated until the end."""

    process: int
    thread: int
    begin_ns: int
    items_ns: int
    end_ns: int


class LoaderNotes:
    """Notes of each DataLoader from which a batch was taken, and in ``log`` what its batches took."""

    def __init__(self, log: HostLog) -> None:
        self._log = log
        self._places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._found: list[_Noted] = []
        self._by_iterator: weakref.WeakKeyDictionary[Any, _Noted] = weakref.WeakKeyDictionary()
        self._by_worker: dict[int, _Noted] = {}
        self._pinned: deque[tuple[int, int]] = deque(maxlen=_KEPT)  # by the pinning threads
        self._told, self._rest = _Pipe(), b""
        self._current = threading.local()

    @property
    def loaders(self) -> tuple[Loader, ...]:
        """All loaders so far, those with the most batches first."""
        self.hear_workers()
        return tuple(sorted((each.summary() for each in self._found), key=lambda loader: -(loader.batches or 0)))

    def made(self, loader: Any, place: str) -> None:
        """A loader was made at a place in the program; of places that call each other, the first is the program's."""
        self._places[loader] = place

    def iterated(self, loader: Any, iterator: Any, place: str) -> None:
        """A loop over a loader begins, at a place in the program."""
        self._loaders[iterator] = loader
        self._places.setdefault(loader, place)

    def next(self, iterator: Any, fetch: Callable[[Any], Any]) -> Any:
        """Take a batch."""
        ready, begin_ns = _ready(iterator), time.time_ns()
        self._current.made = None
        batch = fetch(iterator)
        end_ns = time.time_ns()
        noted = self._by_iterator.get(iterator)
        if noted is None:
            noted = self._by_iterator[iterator] = self._note(iterator, batch)
        noted.batches += 1
        workers = [each.pid for each in getattr(iterator, "_workers", ())]
        if self._current.made is not None:
            self._keep(noted, self._current.made)
        elif workers:
            self._by_worker |= dict.fromkeys(workers, noted)
            self._waited(begin_ns, end_ns, ready)
            self.hear_workers()
        if ready is not None:
            noted.ready.append(ready)
        return batch

    def batch_made(self, begin_ns: int, items_ns: int) -> None:
        """A batch was made in this process; in a worker, the process that takes batches is told."""
        made = _Made(os.getpid(), threading.get_native_id(), begin_ns, items_ns, time.time_ns())
        if made.process == self._log.process:
            self._current.made = made
        else:
            self._told.write(json.dumps(list(vars(made).values())).encode() + b"\n")

    def pinned(self, begin_ns: int) -> None:
        """A batch was pinned, by a pinning thread or by the loop itself."""
        if threading.current_thread() is threading.main_thread():
            self._log.note("pin", "pin_memory", begin_ns, least_ns=LEAST_REGULAR_NS)
        else:
            self._pinned.append((begin_ns, time.time_ns()))

    def hear_workers(self) -> None:
        """Note the batches that workers told of."""
        lines = (self._rest + self._told.read()).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            with suppress(ValueError, TypeError):
                made = _Made(*json.loads(line))
                if noted := self._by_worker.get(made.process):
                    self._keep(noted, made)

    def open(self) -> None:
        """Hear of workers that are forked off from now on."""
        self._told.open()

    def close(self) -> None:
        """Hear no more of workers."""
        self.hear_workers()
        self._told.close()

    def _keep(self, noted: _Noted, made: _Made) -> None:
        noted.made.append(made)
        times = pairwise((made.begin_ns, made.items_ns, made.end_ns))
        for (kind, (name, place)), (begin_ns, end_ns) in zip(noted.parts.items(), times, strict=True):
            args = {"kind": kind, **({"place": place} if place else {})}
            event = TraceEvent(CATEGORY, name, begin_ns, end_ns, made.process, made.thread, args)
            self._log.add(event, LEAST_REGULAR_NS)

    def _waited(self, begin_ns: int, end_ns: int, ready: int | None) -> None:
        """The loop waited for a batch of a worker, and from where it was pinned meanwhile for the pinning thread."""
        counts = {} if ready is None else {"ready": ready}
        pins = [begin for begin, end in self._pinned if begin_ns < end <= end_ns]
        pin_ns = max(begin_ns, pins[-1]) if pins else end_ns
        self._log.note("transfer", "DataLoader.__next__", begin_ns, end_ns=pin_ns, **counts)
        self._log.note("pin", "pinning thread", pin_ns, end_ns=end_ns, least_ns=LEAST_NS)

    def _note(self, iterator: Any, batch: Any) -> _Noted:
        """The note of an iterator's loader; of a loader made before it was watched, only the iterator is known."""
        loader = self._loaders.get(iterator)
        known = [each for each in self._found if loader is not None and each.of() is loader]
        if known:
            return known[0]
        source = iterator if loader is None else loader
        place = "" if loader is None else self._places.get(loader, "")
        self._found.append(_Noted(_described(source, place, batch), weakref.ref(source), _parts(source)))
        return self._found[-1]


@dataclass
class _Noted:
    """A loader with the number of batches that were taken from it, and what the last of them took."""

    loader: Loader
    of: weakref.ref[Any]
    parts: dict[str, tuple[str, str]]
    batches: int = 0
    made: deque[_Made] = field(default_factory=lambda: deque(maxlen=_KEPT))
    ready: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def summary(self) -> Loader:
        """The loader with all that is known of it."""
        known = replace(self.loader, batches=self.batches, ready=tuple(self.ready))
        if not self.made:
            return known
        return replace(
            known,
            item_ns=round(statistics.median(each.items_ns - each.begin_ns for each in self.made)),
            collate_ns=round(statistics.median(each.end_ns - each.items_ns for each in self.made)),
            in_worker=any(each.process != os.getpid() for each in self.made),
        )


class _Pipe:
    """A pipe from workers that are forked off while it is open; what does not fit in is lost, and nobody waits."""

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = None

    def open(self) -> None:
        self._ends = os.pipe()
        for end in self._ends:
            os.set_blocking(end, False)

    def write(self, line: bytes) -> None:
        if self._ends is not None:
            with suppress(OSError):
                os.write(self._ends[1], line)

    def read(self) -> bytes:
        text = b""
        while self._ends is not None:
            try:
                more = os.read(self._ends[0], _PIPE_BYTES)
            except OSError:
                break
            text += more
            if len(more) < _PIPE_BYTES:
                break
        return text

    def close(self) -> None:
        ends, self._ends = self._ends, None
        for end in ends or ():
            os.close(end)


def _ready(iterator: Any) -> int | None:
    """The batches that wait to be taken; None without workers, or where it cannot be told."""
    if not getattr(iterator, "_workers", ()):
        return None
    try:
        came_early = sum(len(each) > 1 for each in iterator._task_info.values())  # noqa: SLF001
        waiting: int = iterator._data_queue.qsize()  # noqa: SLF001
    except (AttributeError, NotImplementedError, OSError, TypeError):
        return None
    return came_early + waiting


def _parts(loader: Any) -> dict[str, tuple[str, str]]:
    """The names of the two parts of making a batch, and the places of their code where it is Python."""
    dataset = getattr(loader, "dataset", getattr(loader, "_dataset", None))
    collate = getattr(loader, "collate_fn", getattr(loader, "_collate_fn", None))
    names = ("__getitems__", "__getitem__", "__iter__")
    name = next((each for each in names if getattr(type(dataset), each, None)), "__getitem__")
    item = getattr(type(dataset), name, None)
    return {
        "item": (f"{type(dataset).__qualname__}.{name}", _definition(item)),
        "collate": ("collate_fn", _definition(collate)),
    }


def _definition(called: Any) -> str:
    """The function that is called and the first line of its definition; empty where it is not Python."""
    while isinstance(called, functools.partial):
        called = called.func
    code = getattr(called, "__code__", getattr(getattr(called, "__func__", type(called).__call__), "__code__", None))
    return "" if code is None else places.function(code, None)


def _described(loader: Any, place: str, batch: Any) -> Loader:
    """A loader, or the iterator of one that was made before it was watched, which has the same under other names."""

    def setting(name: str) -> Any:
        return getattr(loader, name, getattr(loader, f"_{name}", None))

    return Loader(
        place=place,
        workers=setting("num_workers"),
        pin_memory=bool(setting("pin_memory")),
        prefetch_factor=setting("prefetch_factor"),
        persistent_workers=bool(setting("persistent_workers")),
        batch=_type_name(batch),
        unpinnable=", ".join(sorted(set(_unpinnable(batch)))),
    )


def _type_name(value: Any) -> str:
    kind = type(value)
    return (
        kind.__qualname__ if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}.{kind.__qualname__}"
    )


def _unpinnable(batch: Any, depth: int = 0) -> Iterator[str]:
    """The classes of objects in a batch that ``pin_memory=True`` leaves as they are, though they hold tensors."""
    import torch

    if isinstance(batch, torch.Tensor) or hasattr(batch, "pin_memory") or depth == _DEEPEST:
        return
    if isinstance(batch, Mapping):
        for value in batch.values():
            yield from _unpinnable(value, depth + 1)
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        for value in batch:
            yield from _unpinnable(value, depth + 1)
    elif any(isinstance(value, torch.Tensor) for value in getattr(batch, "__dict__", {}).values()):
        yield _type_name(batch)


@contextmanager
def watch_loaders(notes: LoaderNotes) -> Iterator[None]:
    """Note the DataLoaders of this process for a while."""
    from torch.utils.data import DataLoader
    from torch.utils.data._utils import fetch as fetchers, pin_memory as pinning
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    make: Any = DataLoader.__init__
    iterate: Any = DataLoader.__iter__
    fetch: Any = _BaseDataLoaderIter.__next__

    @functools.wraps(make)
    def noted_make(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        notes.made(self, _place())

    @functools.wraps(iterate)
    def noted_iterate(self: Any) -> Any:
        iterator = iterate(self)
        notes.iterated(self, iterator, _place())
        return iterator

    @functools.wraps(fetch)
    def noted_next(self: Any) -> Any:
        return notes.next(self, fetch)

    kinds = (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher)  # noqa: SLF001
    with ExitStack() as changes:
        notes.open()
        changes.callback(notes.close)
        for owner, name, new in (
            (DataLoader, "__init__", noted_make),
            (DataLoader, "__iter__", noted_iterate),
            (_BaseDataLoaderIter, "__next__", noted_next),
            *((kind, "fetch", _noted_fetch(kind.fetch, notes)) for kind in kinds),
            (pinning, "pin_memory", _noted_pin(pinning.pin_memory, notes)),
        ):
            changes.enter_context(replaced(owner, name, new))
        yield


def _noted_fetch(fetch: Any, notes: LoaderNotes) -> Any:
    @functools.wraps(fetch)
    def noted(self: Any, index: Any) -> Any:
        collate, begin_ns, items_ns = self.collate_fn, time.time_ns(), 0

        def collated(items: Any) -> Any:
            nonlocal items_ns
            items_ns = time.time_ns()
            return collate(items)

        self.collate_fn = collated
        try:
            batch = fetch(self, index)
        finally:
            self.collate_fn = collate
        notes.batch_made(begin_ns, items_ns or begin_ns)
        return batch

    return noted


def _noted_pin(pin: Any, notes: LoaderNotes) -> Any:
    inside = threading.local()

    @functools.wraps(pin)
    def noted(*args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "now", False):  # the parts of a batch
            return pin(*args, **kwargs)
        inside.now, begin_ns = True, time.time_ns()
        try:
            return pin(*args, **kwargs)
        finally:
            inside.now = False
            notes.pinned(begin_ns)

    return noted


def _place() -> str:
    """File, without folders, and line of the innermost frame of the program's own code; else of a library's."""
    return places.file_and_line(places.caller()).rpartition("/")[2]
