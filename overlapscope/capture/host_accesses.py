"""What operators did with the host tensors that copies read or wrote: read them, write to them, copy them.

torch's profiler knows the tensors that each operator was given. A host tensor is the same one where both its memory and
the tensor object are: other views of its memory may be other parts of it, and count as unknown. Once another view is
made of its memory, an object at the address of this one may be that view: it counts as another tensor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from overlapscope.calibration.schema import Access, HostAccesses
from overlapscope.capture.event_tree import COPY, OWN, arguments, leaves_device, operators, tensors

_Object = tuple[int, int]
"""Address of the memory, and of the tensor object."""
_Tensor = tuple[int, int, int]
"""These, and how many views of other objects had been made of the memory."""
_COPIES = frozenset({Access.DOWNLOAD, Access.UPLOAD})
_ONLY_SHAPES = (*(f"{OWN}{name}" for name in ("new_", "is_pinned", "record_stream", "resize_", "set_", "result_type")),)
"""What the names of operators begin with that look at no data."""


def host_accesses(roots: Iterable[Any]) -> HostAccesses:
    """All accesses to the host tensors of a profiler's event tree that were both copied and used in another way.

    Times are on the clock of the tree, and sorted.
    """
    import numpy as np

    every = sorted(operators(roots), key=lambda node: node.start_time_ns)
    views = _Views.among(every)
    found = [(node, tensor, access) for node in every if node.name == COPY for tensor, access in _copied(node, views)]
    objects = {(memory, itself) for _, (memory, itself, _), _ in found}
    if objects:
        found += [(node, tensor, access) for node in every for tensor, access in _used(node, objects, views)]
    kinds: dict[_Tensor, set[Access]] = defaultdict(set)
    for _, tensor, access in found:
        kinds[tensor].add(access)
    kept = sorted(tensor for tensor, some in kinds.items() if len(some) > 1 and not some.isdisjoint(_COPIES))
    number = {tensor: index for index, tensor in enumerate(kept)}
    found = [(node, tensor, access) for node, tensor, access in found if tensor in number]
    rows = sorted({(node.start_time_ns, number[t], access) for node, t, access in found})
    return HostAccesses(*np.array(rows, np.int64).reshape(-1, 3).T)


@dataclass(frozen=True)
class _Views:
    """When operators may have made views of host memory: of each memory, and of each object."""

    memory: Mapping[int, list[int]]
    itself: Mapping[_Object, list[int]]

    @classmethod
    def among(cls, every: Iterable[Any]) -> _Views:
        """Those of operators in their order."""
        memory: dict[int, list[int]] = defaultdict(list)
        itself: dict[_Object, list[int]] = defaultdict(list)
        for node in every:
            if _looks_at_no_data(node.name):
                for one in {_object(tensor) for tensor in arguments(node) if tensor.device.type == "cpu"}:
                    memory[one[0]].append(node.start_time_ns)
                    itself[one].append(node.start_time_ns)
        return cls(memory, itself)

    def tensor(self, node: Any, given: Any) -> _Tensor:
        """A tensor that an operator was given: a view that was made of it shows that it was still there."""
        one, now = _object(given), node.start_time_ns
        made = bisect_left(self.memory.get(one[0], ()), now) - bisect_left(self.itself.get(one, ()), now)
        return *one, made


def _copied(node: Any, views: _Views) -> Iterator[tuple[_Tensor, Access]]:
    """The host tensor of a copy between host and device."""
    given = list(arguments(node))
    if leaves_device(node) and len(given) > 1:
        for tensor, access in zip(given[:2], (Access.DOWNLOAD, Access.UPLOAD), strict=True):
            if tensor.device.type == "cpu" and tensor.storage_data_ptr:
                yield views.tensor(node, tensor), access


def _used(node: Any, objects: set[_Object], views: _Views) -> Iterator[tuple[_Tensor, Access]]:
    """The tensors whose data an operator of the host reads or writes itself, of ``objects`` that were copied."""
    inputs = getattr(node.extra_fields, "inputs", None) or ()
    every = ((place, each) for place, entry in enumerate(inputs) for each in tensors([entry]))
    given = [(place, each) for place, each in every if _object(each) in objects]
    if not given or leaves_device(node) or _looks_at_no_data(node.name):
        return
    deeper, written = _given_to(node.children), _written(node.name, len(inputs))
    for place, each in given:
        if _object(each) not in deeper:
            yield views.tensor(node, each), Access.WRITE if place in written else Access.READ


def _given_to(children: Iterable[Any]) -> set[_Object]:
    return {_object(tensor) for node in operators(children) for tensor in arguments(node)}


def _object(tensor: Any) -> _Object:
    return tensor.storage_data_ptr or 0, tensor.impl_ptr or 0


def _schemas(name: str) -> list[Any]:
    import torch

    return list(torch._C._jit_get_schemas_for_operator(name))  # noqa: SLF001


@cache
def _written(name: str, count: int) -> frozenset[int]:
    """The places of arguments that an operator writes to, also by name (``out``), where it was given so many.

    Where several of its forms have as many, only those that all of them write to, if a tensor stands there.
    """
    forms = [schema.arguments for schema in _schemas(name) if len(schema.arguments) == count]
    of_tensors = {place: [form[place] for form in forms if "Tensor" in str(form[place].type)] for place in range(count)}
    return frozenset(place for place, every in of_tensors.items() if every and all(map(_is_written, every)))


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


@cache
def _looks_at_no_data(name: str) -> bool:
    """Whether an operator returns a view of an argument, or only looks at its shape."""
    if name.startswith(_ONLY_SHAPES) or name.endswith("_like"):
        return True
    shared = [result.alias_info for schema in _schemas(name) for result in schema.returns]
    return any(alias is not None and not alias.is_write for alias in shared)
