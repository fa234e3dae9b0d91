"""What a recording notes of host tensors and of memory that is handed out again, from trees as torch's profiler has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlapscope import open_trace, record
from overlapscope.capture.event_tree import host_accesses, reused_blocks

HOST, GPU = torch.device("cpu"), torch.device("cuda:0")


def tensor(memory: int, device: torch.device = HOST, itself: int = 0) -> SimpleNamespace:
    return SimpleNamespace(storage_data_ptr=memory, impl_ptr=itself or memory, device=device)


def event(name: str, start_ns: int, *inputs: Any, children: tuple[Any, ...] = (), **fields: Any) -> SimpleNamespace:
    """An operator, or with a size the allocation of a block; its correlation is its start."""
    about = SimpleNamespace(**fields) if fields else SimpleNamespace(inputs=list(inputs))
    node = SimpleNamespace(name=name, start_time_ns=start_ns, correlation_id=start_ns, extra_fields=about, parent=None)
    node.children = list(children)
    for child in children:
        child.parent = node
    return node


def block(start_ns: int, size: int, memory: int = 7) -> SimpleNamespace:
    return event("[memory]", start_ns, alloc_size=size, ptr=memory, device=GPU)


def accesses(*tree: Any) -> list[tuple[int, int, int]]:
    found = host_accesses(tree)
    columns = (found.op_start_ns, found.tensor, found.access)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_what_operators_do_with_a_copied_host_tensor() -> None:
    """Downloads, uploads, reads and writes; not views, shapes, other views of its memory, or what is only copied."""
    host, other, view = tensor(1), tensor(2), tensor(1, itself=9)
    assert accesses(
        event("aten::copy_", 10, host, tensor(7, GPU)),
        event("aten::copy_", 12, other, tensor(7, GPU)),
        event("aten::slice", 20, host),
        event("aten::empty_like", 22, host),
        event("aten::sum", 24, view),
        event("aten::item", 30, host, children=(event("aten::_local_scalar_dense", 31, host),)),
        event("aten::fill_", 40, host, 1.0),
        event("aten::copy_", 50, host, tensor(3)),
        event("aten::to", 60, host, children=(event("aten::copy_", 61, tensor(7, GPU), host),)),
        event("mine::reads", 70, host),
    ) == [(10, 0, 0), (31, 0, 2), (40, 0, 3), (50, 0, 3), (61, 0, 1)]


def test_an_object_at_the_address_of_another_view_is_another_tensor() -> None:
    """Slices of one buffer, each made where it is used, come to lie at the same address; their base is still there."""
    base, piece = tensor(1), tensor(1, itself=9)
    slices = (
        event("aten::copy_", 10, tensor(7, GPU), piece),
        event("aten::select", 20, base, 0, 1),
        event("aten::fill_", 30, piece, 1.0),
        event("aten::copy_", 40, tensor(7, GPU), base),
        event("aten::select", 50, base, 0, 0),
        event("aten::fill_", 60, base, 1.0),
    )
    assert accesses(*slices) == [(40, 0, 1), (60, 0, 3)]
    assert len(accesses(*(each for each in slices if each.name != "aten::select"))) == 4
    unused = (event("aten::fill_", 70, base, 1.0), event("aten::select", 80, piece, 0), event("aten::sum", 90, base))
    assert accesses(*slices, *unused, event("aten::fill_", 95, base, 1.0))[2:] == [(70, 0, 3)], "not copied since"


@pytest.mark.parametrize(
    ("name", "given", "access"),
    [
        ("aten::mul", (tensor(2), tensor(2), tensor(1)), 3),
        ("aten::index_select", (tensor(2), 0, tensor(3), tensor(1)), 3),
        ("aten::mul", (tensor(2), tensor(1)), 2),
        ("aten::max", (tensor(2), tensor(1)), 2),
        ("aten::stack", ([tensor(2), tensor(1)], 0), 2),
        ("aten::_foreach_zero_", ([tensor(2), tensor(1)],), 3),
    ],
)
def test_an_argument_that_is_written_by_name_or_in_a_list(name: str, given: tuple[Any, ...], access: int) -> None:
    """``torch.max(a, b)`` and ``torch.max(a, out=b)`` look alike: what is not sure to be written is read."""
    copied = event("aten::copy_", 10, tensor(7, GPU), tensor(1))
    assert accesses(copied, event(name, 20, *given)) == [(10, 0, 1), (20, 0, access)]


REUSED = (
    event("aten::_to_copy", 10, children=(block(11, 64), event("aten::copy_", 12, tensor(7, GPU), tensor(1)))),
    event("aten::sum", 20, tensor(7, GPU)),
    block(30, -64),
    event("aten::_to_copy", 40, children=(block(41, 64), event("aten::copy_", 42, tensor(7, GPU), tensor(1)))),
)
SIDE, KERNELS = frozenset({20}), frozenset({7})


@pytest.mark.parametrize(
    ("guard", "streams", "pairs"),
    [
        ((), {12: SIDE, 20: KERNELS, 42: SIDE}, [(20, 42)]),
        ((event("aten::record_stream", 25, tensor(7, GPU)),), {12: SIDE, 20: KERNELS, 42: SIDE}, []),
        ((), {12: SIDE, 20: SIDE, 42: SIDE}, []),
        ((event("aten::mm", 26, tensor(8, GPU)),), {12: SIDE, 20: SIDE, 26: KERNELS, 42: SIDE}, []),
    ],
    ids=["unguarded", "recorded for the other stream", "one stream", "other memory"],
)
def test_memory_that_two_streams_used_before_and_after_it_was_freed(
    guard: tuple[Any, ...], streams: dict[int, frozenset[int]], pairs: list[tuple[int, int]]
) -> None:
    found = reused_blocks((*REUSED, *guard), streams)
    assert list(zip(found.used_start_ns.tolist(), found.reused_start_ns.tolist(), strict=True)) == pairs


def test_an_operator_that_allocates_what_it_writes_uses_it() -> None:
    tree = (event("aten::sum", 20, tensor(7, GPU)), block(30, -64), event("aten::add", 40, children=(block(41, 64),)))
    found = reused_blocks(tree, {20: KERNELS, 40: SIDE})
    assert (found.used_start_ns.tolist(), found.reused_start_ns.tolist()) == ([20], [40])


def test_a_recording_has_both_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On torch's own tree; here each copy counts as one between host and GPU, and is an upload."""
    monkeypatch.setattr(f"{host_accesses.__module__}.leaves_device", lambda node: node.name == "aten::copy_")
    source, target = torch.ones(8), torch.ones(8)
    with record(tmp_path / "t.json", device="cpu"):
        target.copy_(source)
        source.add_(1)
        source.sum()
    trace = open_trace(tmp_path / "t.json")
    recording = trace.metadata.recording
    assert recording is not None
    assert recording.reused_blocks is not None
    found = recording.host_accesses
    assert found is not None
    names = dict(zip(trace.cpu_ops.start_ns.tolist(), trace.names.decode(trace.cpu_ops.name_id), strict=True))
    rows = zip(found.op_start_ns.tolist(), found.tensor.tolist(), found.access.tolist(), strict=True)
    seen = [(names[start], access) for start, number, access in rows if number == found.tensor[-1]]
    assert seen == [("aten::copy_", 1), ("aten::add_", 3), ("aten::sum", 2)]
