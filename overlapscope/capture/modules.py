"""Note the calls of a program's torch modules by their names in the model, while it is recorded.

While modules are watched, each call of a ``torch.nn.Module`` is a range whose name begins with `MODULE`. Its name is
the one that the outermost module called on the thread has for it; that one goes by the name of its class. Modules
within a graph that ``torch.compile`` made are not called, and have no ranges.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from overlapscope.calibration.schema import MODULE
from overlapscope.capture.watch import replaced

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Parts of names that torch's own wrappers add: of torch.compile, FSDP and activation checkpoints."""

Open = Callable[[str], Any]
Names = dict[int, tuple[weakref.ref[Any], str]]
"""Names of modules by their id; the reference tells whether it is still the same module."""


@contextmanager
def watch_modules(open_range: Open) -> Iterator[None]:
    """Let each call of a module be a range, a context manager that ``open_range(name)`` returns."""
    import torch._dynamo  # now, since it looks at modules when it is imported

    names = _ModuleNames()
    call: Any = torch.nn.Module.__call__
    is_compiling = torch.compiler.is_compiling

    @functools.wraps(call)
    def named_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # torch.compile sees this as true, and so nothing of what follows
            return call(self, *args, **kwargs)
        name, outermost = names.enter(self)
        try:
            with open_range(name):
                return call(self, *args, **kwargs)
        finally:
            if outermost:
                names.leave()

    with replaced(torch.nn.Module, "__call__", named_call), _without_compilations(torch.nn.Module, call, named_call):
        yield


@contextmanager
def _without_compilations(owner: Any, call: Any, named_call: Any) -> Iterator[None]:
    """Let torch.compile see modules as they are: else it would compile again when they are that afterwards."""
    from torch._dynamo.callback import callback_handler

    def pause(*_: object) -> None:
        owner.__call__ = call

    def go_on(*_: object) -> None:
        owner.__call__ = named_call

    callback_handler.register_start_callback(pause)
    callback_handler.register_end_callback(go_on)
    try:
        yield
    finally:
        callback_handler.remove_start_callback(pause)
        callback_handler.remove_end_callback(go_on)


class _ModuleNames(threading.local):
    """The names within the outermost module that runs on this thread, and those of outermost modules before it."""

    def __init__(self) -> None:
        self._current: Names | None = None
        self._known: weakref.WeakKeyDictionary[Any, Names] = weakref.WeakKeyDictionary()

    def enter(self, module: Any) -> tuple[str, bool]:
        """The name of a module that is called, and whether it is the outermost of this thread."""
        outermost = self._current is None
        if self._current is None:
            self._current = self._within(module)
        entry = self._current.get(id(module))
        return entry[1] if entry is not None and entry[0]() is module else _class_name(module), outermost

    def leave(self) -> None:
        """The outermost module has returned."""
        self._current = None

    def _within(self, root: Any) -> Names:
        names = self._known.get(root)
        if names is None:
            names = {id(each): (weakref.ref(each), _range_name(root, name)) for name, each in root.named_modules()}
            self._known[root] = names
        return names


def _range_name(root: Any, name: str) -> str:
    path = ".".join(part for part in name.split(".") if part not in _WRAPPERS)
    return MODULE + path if path else _class_name(getattr(root, "_orig_mod", root))


def _class_name(module: Any) -> str:
    return MODULE + type(module).__name__
