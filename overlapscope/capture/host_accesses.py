"""What operators did with the host tensors that copies read or wrote: read them, write to them, copy them.

torch's profiler knows the tensors that each operator was given. A host tensor is the same one where both its memory and
the tensor object are: other views of its memory may be other parts of it, and count as unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from overlapscope.calibration.schema import Access, HostAccesses
from overlapscope.capture.event_tree import COPY, OWN, arguments, leaves_device, operators

_Tensor = tuple[int, int]
"""Address of the memory, and of the tensor object."""
_ONLY_SHAPES = (*(f"{OWN}{name}" for name in ("new_", "is_pinned", "record_stream", "resize_", "set_", "result_type")),)
"""What the names of operators begin with that look at no data."""


def host_accesses(roots: Iterable[Any]) -> HostAccesses:
    """All accesses to the host tensors of a profiler's event tree that were both copied and used in another way.

    Times are on the clock of the tree, and sorted.
    """
    import numpy as np

    every = sorted(operators(roots), key=lambda node: node.start_time_ns)
    found = [(node, tensor, access) for node in every if node.name == COPY for tensor, access in _copied(node)]
    copied = {tensor for _, tensor, _ in found}
    if copied:
        found += [(node, tensor, access) for node in every for tensor, access in _used(node, copied)]
    kinds: dict[_Tensor, set[Access]] = defaultdict(set)
    for _, tensor, access in found:
        kinds[tensor].add(access)
    number = {tensor: index for index, tensor in enumerate(sorted(kinds))}
    rows = sorted({(node.start_time_ns, number[t], access) for node, t, access in found if len(kinds[t]) > 1})
    return HostAccesses(*np.array(rows, np.int64).reshape(-1, 3).T)


def _copied(node: Any) -> Iterator[tuple[_Tensor, Access]]:
    """The host tensor of a copy between host and device."""
    given = list(arguments(node))
    if leaves_device(node) and len(given) > 1:
        for tensor, access in zip(given[:2], (Access.DOWNLOAD, Access.UPLOAD), strict=True):
            if tensor.device.type == "cpu" and tensor.storage_data_ptr:
                yield _key(tensor), access


def _used(node: Any, copied: set[_Tensor]) -> Iterator[tuple[_Tensor, Access]]:
    """The tensors among the ``copied`` whose data an operator of the host reads or writes itself."""
    inputs = getattr(node.extra_fields, "inputs", None) or ()
    places = [place for place, each in enumerate(inputs) if hasattr(each, "storage_data_ptr") and _key(each) in copied]
    if not places or leaves_device(node) or _looks_at_no_data(node.name):
        return
    deeper = _given_to(node.children)
    for place in places:
        if _key(inputs[place]) not in deeper:
            yield _key(inputs[place]), Access.WRITE if place in _written(node.name) else Access.READ


def _given_to(children: Iterable[Any]) -> set[_Tensor]:
    return {_key(tensor) for node in operators(children) for tensor in arguments(node)}


def _key(tensor: Any) -> _Tensor:
    return tensor.storage_data_ptr or 0, tensor.impl_ptr or 0


def _schemas(name: str) -> list[Any]:
    import torch

    return list(torch._C._jit_get_schemas_for_operator(name))  # noqa: SLF001


@cache
def _written(name: str) -> frozenset[int]:
    """The places of arguments that an operator writes to."""
    return frozenset(
        place
        for schema in _schemas(name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write and not argument.kwarg_only
    )


@cache
def _looks_at_no_data(name: str) -> bool:
    """Whether an operator returns a view of an argument, or only looks at its shape."""
    if name.startswith(_ONLY_SHAPES) or name.endswith("_like"):
        return True
    shared = [result.alias_info for schema in _schemas(name) for result in schema.returns]
    return any(alias is not None and not alias.is_write for alias in shared)
