"""The operators in the event tree of torch's profiler, and the memory of their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

OWN = "aten::"
"""What the names of torch's own operators begin with; they use no tensor but their arguments and what they return."""
COPY = OWN + "copy_"
Memory = tuple[int, int]
"""Device and address."""


def nodes(roots: Iterable[Any]) -> Iterator[Any]:
    """Everything in a tree of events."""
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        waiting += node.children
        yield node


def operators(roots: Iterable[Any]) -> Iterator[Any]:
    """Torch's own operators in a tree of events."""
    return (node for node in nodes(roots) if node.name.startswith(OWN))


def arguments(node: Any) -> Iterator[Any]:
    """The tensors that an operator was given, in lists too."""
    return tensors(getattr(node.extra_fields, "inputs", None))


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in a list of arguments, and in lists among them."""
    for entry in value or ():
        if isinstance(entry, list | tuple):
            yield from tensors(entry)
        elif hasattr(entry, "storage_data_ptr"):
            yield entry


def memories_of(node: Any, where: str) -> Iterator[Memory]:
    """Device and address of the memory of an operator's arguments on devices of a type: ``cuda`` or ``cpu``."""
    for tensor in arguments(node):
        if tensor.device.type == where and tensor.storage_data_ptr:
            yield tensor.device.index, tensor.storage_data_ptr


def leaves_device(node: Any) -> bool:
    """Whether an operator was given tensors of several devices."""
    return len({tensor.device for tensor in arguments(node)}) > 1
