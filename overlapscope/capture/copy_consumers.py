"""Find the consumers of copies: which torch operators had a copied tensor among their arguments, and when.

A timeline does not show that. torch's profiler, when it records shapes, knows the memory of every operator's arguments:
two operators with the same memory were given the same tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

OWN = "aten::"
"""Prefix of torch's own operators, which access no tensor but their arguments and results."""
_COPY = OWN + "copy_"
Memory = tuple[int, int]
"""Device number and address of a tensor's storage."""


def copy_consumers(roots: Iterable[Any]) -> dict[str, list[int]]:
    """The operators in a profiler's event tree that access the GPU tensor of a copy between host and GPU.

    Returns:
        Two columns, one row per (operator, tensor) pair in the order of the operators: ``op_start_ns``, on the clock of
        the tree, and ``tensor``, a number per GPU storage.
    """
    accessed = [(node, set(_memories(node, "cuda"))) for node in _operators(roots)]
    copied = {memory for node, mine in accessed if node.name == _COPY and _crosses_devices(node) for memory in mine}
    number = {memory: index for index, memory in enumerate(sorted(copied))}
    consumed = ((node, copied if _hides_tensors(node.name) else memories & copied) for node, memories in accessed)
    pairs = sorted({(node.start_time_ns, number[memory]) for node, memories in consumed for memory in memories})
    return {"op_start_ns": [start for start, _ in pairs], "tensor": [tensor for _, tensor in pairs]}


def d2h_consumers(roots: Iterable[Any]) -> dict[str, list[int]]:
    """The D2H copies in a profiler's event tree, each with the first operator that consumes its host tensor.

    Returns:
        Two columns, one row per copy: ``copy_start_ns`` of the operator that copies and ``op_start_ns`` of the first
        operator that consumes it. A copy that no operator consumes before it is overwritten is not listed.
    """
    unread: dict[Memory, Any] = {}
    pairs = []
    for node in sorted(_operators(roots), key=lambda node: node.start_time_ns):
        memories = list(_memories(node, "cpu"))
        if node.name == _COPY and _crosses_devices(node) and next(_arguments(node)).device.type == "cpu":
            unread |= dict.fromkeys(memories[:1], node)
            continue
        for memory in memories:
            copy = unread.get(memory)
            if copy is not None and node.start_time_ns >= copy.end_time_ns:
                pairs.append((copy.start_time_ns, node.start_time_ns))
                del unread[memory]
    return {"copy_start_ns": [copy for copy, _ in pairs], "op_start_ns": [read for _, read in pairs]}


@cache
def _hides_tensors(name: str) -> bool:
    """Whether the profiler does not record all tensor arguments of an operator: it may then access any tensor.

    These are operators with lists of optional tensors, such as the indices of ``x[:, i]``.
    """
    import torch

    schemas = torch._C._jit_get_schemas_for_operator(name)  # noqa: SLF001
    return any("List[Optional[Tensor]]" in str(argument.type) for schema in schemas for argument in schema.arguments)


def _operators(roots: Iterable[Any]) -> Iterator[Any]:
    """Torch's own operators in an event tree."""
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.name.startswith(OWN):
            yield node


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in a list of arguments, nested lists included."""
    for entry in value or ():
        if isinstance(entry, list | tuple):
            yield from _tensors(entry)
        elif hasattr(entry, "storage_data_ptr"):
            yield entry


def _arguments(node: Any) -> Iterator[Any]:
    return _tensors(getattr(node.extra_fields, "inputs", None))


def _memories(node: Any, where: str) -> Iterator[Memory]:
    """Device and address of an operator's tensor arguments on devices of one type: ``cuda`` or ``cpu``."""
    for tensor in _arguments(node):
        if tensor.device.type == where and tensor.storage_data_ptr:
            yield tensor.device.index, tensor.storage_data_ptr


def _crosses_devices(node: Any) -> bool:
    return len({tensor.device for tensor in _arguments(node)}) > 1
