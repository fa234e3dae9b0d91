"""Note how a program's DataLoaders are set up, and what they hand out."""

from __future__ import annotations

import functools
import sys
import sysconfig
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from overlapscope.calibration.schema import Loader
from overlapscope.capture.watch import replaced

_DEEPEST = 8  # lists within lists of a batch that are looked into
_HERE = str(Path(__file__).resolve().parent)


class LoaderNotes:
    """What is noted of each DataLoader from which a batch was taken."""

    def __init__(self) -> None:
        self._places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._found: list[_Noted] = []
        self._by_iterator: weakref.WeakKeyDictionary[Any, _Noted] = weakref.WeakKeyDictionary()

    @property
    def loaders(self) -> tuple[Loader, ...]:
        """All loaders so far, those with the most batches first."""
        found = [replace(each.loader, batches=each.batches) for each in self._found]
        return tuple(sorted(found, key=lambda loader: -(loader.batches or 0)))

    def made(self, loader: Any, place: str) -> None:
        """A loader was made at a place in the program; of places that call each other, the first is the program's."""
        self._places[loader] = place

    def iterated(self, loader: Any, iterator: Any, place: str) -> None:
        """A loop over a loader begins, at a place in the program."""
        self._loaders[iterator] = loader
        self._places.setdefault(loader, place)

    def fetched(self, iterator: Any, batch: Any) -> None:
        """A batch was taken."""
        noted = self._by_iterator.get(iterator)
        if noted is None:
            noted = self._by_iterator[iterator] = self._note(iterator, batch)
        noted.batches += 1

    def _note(self, iterator: Any, batch: Any) -> _Noted:
        """What is noted of the loader of an iterator; of one made before it was watched, only the iterator is known."""
        loader = self._loaders.get(iterator)
        known = [each for each in self._found if loader is not None and each.of() is loader]
        if known:
            return known[0]
        source = iterator if loader is None else loader
        place = "" if loader is None else self._places.get(loader, "")
        self._found.append(_Noted(_described(source, place, batch), weakref.ref(source)))
        return self._found[-1]


@dataclass
class _Noted:
    """A loader with the number of batches that were taken from it."""

    loader: Loader
    of: weakref.ref[Any]
    batches: int = 0


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
    def noted_fetch(self: Any) -> Any:
        batch = fetch(self)
        notes.fetched(self, batch)
        return batch

    with ExitStack() as changes:
        for owner, name, new in (
            (DataLoader, "__init__", noted_make),
            (DataLoader, "__iter__", noted_iterate),
            (_BaseDataLoaderIter, "__next__", noted_fetch),
        ):
            changes.enter_context(replaced(owner, name, new))
        yield


def _place() -> str:
    """File, without folders, and line of the innermost frame of the program's own code; else of a library's."""
    libraries = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
    library = ""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to see who calls
    while frame is not None:
        name = frame.f_code.co_filename
        place = f"{Path(name).name}:{frame.f_lineno}"
        ours = name.startswith(_HERE)
        if not ours and not name.startswith((*libraries, "<")):
            return place
        library = library or ("" if ours or "/torch/utils/data/" in name else place)
        frame = frame.f_back
    return library
