"""``pin_memory()`` and ``non_blocking``: the cases of PyTorch's guide on them, measured on your machine.

Every line that the guide times: a copy to the GPU from pageable memory, from memory that is pinned in the loop, and
from memory that was pinned ahead of time, each blocking and not, and ``pin_memory()`` alone. For a few large tensors,
and for many small ones (a list, a ``TensorDict`` that pins on one thread or four, and one packed buffer). Then the
guide's three requirements for a copy that overlaps kernels (pinned source, side stream, free copy engine), each
violated in turn. Last the hazard: a D2H copy with ``non_blocking=True`` whose target is read too early.

`overlapscope.workloads.pinning_sweep` times these ways over many sizes.

    python -m overlapscope.workloads.pinning_guide --variant pin-then-to --trace out.json.gz
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from overlapscope.capture.annotate import annotate
from overlapscope.errors import CaptureError
from overlapscope.workloads.harness import Program, Variant, Workload, main
from overlapscope.workloads.streams import CopyStream, copy_stream, finish, on

if TYPE_CHECKING:
    import torch


class Way(StrEnum):
    """The way to copy a tensor to the GPU."""

    TO = "to"
    TO_NON_BLOCKING = "to-non-blocking"
    PIN_THEN_TO = "pin-then-to"
    PINNED_AHEAD = "pinned-ahead"
    PINNED_BLOCKING = "pinned-blocking"
    PIN_ALONE = "pin-alone"
    PIN_THEN_BLOCKING = "pin-then-blocking"
    PIN_IN_THREADS = "pin-in-threads"


class Load(StrEnum):
    """What is copied, or which requirement or hazard is shown."""

    LARGE = "large"
    LIST = "list"
    TENSORDICT = "tensordict"
    COALESCED = "coalesced"
    BESIDE_KERNELS = "beside-kernels"
    ONE_STREAM = "one-stream"
    BUSY_ENGINE = "busy-engine"
    READ_EARLY = "read-early"
    READ_AS_WRITTEN = "read-as-written"
    READ_AFTER_WAIT = "read-after-wait"


@dataclass(frozen=True)
class Choices:
    """What is copied, and how."""

    load: Load = Load.LARGE
    way: Way = Way.TO


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pass, for a data-centre GPU."""

    large: int = 6  # tensors
    large_mib: int = 64
    small: int = 600  # tensors
    small_kib: int = 64
    width: int = 4096  # of the square float32 matrices whose products the copies overlap
    matmuls: int = 4


VARIANTS = (
    Variant("to", Choices(), "a few large tensors: tensor.to(device)", "pinned-ahead"),
    Variant("to-non-blocking", Choices(way=Way.TO_NON_BLOCKING), "the same with non_blocking=True", "pinned-ahead"),
    Variant(
        "pin-then-to", Choices(way=Way.PIN_THEN_TO), "tensor.pin_memory().to(..., non_blocking=True)", "pinned-ahead"
    ),
    Variant("pin-then-blocking", Choices(way=Way.PIN_THEN_BLOCKING), "tensor.pin_memory().to(device)", "pinned-ahead"),
    Variant("pin-alone", Choices(way=Way.PIN_ALONE), "tensor.pin_memory() and no copy to the GPU"),
    Variant(
        "pinned-blocking", Choices(way=Way.PINNED_BLOCKING), "pinned before the loop: tensor.to(device)", "pinned-ahead"
    ),
    Variant("pinned-ahead", Choices(way=Way.PINNED_AHEAD), "pinned before the loop, non_blocking=True"),
    Variant("list-to", Choices(Load.LIST), "many small tensors: each .to(device)", "coalesced"),
    Variant(
        "list-to-non-blocking",
        Choices(Load.LIST, Way.TO_NON_BLOCKING),
        "each with non_blocking=True, one wait at the end",
        "coalesced",
    ),
    Variant("list-pin-then-to", Choices(Load.LIST, Way.PIN_THEN_TO), "each pinned in the loop", "coalesced"),
    Variant(
        "list-pin-then-blocking",
        Choices(Load.LIST, Way.PIN_THEN_BLOCKING),
        "each pinned in the loop, blocking copies",
        "coalesced",
    ),
    Variant(
        "list-pinned-blocking",
        Choices(Load.LIST, Way.PINNED_BLOCKING),
        "each pinned before the loop, blocking copies",
        "list-pinned-ahead",
    ),
    Variant("list-pinned-ahead", Choices(Load.LIST, Way.PINNED_AHEAD), "each pinned before the loop"),
    Variant(
        "tensordict-to",
        Choices(Load.TENSORDICT),
        "TensorDict.to(device, non_blocking=False): a wait after each",
        "coalesced",
    ),
    Variant(
        "tensordict-to-non-blocking",
        Choices(Load.TENSORDICT, Way.TO_NON_BLOCKING),
        "TensorDict.to(device, non_blocking=True): one wait at the end",
        "coalesced",
    ),
    Variant(
        "tensordict-pin-then-to",
        Choices(Load.TENSORDICT, Way.PIN_THEN_TO),
        "TensorDict.to(device, non_blocking_pin=True): pins one after the other",
        "coalesced",
    ),
    Variant(
        "tensordict-pin-in-threads",
        Choices(Load.TENSORDICT, Way.PIN_IN_THREADS),
        "TensorDict.to(device, non_blocking_pin=True, num_threads=4): pins in four threads",
        "coalesced",
    ),
    Variant(
        "tensordict-pinned-ahead", Choices(Load.TENSORDICT, Way.PINNED_AHEAD), "its tensors pinned before the loop"
    ),
    Variant(
        "coalesced",
        Choices(Load.COALESCED, Way.PINNED_AHEAD),
        "packed into one pinned buffer, copied at once, used as views",
    ),
    Variant(
        "concurrent",
        Choices(Load.BESIDE_KERNELS, Way.PINNED_AHEAD),
        "copies overlap kernels: pinned, side stream, free engine",
    ),
    Variant("concurrent-pageable", Choices(Load.BESIDE_KERNELS, Way.TO_NON_BLOCKING), "but pageable", "concurrent"),
    Variant(
        "concurrent-one-stream", Choices(Load.ONE_STREAM, Way.PINNED_AHEAD), "but on the kernels' stream", "concurrent"
    ),
    Variant(
        "concurrent-busy-engine",
        Choices(Load.BUSY_ENGINE, Way.PINNED_AHEAD),
        "but copies of another stream use the copy engine of that direction",
        "concurrent",
    ),
    Variant(
        "read-early",
        Choices(Load.READ_EARLY, Way.PINNED_AHEAD),
        "D2H copies with non_blocking=True, read at once: wrong values",
        "read-after-wait",
    ),
    Variant(
        "read-as-written",
        Choices(Load.READ_AS_WRITTEN, Way.PINNED_AHEAD),
        'cuda_tensor.to("cpu", non_blocking=True).mean(), the guide\'s own line: wrong values',
        "read-after-wait",
    ),
    Variant("read-after-wait", Choices(Load.READ_AFTER_WAIT, Way.PINNED_AHEAD), "the same, read after a synchronise"),
)


_ONE_BY_ONE = frozenset(Way) - {Way.PIN_IN_THREADS}
_BESIDE = frozenset({Way.TO_NON_BLOCKING, Way.PINNED_AHEAD})
WAYS = {
    Load.LARGE: _ONE_BY_ONE,
    Load.LIST: _ONE_BY_ONE,
    Load.TENSORDICT: frozenset({Way.TO, Way.TO_NON_BLOCKING, Way.PIN_THEN_TO, Way.PINNED_AHEAD, Way.PIN_IN_THREADS}),
    Load.BESIDE_KERNELS: _BESIDE,
    Load.ONE_STREAM: _BESIDE,
    Load.BUSY_ENGINE: _BESIDE,
}
"""The ways of each load; the others are pinned ahead."""
_PINNED = frozenset({Way.PINNED_AHEAD, Way.PINNED_BLOCKING})
_THREADS = 4
_READ = frozenset({Load.READ_EARLY, Load.READ_AS_WRITTEN, Load.READ_AFTER_WAIT})


def make(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Allocate the buffers of the chosen load; CaptureError for a way that it does not support."""
    ways = WAYS.get(choices.load, frozenset({Way.PINNED_AHEAD}))
    if choices.way not in ways:
        raise CaptureError(f"--load {choices.load} goes with --way {' or '.join(sorted(ways))}")
    if choices.load in _READ:
        return _make_hazard(choices, sizes, device)
    if choices.load in {Load.BESIDE_KERNELS, Load.ONE_STREAM, Load.BUSY_ENGINE}:
        return _make_concurrent(choices, sizes, device)
    many = choices.load is not Load.LARGE
    count = sizes.small if many else sizes.large
    numbers = (sizes.small_kib * 2**10 if many else sizes.large_mib * 2**20) // 4
    sources = host_tensors(count, numbers, pin=pinned_before(choices.way, device))
    send = _SENDERS[choices.load](sources, choices.way, device)
    arrived: list[torch.Tensor] = []

    def one_pass() -> None:
        with annotate("pinning_guide"):
            with annotate("send", color="orange"):
                arrived[:] = send()
            finish(device)

    return Program(one_pass, result=lambda: arrived)


def host_tensors(count: int, numbers: int, *, pin: bool) -> list[torch.Tensor]:
    """Separate float32 host tensors, each filled with its own number."""
    import torch

    return [torch.full((numbers,), float(index), pin_memory=pin) for index in range(count)]


def pinned_before(way: Way, device: str) -> bool:
    """Whether a way copies from memory that is pinned already."""
    return way in _PINNED and device != "cpu"


def transfer(tensor: torch.Tensor, way: Way, device: str) -> torch.Tensor:
    """Copy one tensor in one of the ways; where `pinned_before` says so, it has to be pinned already."""
    if way in {Way.TO, Way.PINNED_BLOCKING}:
        return tensor.to(device)
    if way in {Way.PIN_ALONE, Way.PIN_THEN_TO, Way.PIN_THEN_BLOCKING} and device != "cpu":
        tensor = tensor.pin_memory()
    if way is Way.PIN_ALONE:
        return tensor
    return tensor.to(device, non_blocking=way is not Way.PIN_THEN_BLOCKING)


Sender = Callable[[], "list[torch.Tensor]"]


def _each(sources: list[torch.Tensor], way: Way, device: str) -> Sender:
    return lambda: [transfer(tensor, way, device) for tensor in sources]


def _as_tensordict(sources: list[torch.Tensor], way: Way, device: str) -> Sender:
    if find_spec("tensordict") is None:
        raise CaptureError("this variant needs tensordict: pip install tensordict")
    from tensordict import TensorDict

    names = [str(index) for index in range(len(sources))]
    together = TensorDict(dict(zip(names, sources, strict=True)), batch_size=[])
    pin = device != "cpu"
    of_way: dict[Way, dict[str, Any]] = {
        Way.TO: {"non_blocking": False},
        Way.PIN_THEN_TO: {"non_blocking_pin": pin},
        Way.PIN_IN_THREADS: {"non_blocking_pin": pin, "num_threads": _THREADS},
    }
    options = of_way.get(way, {"non_blocking": True})

    def send() -> list[torch.Tensor]:
        moved = together.to(device, **options)
        return [moved[name] for name in names]

    return send


def _coalesced(sources: list[torch.Tensor], way: Way, device: str) -> Sender:
    import torch

    del way  # one buffer, pinned once
    sizes = [tensor.numel() for tensor in sources]
    buffer = torch.empty(sum(sizes), pin_memory=device != "cpu")

    def send() -> list[torch.Tensor]:
        torch.cat(sources, out=buffer)
        return list(torch.split(buffer.to(device, non_blocking=True), sizes))

    return send


_SENDERS: dict[Load, Callable[[list[Any], Way, str], Sender]] = {
    Load.LARGE: _each,
    Load.LIST: _each,
    Load.TENSORDICT: _as_tensordict,
    Load.COALESCED: _coalesced,
}


def _make_concurrent(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Copies that overlap matrix products, with one of the three requirements violated, or none.

    Copies of another stream run at the same time: D2H copies with a copy engine of their own, or H2D copies.
    """
    import torch

    pin = choices.way is Way.PINNED_AHEAD and device != "cpu"
    sources = host_tensors(sizes.large, sizes.large_mib * 2**18, pin=pin)
    theirs = host_tensors(sizes.large, sizes.large_mib * 2**18, pin=device != "cpu")
    places = [torch.empty_like(tensor, device=device) for tensor in theirs]
    moves = (
        [*zip(places, theirs, strict=True)] if choices.load is Load.BUSY_ENGINE else [*zip(theirs, places, strict=True)]
    )
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(sizes.width, sizes.width, generator=generator).to(device)
    product = torch.zeros_like(matrix)
    arrived: list[torch.Tensor] = []
    side = copy_stream(CopyStream.SAME if choices.load is Load.ONE_STREAM else CopyStream.SIDE, device)
    other = copy_stream(CopyStream.SIDE, device)

    def one_pass() -> None:
        with annotate("pinning_guide"):
            with annotate("other copies", color="red"), on(other):
                for target, source in moves:
                    target.copy_(source, non_blocking=True)
            with annotate("send", color="orange"), on(side):
                arrived[:] = [tensor.to(device, non_blocking=True) for tensor in sources]
            with annotate("matmul", color="green"):
                for _ in range(sizes.matmuls):
                    torch.mm(matrix, matrix, out=product)
            finish(device)

    return Program(one_pass, result=lambda: [*arrived, product])


def _make_hazard(choices: Choices, sizes: Sizes, device: str) -> Program:
    """Copy a result to pinned memory after queued kernels, and sum it on the host."""
    import torch

    numbers = sizes.large_mib * 2**18
    matrix = torch.randn(sizes.width, sizes.width, device=device)
    result = torch.zeros(numbers, device=device)
    place = torch.zeros(numbers, pin_memory=device != "cpu")
    read: list[float] = []
    passes = 0

    def copied() -> torch.Tensor:
        if choices.load is Load.READ_AS_WRITTEN:
            return result.to("cpu", non_blocking=True)  # torch makes the target, in pinned memory
        return place.copy_(result, non_blocking=True)

    def one_pass() -> None:
        nonlocal passes
        passes += 1
        with annotate("pinning_guide"):
            with annotate("compute", color="green"):
                torch.mm(matrix, matrix)
                result.fill_(passes)
            with annotate("copy to host", color="orange"):
                arrived = copied()
            if choices.load is Load.READ_AFTER_WAIT:
                finish(device)
            with annotate("read", color="red"):
                read.append(float(arrived.mean()))
            finish(device)

    def facts() -> dict[str, Any]:
        wrong = sum(value != number for number, value in enumerate(read, 1))
        return {"checksums_read": len(read), "checksums_wrong": wrong}

    return Program(one_pass, result=lambda: list(read), facts=facts)


WORKLOAD = Workload(
    module="overlapscope.workloads.pinning_guide",
    question="What do pin_memory() and non_blocking=True do for a copy, and when is it unsafe?",
    variants=VARIANTS,
    sizes=Sizes(),
    on_cpu=Sizes(large=2, large_mib=1, small=5, small_kib=1, width=64, matmuls=2),
    make=make,
)
build, measure = WORKLOAD.build, WORKLOAD.measure

if __name__ == "__main__":
    main(WORKLOAD)
