"""Which operators were given copied tensors: the consumers of copies, and the first consumer of what came to the host.

A timeline does not show that. torch's profiler knows the arguments of the operators that it recorded with shapes,
though, and by their memory it can be seen that two of them were given the same tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from overlapscope.calibration.schema import CopyConsumers, D2HConsumers

_OWN = "aten::"
"""What the names of torch's own operators begin with; they use no tensor but their arguments and what they return."""
_COPY = _OWN + "copy_"
_Memory = tuple[int, int]
"""Device and address."""


def copy_consumers(roots: Iterable[Any]) -> CopyConsumers:
    """The operators of a profiler's event tree that were given what a copy between host and GPU reads or writes there.

    Times are on the clock of the tree.
    """
    import numpy as np

    given = [(node, set(_memories(node, "cuda"))) for node in _operators(roots)]
    copied = {memory for node, memories in given if node.name == _COPY and _leaves_device(node) for memory in memories}
    number = {memory: index for index, memory in enumerate(sorted(copied))}
    consumed = ((node, copied if _hides_tensors(node.name) else memories & copied) for node, memories in given)
    pairs = sorted({(node.start_time_ns, number[memory]) for node, memories in consumed for memory in memories})
    return CopyConsumers(*np.array(pairs, np.int64).reshape(-1, 2).T)


def d2h_consumers(roots: Iterable[Any]) -> D2HConsumers:
    """The copies to the host in a profiler's event tree, and the first operator that is given what each has brought.

    Times are on the clock of the tree. A copy that no operator is given, until another overwrites it, is not there.
    """
    import numpy as np

    awaited: dict[_Memory, Any] = {}
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
    return D2HConsumers(*np.array(sorted(pairs), np.int64).reshape(-1, 2).T)


@cache
def _hides_tensors(name: str) -> bool:
    """Whether the profiler does not see all tensors that an operator is given: then it may use any.

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
        if node.name.startswith(_OWN):
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


def _memories(node: Any, where: str) -> Iterator[_Memory]:
    """Device and address of the memory of an operator's arguments on devices of a type: ``cuda`` or ``cpu``."""
    for tensor in _arguments(node):
        if tensor.device.type == where and tensor.storage_data_ptr:
            yield tensor.device.index, tensor.storage_data_ptr


def _leaves_device(node: Any) -> bool:
    return len({tensor.device for tensor in _arguments(node)}) > 1
