"""Blocks of GPU memory that the allocator handed out again, with the work of other streams that used them before.

The allocator knows only the stream on which a block was made: freed, it is used again on that stream at once. Work of
another stream may still read it then, unless ``Tensor.record_stream`` told the allocator of that stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from overlapscope.calibration.schema import ReusedBlocks
from overlapscope.capture.event_tree import OWN, Memory, memories_of, nodes

_RECORD_STREAM = OWN + "record_stream"
Streams = Mapping[int, frozenset[int]]
"""The streams on which an operator made the GPU work, by the operator's correlation."""


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
    """The pairs of uses, before and after a block was handed out again, of operators on different streams.

    Times are on the clock of the tree. A block that was recorded for another stream is not there.
    """
    import numpy as np

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
    return ReusedBlocks(*np.array(sorted(pairs), np.int64).reshape(-1, 2).T)


def _moved(
    node: Any, live: dict[Memory, _Block], freed: dict[Memory, _Block], streams: Streams
) -> Iterator[tuple[int, int]]:
    """Follow an allocation or a release of GPU memory; what allocates for itself uses the block, too."""
    about = node.extra_fields
    if about.device.type != "cuda":
        return
    memory = about.device.index, about.ptr
    if about.alloc_size < 0:
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

    found: dict[int, set[int]] = {}
    for event in events:
        if event.device_type() == DeviceType.CUDA and event.linked_correlation_id():
            found.setdefault(event.linked_correlation_id(), set()).add(event.device_resource_id())
    if len(set().union(*found.values())) < 2:  # noqa: PLR2004 - nothing can race
        return {}
    return {correlation: frozenset(streams) for correlation, streams in found.items()}
