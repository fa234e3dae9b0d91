"""Consumers of copies, host accesses and reused memory, from the event tree of torch's profiler.

A timeline does not show that. The profiler knows the arguments of the operators that it recorded with shapes, though,
and by their memory it can be seen that two of them were given the same tensor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from overlapscope.calibration.schema import Access, CopyConsumers, D2HConsumers, HostAccesses, ReusedBlocks

OWN = "aten::"
"""The begin of the names of torch's own operators, which use no tensor but their arguments and results."""
COPY = OWN + "copy_"
_RECORD_STREAM = OWN + "record_stream"
_ONLY_SHAPES = tuple(OWN + name for name in ("new_", "is_pinned", "record_stream", "resize_", "set_", "result_type"))
"""The begins of the names of operators that look at no data."""
_COPIES = frozenset({Access.DOWNLOAD, Access.UPLOAD})
Memory = tuple[int, int]
"""Device and address."""
Streams = Mapping[int, frozenset[int]]
"""The streams on which an operator made the GPU work, by the operator's correlation."""
_Object = tuple[int, int]
"""Address of the memory, and of the tensor object."""
_Tensor = tuple[int, int, int]
"""An object, and how many views of other objects had been made of its memory."""


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


def copy_consumers(roots: Iterable[Any]) -> CopyConsumers:
    """The operators of a profiler's event tree that were given what a copy between host and GPU reads or writes there.

    Times are on the clock of the tree.
    """
    given = [(node, set(memories_of(node, "cuda"))) for node in operators(roots)]
    copied = {memory for node, memories in given if node.name == COPY and leaves_device(node) for memory in memories}
    number = {memory: index for index, memory in enumerate(sorted(copied))}
    consumed = ((node, copied if _hides_tensors(node.name) else memories & copied) for node, memories in given)
    return CopyConsumers.of({(node.start_time_ns, number[each]) for node, memories in consumed for each in memories})


def d2h_consumers(roots: Iterable[Any]) -> D2HConsumers:
    """The copies to the host in a profiler's event tree, and the first operator that is given what each has brought.

    Times are on the clock of the tree. A copy that no operator is given, until another overwrites it, is not there.
    """
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
    return D2HConsumers.of(pairs)


@cache
def _hides_tensors(name: str) -> bool:
    """Whether the profiler does not see all tensors that an operator is given: then it may use any.

    Lists of tensors some of which are left out, such as the indices of ``x[:, i]``.
    """
    given = (argument for schema in _schemas(name) for argument in schema.arguments)
    return any("List[Optional[Tensor]]" in str(argument.type) for argument in given)


def host_accesses(roots: Iterable[Any]) -> HostAccesses:
    """All accesses to the host tensors of a profiler's event tree that were both copied and used in another way.

    A host tensor is the same one where both its memory and the tensor object are: other views of its memory may be
    other parts of it, and count as unknown. Once another view is made of its memory, an object at the address of this
    one may be that view: it counts as another tensor. Times are on the clock of the tree.
    """
    every = sorted(operators(roots), key=lambda node: node.start_time_ns)
    views = _Views.among(every)
    uses = [(node, tensor, access) for node in every if node.name == COPY for tensor, access in _copied(node, views)]
    objects = {(memory, itself) for _, (memory, itself, _), _ in uses}
    if objects:
        uses += [(node, tensor, access) for node in every for tensor, access in _used(node, objects, views)]
    kinds: dict[_Tensor, set[Access]] = defaultdict(set)
    for _, tensor, access in uses:
        kinds[tensor].add(access)
    kept = sorted(tensor for tensor, seen in kinds.items() if len(seen) > 1 and not seen.isdisjoint(_COPIES))
    number = {tensor: index for index, tensor in enumerate(kept)}
    return HostAccesses.of({(node.start_time_ns, number[t], access) for node, t, access in uses if t in number})


@dataclass(frozen=True)
class _Views:
    """When operators may have made views of host memory: of each memory, and of each object."""

    memory: Mapping[int, list[int]]
    itself: Mapping[_Object, list[int]]

    @classmethod
    def among(cls, every: Iterable[Any]) -> _Views:
        """The views that operators made, which are given by start."""
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


@dataclass
class _Block:
    """A block from its allocation to its release: the last and the first operator that used it, by stream."""

    before: _Block | None = None
    last: dict[int, int] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    guarded: bool = False

    def use(self, node: Any, streams: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Note a use; the uses on other streams before the block was handed out again, each with this one."""
        for stream in streams:
            if stream not in self.first and self.before is not None and not self.before.guarded:
                others = (start for other, start in self.before.last.items() if other != stream)
                yield from ((start, node.start_time_ns) for start in others)
            self.first.setdefault(stream, node.start_time_ns)
            self.last[stream] = node.start_time_ns


def reused_blocks(roots: Iterable[Any], streams: Streams) -> ReusedBlocks:
    """The pairs of uses on different streams, before and after a block of GPU memory was handed out again.

    The allocator knows only the stream on which a block was made: freed, it is used again on that stream at once. Work
    of another stream may still read it then, unless ``Tensor.record_stream`` told the allocator of that stream. Blocks
    for which it did are not here. Times are on the clock of the tree.
    """
    live: dict[Memory, _Block] = {}
    freed: dict[Memory, _Block] = {}
    pairs: set[tuple[int, int]] = set()
    for node in sorted(nodes(roots), key=lambda node: node.start_time_ns):
        if hasattr(node.extra_fields, "alloc_size"):
            pairs.update(_moved(node, live, freed, streams))
            continue
        used = streams.get(node.correlation_id, frozenset()) if node.name.startswith(OWN) else frozenset()
        if used or node.name == _RECORD_STREAM:
            for memory in memories_of(node, "cuda"):
                block = live.setdefault(memory, _Block())
                block.guarded |= node.name == _RECORD_STREAM
                pairs.update(block.use(node, used))
    return ReusedBlocks.of(pairs)


def _moved(
    node: Any, live: dict[Memory, _Block], freed: dict[Memory, _Block], streams: Streams
) -> Iterator[tuple[int, int]]:
    """Follow an allocation or a release of GPU memory; what allocates for itself uses the block, too."""
    fields = node.extra_fields
    if fields.device.type != "cuda":
        return
    memory = fields.device.index, fields.ptr
    if fields.alloc_size < 0:
        freed[memory] = live.pop(memory, _Block())
        return
    block = live[memory] = _Block(before=freed.pop(memory, None))
    around = node.parent
    while around is not None and around.correlation_id not in streams:
        around = around.parent
    if around is not None:
        yield from block.use(around, streams[around.correlation_id])


def streams_of(events: Iterable[Any]) -> dict[int, frozenset[int]]:
    """The streams of each operator's work, from the events of torch's profiler; empty where all is on one stream."""
    from torch.autograd import DeviceType  # type: ignore[attr-defined]

    streams: dict[int, set[int]] = defaultdict(set)
    for event in events:
        if event.device_type() == DeviceType.CUDA and event.linked_correlation_id():
            streams[event.linked_correlation_id()].add(event.device_resource_id())
    if len(set().union(*streams.values())) < 2:  # noqa: PLR2004 - nothing can race
        return {}
    return {correlation: frozenset(numbers) for correlation, numbers in streams.items()}
