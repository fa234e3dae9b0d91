"""Which operators had which copied tensors among their arguments: who may read what a copy brings, and when.

A timeline does not show that. torch's profiler knows the arguments of the operators that it recorded with shapes,
though, and by their memory it can be seen that two of them were given the same tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

OWN = "aten::"
"""What torch's own operators begin with, which touch no tensor but their arguments and what they return."""
_COPY = OWN + "copy_"
Memory = tuple[int, int]
"""Device and address."""


def touches(roots: Iterable[Any]) -> dict[str, list[int]]:
    """The operators of a profiler's event tree that touch what a copy between the host and a GPU touches on the GPU.

    Returns:
        ``op_start_ns``, on the clock of the tree, and ``tensor``, a number for each piece of memory, pair by pair in
        the order of the operators.
    """
    given = [(node, set(_memories(node, "cuda"))) for node in _operators(roots)]
    copied = {memory for node, memories in given if node.name == _COPY and _leaves_device(node) for memory in memories}
    number = {memory: index for index, memory in enumerate(sorted(copied))}
    touched = ((node, copied if _hides_tensors(node.name) else memories & copied) for node, memories in given)
    pairs = sorted({(node.start_time_ns, number[memory]) for node, memories in touched for memory in memories})
    return {"op_start_ns": [start for start, _ in pairs], "tensor": [tensor for _, tensor in pairs]}


def host_reads(roots: Iterable[Any]) -> dict[str, list[int]]:
    """The copies to the host in a profiler's event tree, and when an operator is first given what each has brought.

    Returns:
        ``copy_start_ns``, of the operators that copy, and ``op_start_ns``, of those that read, pair by pair. A copy
        that no operator is given, until another overwrites it, is not there.
    """
    awaited: dict[Memory, Any] = {}
    pairs = []
    for node in sorted(_operators(roots), key=lambda node: node.start_time_ns):
        memories = list(_memories(node, "cpu"))
        if node.name == _COPY and _leaves_device(node) and next(_arguments(node)).device.type == "cpu":
            awaited |= dict.fromkeys(memories[:1], node)
            continue
        for memory in memories:
            copy = awaited.get(memory)
            if copy is not None and node.start_time_ns >= copy.end_time_ns:
                pairs.append((copy.start_time_ns, node.start_time_ns))
                del awaited[memory]
    return {"copy_start_ns": [copy for copy, _ in pairs], "op_start_ns": [read for _, read in pairs]}


@cache
def _hides_tensors(name: str) -> bool:
    """Whether the profiler does not see all tensors that an operator is given: then it may touch any.

    Lists of tensors some of which are left out, such as the indices of ``x[:, i]``.
    """
    import torch

    schemas = torch._C._jit_get_schemas_for_operator(name)  # noqa: SLF001
    return any("List[Optional[Tensor]]" in str(argument.type) for schema in schemas for argument in schema.arguments)


def _operators(roots: Iterable[Any]) -> Iterator[Any]:
    """Torch's own operators in a tree of events."""
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.name.startswith(OWN):
            yield node


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in a list of arguments, and in lists among them."""
    for entry in value or ():
        if isinstance(entry, list | tuple):
            yield from _tensors(entry)
        elif hasattr(entry, "storage_data_ptr"):
            yield entry


def _arguments(node: Any) -> Iterator[Any]:
    return _tensors(getattr(node.extra_fields, "inputs", None))


def _memories(node: Any, where: str) -> Iterator[Memory]:
    """Device and address of the memory of an operator's arguments on devices of a type: ``cuda`` or ``cpu``."""
    for tensor in _arguments(node):
        if tensor.device.type == where and tensor.storage_data_ptr:
            yield tensor.device.index, tensor.storage_data_ptr


def _leaves_device(node: Any) -> bool:
    return len({tensor.device for tensor in _arguments(node)}) > 1
