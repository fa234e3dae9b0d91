"""Programs that use two GPUs of one host from one process, written before their predictions were looked at.

Each makes what its step needs and returns one step, faulty or fixed; ``recording`` says how they are run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.nn import functional

from benchmarks.pairs.recording import Step, main

GPUS = ("cuda:0", "cuda:1")


def pipeline_stages(*, fixed: bool) -> Step:
    """Micro-batches go through a wide layer, half on either GPU; what is handed over is copied on the compute streams.

    Mended: on a stream of its own on both, with two buffers on either side.
    """
    count, tokens, width, inner, half = 8, 8192, 4096, 16384, torch.bfloat16
    mains, sides = main_streams(), side_streams()
    batches = [torch.randn(tokens, width, device=GPUS[0]).to(half) for _ in range(count)]
    widen, narrow = matrix(GPUS[0], width, inner, dtype=half), matrix(GPUS[1], inner, width, dtype=half)
    sent, received = ([torch.zeros(tokens, inner, dtype=half, device=gpu) for _ in range(2)] for gpu in GPUS)
    made, left, arrived, used = (events(2) for _ in range(4))
    result = torch.zeros(count, width, dtype=half, device=GPUS[1])
    finish()

    def hand_over(slot: int) -> None:
        if not fixed:
            received[slot].copy_(sent[slot])
            return
        made[slot].record(mains[0])
        sides[0].wait_event(made[slot])
        sides[1].wait_event(used[slot])
        with on_both(sides):
            received[slot].copy_(sent[slot])
        left[slot].record(sides[0])
        arrived[slot].record(sides[1])
        mains[1].wait_event(arrived[slot])

    def step() -> None:
        for index, batch in enumerate(batches):
            slot = index % 2
            if fixed:
                mains[0].wait_event(left[slot])
            torch.mm(batch, widen, out=sent[slot]).relu_()
            hand_over(slot)
            torch.mean(received[slot] @ narrow, dim=0, out=result[index])
            if fixed:
                used[slot].record(mains[1])
        finish()

    return step


def replicas(*, fixed: bool) -> Step:
    """One thread trains a replica on either GPU with batches from pageable memory, and both exchange their gradients.

    Mended: the batches are pinned; copying them still waits.
    """
    rounds, rows, width = 4, 1536, 4096
    batches = [[torch.randn(rows, width, device=gpu).cpu() for gpu in GPUS] for _ in range(rounds)]
    if fixed:
        batches = [[each.pin_memory() for each in pair] for pair in batches]
    weights = [on_each(matrix(GPUS[0], width, width)) for _ in range(2)]
    gradients, theirs = ([[torch.zeros(width, width, device=gpu) for gpu in GPUS] for _ in range(2)] for _ in range(2))

    def learn(rank: int, batch: torch.Tensor) -> None:
        encode, decode = weights[0][rank], weights[1][rank]
        code = torch.relu(batch @ encode)
        error = (code @ decode).sub_(batch)
        torch.mm(code.T, error, out=gradients[1][rank])
        back = (error @ decode.T).mul_(code > 0)
        torch.mm(batch.T, back, out=gradients[0][rank])

    def exchange() -> None:
        for weight, gradient, other in zip(weights, gradients, theirs, strict=True):
            add_up(gradient, other)
            for rank in range(len(GPUS)):
                weight[rank].add_(gradient[rank], alpha=-1e-7)

    def step() -> None:
        for pair in batches:
            for rank, (gpu, batch) in enumerate(zip(GPUS, pair, strict=True)):
                learn(rank, batch.to(gpu))
            exchange()
        finish()

    return step


def thread_per_gpu(*, fixed: bool) -> Step:
    """A thread for each GPU sends stacks of frames from pageable memory, filters them, and waits for the results.

    The first has more stacks, the second larger ones. Mended: pinned in both directions, and asynchronous.
    """
    amounts, depths, side, kept = (4, 3), (8, 12), 1024, 256
    frames = [
        [torch.rand(depth, side, side, device=gpu).cpu() for _ in range(amount)]
        for gpu, amount, depth in zip(GPUS, amounts, depths, strict=True)
    ]
    if fixed:
        frames = [[each.pin_memory() for each in stacks] for stacks in frames]
    results = [[torch.zeros(len(each), side, kept, pin_memory=fixed) for each in stacks] for stacks in frames]
    slots = [torch.zeros(depth, side, side, device=gpu) for gpu, depth in zip(GPUS, depths, strict=True)]
    filters = [[matrix(gpu, side, size) for size in (side, side, kept)] for gpu in GPUS]
    requests: list[queue.SimpleQueue[None]] = [queue.SimpleQueue() for _ in GPUS]
    done: queue.SimpleQueue[int] = queue.SimpleQueue()

    def serve(rank: int) -> None:
        torch.cuda.set_device(rank)
        while True:
            requests[rank].get()
            for stack, result in zip(frames[rank], results[rank], strict=True):
                filtered = slots[rank].copy_(stack, non_blocking=fixed)
                for each in filters[rank]:
                    filtered = torch.tanh(filtered @ each)
                result.copy_(filtered, non_blocking=fixed)
            done.put(rank)

    for rank in range(len(GPUS)):
        threading.Thread(target=serve, args=(rank,), daemon=True).start()

    def step() -> None:
        for each in requests:
            each.put(None)
        for _ in requests:
            done.get()
        finish()

    return step


def checked_halves(*, fixed: bool) -> Step:
    """A model is split over both GPUs; the host reads the largest activation between its halves, and each loss.

    Mended: it reads them once, at the end (none is ever too large), so that the halves work at the same time.
    """
    count, rows, width, limit = 6, 2048, 4096, 1e4
    batches, wanted = ([torch.randn(rows, width, device=gpu) for _ in range(count)] for gpu in GPUS)
    weights = [[matrix(gpu, width, width) for _ in range(2)] for gpu in GPUS]
    peaks, losses = (torch.zeros(count, device=gpu) for gpu in GPUS)

    def through(rank: int, hidden: torch.Tensor) -> torch.Tensor:
        for each in weights[rank]:
            hidden = functional.gelu(functional.rms_norm(hidden, (width,)) @ each)
        return hidden

    def step() -> None:
        total = 0.0
        for index, batch in enumerate(batches):
            hidden = through(0, batch)
            torch.amax(hidden.abs(), dim=(0, 1), out=peaks[index])
            if not fixed and peaks[index].item() > limit:
                break
            errors = through(1, hidden.to(GPUS[1])).sub_(wanted[index])
            torch.mean(errors.square_(), dim=(0, 1), out=losses[index])
            if not fixed:
                total += losses[index].item()
        if fixed:
            total = sum(losses.tolist()) if max(peaks.tolist()) < limit else 0.0
        finish()

    return step


def streamed_halves(*, fixed: bool) -> Step:
    """The halves of each layer's weights are copied from pinned memory to their GPUs when needed, one after the other.

    The GPUs add up what their halves make. Mended: two layers ahead, asynchronously, on a stream of its own on each.
    """
    layers, tokens, width, half = 8, 8192, 4096, torch.bfloat16
    ahead, shape = 2 if fixed else 0, (2, width, width)
    mains, sides = main_streams(), side_streams()
    stored = [[pinned(matrix(gpu, *shape, dtype=half)) for gpu in GPUS] for _ in range(layers)]
    slots = on_each(torch.zeros(ahead + 1, *shape, dtype=half, device=GPUS[0]))
    ready, free = ([events(number) for _ in GPUS] for number in (layers, ahead + 1))
    prompt = torch.randn(tokens, width, device=GPUS[0]).to(half)
    prompts, theirs = on_each(prompt), on_each(torch.zeros_like(prompt))
    result = torch.zeros(width, dtype=half, device=GPUS[1])
    finish()

    def fetch(index: int) -> None:
        slot = index % (ahead + 1)
        for rank, stream in enumerate(sides if fixed else mains):
            if fixed:
                stream.wait_event(free[rank][slot])
            with torch.cuda.stream(stream):
                slots[rank][slot].copy_(stored[index][rank], non_blocking=fixed)
            ready[rank][index].record(stream)

    def part(rank: int, index: int, hidden: torch.Tensor) -> torch.Tensor:
        slot = index % (ahead + 1)
        mains[rank].wait_event(ready[rank][index])
        up, down = slots[rank][slot]
        made: torch.Tensor = functional.gelu(functional.rms_norm(hidden, (width,)) @ up) @ down
        free[rank][slot].record(mains[rank])
        return made

    def layer(index: int, hidden: list[torch.Tensor]) -> list[torch.Tensor]:
        parts = [part(rank, index, each) for rank, each in enumerate(hidden)]
        add_up(parts, theirs)
        return [old.add(new) for old, new in zip(hidden, parts, strict=True)]

    def step() -> None:
        hidden = prompts
        for index in range(ahead):
            fetch(index)
        for index in range(layers):
            if index + ahead < layers:
                fetch(index + ahead)
            hidden = layer(index, hidden)
        result.copy_(hidden[1][-1])
        finish()

    return step


def coupled_models(*, fixed: bool) -> Step:
    """A model of the air on one GPU and one of the sea on the other take small time steps, launched from one thread.

    After each round they tell each other how warm they are. Mended: the time steps of a round are a graph on each.
    """
    rounds, side, layers, between = 8, 96, 32, (16, 24)
    begin_air, begin_sea = (torch.randn(size, side, device=gpu) for size, gpu in zip((side, layers), GPUS, strict=True))
    air, sea = torch.zeros_like(begin_air), torch.zeros_like(begin_sea)
    from_sea, from_air = (torch.zeros(side, device=gpu) for gpu in GPUS)
    mixing = matrix(GPUS[1], layers, layers)
    history = torch.zeros(rounds, side, device=GPUS[1])

    def blow() -> None:
        for _ in range(between[0]):
            east, north = torch.roll(air, 1, 1) - air, torch.roll(air, 1, 0) - air
            change = torch.sigmoid(air) * (east + north)
            air.add_(change, alpha=0.05).add_(from_sea, alpha=0.01).mul_(0.99)

    def flow() -> None:
        for _ in range(between[1]):
            mixed = mixing @ sea
            drift = torch.roll(mixed, 1, 1).sub_(mixed)
            sea.lerp_(torch.tanh(mixed + drift), 0.1)
            sea[0].add_(from_air, alpha=0.01)

    graphs = [captured_on(gpu, each) for gpu, each in zip(GPUS, (blow, flow), strict=True)] if fixed else []

    def advance() -> None:
        if not fixed:
            blow()
            flow()
        for gpu, graph in zip(GPUS, graphs, strict=False):
            with torch.cuda.device(gpu):
                graph.replay()

    def step() -> None:
        air.copy_(begin_air)
        sea.copy_(begin_sea)
        from_sea.zero_()
        from_air.zero_()
        for warmth in history:
            advance()
            from_air.copy_(air[-1])
            from_sea.copy_(sea[0])
            torch.add(from_air, sea[0], out=warmth)
        finish()

    return step


def two_towers(*, fixed: bool) -> Step:
    """The many small columns of users go to one GPU and those of things to the other, one by one; each loss is read.

    Mended: those of a GPU are gathered in a pinned buffer and copied as one, and the losses are read at the end.
    """
    count, rows, kinds, seen = 16, 256, (1, 4, 8, 16), (16, 20)
    widths = [kinds * times for times in seen]
    columns = [[[torch.rand(rows, width) for width in of_one] for of_one in widths] for _ in range(count)]
    totals = [rows * sum(of_one) for of_one in widths]
    staging = [[torch.zeros(total, pin_memory=True) for total in totals] for _ in range(count)]
    loaded = [torch.zeros(total, device=gpu) for total, gpu in zip(totals, GPUS, strict=True)]
    places = [views(*each) for each in zip(loaded, widths, strict=True)]
    towers = [
        [matrix(gpu, *shape) for shape in ((sum(of_one), 1024), (1024, 1024), (1024, 128))]
        for gpu, of_one in zip(GPUS, widths, strict=True)
    ]
    same = torch.arange(rows, device=GPUS[0])
    losses = torch.zeros(count, device=GPUS[0])

    def send(index: int, rank: int) -> None:
        if fixed:
            torch.cat([each.view(-1) for each in columns[index][rank]], out=staging[index][rank])
            loaded[rank].copy_(staging[index][rank], non_blocking=True)
            return
        for place, column in zip(places[rank], columns[index][rank], strict=True):
            place.copy_(column, non_blocking=True)

    def describe(rank: int) -> torch.Tensor:
        hidden = torch.cat(places[rank], 1)
        for each in towers[rank]:
            hidden = torch.tanh(hidden @ each)
        return hidden

    def step() -> None:
        total = 0.0
        for index in range(count):
            send(index, 0)
            send(index, 1)
            users, things = describe(0), describe(1).to(GPUS[0])
            losses[index].copy_(functional.cross_entropy(users @ things.T, same))
            if not fixed:
                total += losses[index].item()
        if fixed:
            total = sum(losses.tolist())
        finish()

    return step


def finish() -> None:
    """Wait for both GPUs."""
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)


def main_streams() -> list[torch.cuda.Stream]:
    return [torch.cuda.current_stream(gpu) for gpu in GPUS]


def side_streams() -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(gpu) for gpu in GPUS]


def events(number: int) -> list[torch.cuda.Event]:
    return [torch.cuda.Event() for _ in range(number)]


@contextmanager
def on_both(streams: Sequence[torch.cuda.Stream]) -> Iterator[None]:
    """Copies between the GPUs in here wait for these streams and are waited for by them, and by no others."""
    with torch.cuda.stream(streams[0]), torch.cuda.stream(streams[1]):
        yield


def matrix(gpu: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=gpu).div_(shape[-2] ** 0.5).to(dtype)


def on_each(tensor: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.to(gpu) for gpu in GPUS]


def add_up(mine: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> None:
    """The sum of what both GPUs have, on both; what came from the other is in ``theirs``."""
    theirs[0].copy_(mine[1])
    theirs[1].copy_(mine[0])
    for each, other in zip(mine, theirs, strict=True):
        each.add_(other)


def pinned(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)


def views(whole: torch.Tensor, widths: Sequence[int]) -> list[torch.Tensor]:
    """The columns of these widths, all as long, that lie one after the other."""
    rows = len(whole) // sum(widths)
    return [each.view(rows, -1) for each in whole.split([rows * width for width in widths])]


def captured_on(gpu: str, work: Step) -> torch.cuda.CUDAGraph:
    """The work as a graph of that GPU; torch's own stream for capturing belongs to the first that captured."""
    with torch.cuda.device(gpu):
        side = torch.cuda.Stream(gpu)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for _ in range(2):
                work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(gpu)):
            work()
        torch.cuda.synchronize()
    return graph


PROGRAMS = (
    pipeline_stages,
    replicas,
    thread_per_gpu,
    checked_halves,
    streamed_halves,
    coupled_models,
    two_towers,
)


if __name__ == "__main__":
    main(PROGRAMS, __doc__ or "")
