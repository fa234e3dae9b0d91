"""Which operators were given copied tensors: the consumers of copies, and the first consumer of what came to the host.

A timeline does not show that. torch's profiler knows the arguments of the operators that it recorded with shapes,
though, and by their memory it can be seen that two of them were given the same tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from overlapscope.calibration.schema import CopyConsumers, D2HConsumers
from overlapscope.capture.event_tree import COPY, Memory, arguments, leaves_device, memories_of, operators


def copy_consumers(roots: Iterable[Any]) -> CopyConsumers:
    """The operators of a profiler's event tree that were given what a copy between host and GPU reads or writes there.

    Times are on the clock of the tree.
    """
    import numpy as np

    given = [(node, set(memories_of(node, "cuda"))) for node in operators(roots)]
    copied = {memory for node, memories in given if node.name == COPY and leaves_device(node) for memory in memories}
    number = {memory: index for index, memory in enumerate(sorted(copied))}
    consumed = ((node, copied if _hides_tensors(node.name) else memories & copied) for node, memories in given)
    pairs = sorted({(node.start_time_ns, number[memory]) for node, memories in consumed for memory in memories})
    return CopyConsumers(*np.array(pairs, np.int64).reshape(-1, 2).T)


def d2h_consumers(roots: Iterable[Any]) -> D2HConsumers:
    """The copies to the host in a profiler's event tree, and the first operator that is given what each has brought.

    Times are on the clock of the tree. A copy that no operator is given, until another overwrites it, is not there.
    """
    import numpy as np

    awaited: dict[Memory, Any] = {}
    pairs = []
    for node in sorted(operators(roots), key=lambda node: node.start_time_ns):
        memories = list(memories_of(node, "cpu"))
        if node.name == COPY and leaves_device(node) and next(arguments(node)).device.type == "cpu":
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
